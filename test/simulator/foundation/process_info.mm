#include "foundation/string.h"
#include "support/settings.h"

#include <Foundation/Foundation.h>

#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstring>
#include <ctime>

extern char** environ;

using namespace mps_simulator;

@implementation NSProcessInfo

+ (NSProcessInfo*)processInfo {
  static NSProcessInfo* const shared = [[NSProcessInfo alloc] init];
  return shared;
}

- (NSOperatingSystemVersion)operatingSystemVersion {
  return {settings().macos_major, settings().macos_minor, 0};
}

- (BOOL)isOperatingSystemAtLeastVersion:(NSOperatingSystemVersion)version {
  const NSOperatingSystemVersion present = self.operatingSystemVersion;
  if (present.majorVersion != version.majorVersion) {
    return present.majorVersion > version.majorVersion;
  }
  if (present.minorVersion != version.minorVersion) {
    return present.minorVersion > version.minorVersion;
  }
  return present.patchVersion >= version.patchVersion;
}

- (NSString*)operatingSystemVersionString {
  const NSOperatingSystemVersion present = self.operatingSystemVersion;
  return [NSString stringWithFormat:@"Version %ld.%ld (simulated)", present.majorVersion, present.minorVersion];
}

- (NSDictionary<NSString*, NSString*>*)environment {
  NSMutableDictionary<NSString*, NSString*>* variables = [NSMutableDictionary dictionary];
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (const char* equals = std::strchr(*entry, '=')) {
      variables[to_ns_string({*entry, static_cast<size_t>(equals - *entry)})] = to_ns_string(equals + 1);
    }
  }
  return variables;
}

- (NSString*)processName {
  return to_ns_string(program_invocation_short_name);
}

- (int)processIdentifier {
  return getpid();
}

- (NSUInteger)processorCount {
  return get_nprocs_conf();
}

- (NSUInteger)activeProcessorCount {
  return get_nprocs();
}

- (unsigned long long)physicalMemory {
  return static_cast<unsigned long long>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

- (NSTimeInterval)systemUptime {
  return clock_gettime_nsec_np(CLOCK_UPTIME_RAW) / 1e9;
}

@end
