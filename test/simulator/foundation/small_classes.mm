// Classes too small for a file of their own.
#include "foundation/copying.h"
#include "foundation/string.h"
#include "support/error.h"
#include "support/settings.h"

#include <CoreFoundation/CoreFoundation.h>
#include <Foundation/Foundation.h>
#include <mach-o/dyld.h>
#include <mach-o/getsect.h>
#include <mach/vm_page_size.h>
#include <os/object.h>

#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <sys/sysinfo.h>
#include <unistd.h>

using namespace mps_simulator;

@implementation NSNull

SUPPORTS_SECURE_CODING

+ (NSNull*)null {
  static NSNull* const shared = [[NSNull alloc] init];
  return shared;
}

COPIES_BY_RETAINING

- (NSString*)description {
  return @"<null>";
}

@end

@implementation NSDate {
  NSTimeInterval _seconds; // since 1970
}

SUPPORTS_SECURE_CODING

+ (instancetype)date {
  return [self dateWithTimeIntervalSinceNow:0];
}

+ (instancetype)dateWithTimeIntervalSinceNow:(NSTimeInterval)seconds {
  return [self dateWithTimeIntervalSince1970:clock_gettime_nsec_np(CLOCK_REALTIME) / 1e9 + seconds];
}

+ (instancetype)dateWithTimeIntervalSince1970:(NSTimeInterval)seconds {
  return [[[self alloc] initWithTimeIntervalSince1970:seconds] autorelease];
}

- (instancetype)init {
  return [self initWithTimeIntervalSince1970:clock_gettime_nsec_np(CLOCK_REALTIME) / 1e9];
}

- (instancetype)initWithTimeIntervalSince1970:(NSTimeInterval)seconds {
  _seconds = seconds;
  return self;
}

COPIES_BY_RETAINING

- (NSTimeInterval)timeIntervalSince1970 {
  return _seconds;
}

- (NSTimeInterval)timeIntervalSinceNow {
  return [self timeIntervalSinceDate:[NSDate date]];
}

- (NSTimeInterval)timeIntervalSinceDate:(NSDate*)other {
  return _seconds - other->_seconds;
}

@end

@implementation NSLock {
  std::mutex _mutex;
}

- (void)lock {
  _mutex.lock();
}

- (BOOL)tryLock {
  return _mutex.try_lock();
}

- (void)unlock {
  _mutex.unlock();
}

@end

@implementation NSRecursiveLock {
  std::recursive_mutex _mutex;
}

- (void)lock {
  _mutex.lock();
}

- (BOOL)tryLock {
  return _mutex.try_lock();
}

- (void)unlock {
  _mutex.unlock();
}

@end

@implementation NSAutoreleasePool

- (instancetype)init {
  _pool = objc_autoreleasePoolPush();
  return self;
}

- (instancetype)retain {
  VIOLATION("pools cannot be retained");
}

- (instancetype)autorelease {
  VIOLATION("pools cannot be autoreleased");
}

- (void)drain {
  [self release];
}

- (void)dealloc {
  objc_autoreleasePoolPop(_pool);
  [super dealloc];
}

@end

NSErrorDomain const NSCocoaErrorDomain = @"NSCocoaErrorDomain";
NSErrorDomain const NSPOSIXErrorDomain = @"NSPOSIXErrorDomain";
NSErrorUserInfoKey const NSLocalizedDescriptionKey = @"NSLocalizedDescription";
NSErrorUserInfoKey const NSLocalizedFailureReasonErrorKey = @"NSLocalizedFailureReason";
NSErrorUserInfoKey const NSUnderlyingErrorKey = @"NSUnderlyingError";

@implementation NSError {
  NSString* _domain;
  NSInteger _code;
  NSDictionary* _userInfo;
}

SUPPORTS_SECURE_CODING

+ (instancetype)errorWithDomain:(NSErrorDomain)domain code:(NSInteger)code userInfo:(NSDictionary*)userInfo {
  return [[[self alloc] initWithDomain:domain code:code userInfo:userInfo] autorelease];
}

- (instancetype)initWithDomain:(NSErrorDomain)domain code:(NSInteger)code userInfo:(NSDictionary*)userInfo {
  _domain = [domain copy];
  _code = code;
  _userInfo = userInfo == nil ? [[NSDictionary alloc] init] : [userInfo copy];
  return self;
}

- (void)dealloc {
  [_domain release];
  [_userInfo release];
  [super dealloc];
}

COPIES_BY_RETAINING

- (NSErrorDomain)domain {
  return _domain;
}

- (NSInteger)code {
  return _code;
}

- (NSDictionary*)userInfo {
  return _userInfo;
}

- (NSString*)localizedDescription {
  NSString* description = _userInfo[NSLocalizedDescriptionKey];
  if (description != nil) {
    return description;
  }
  NSString* reason = self.localizedFailureReason;
  return reason != nil
      ? [NSString stringWithFormat:@"The operation couldn’t be completed. %@", reason]
      : [NSString stringWithFormat:@"The operation couldn’t be completed. (%@ error %ld.)", _domain, _code];
}

- (NSString*)localizedFailureReason {
  return _userInfo[NSLocalizedFailureReasonErrorKey];
}

- (BOOL)isEqual:(id)object {
  if (self == object) {
    return YES;
  }
  if (![object isKindOfClass:[NSError class]]) {
    return NO;
  }
  NSError* other = object;
  return _code == other->_code && [_domain isEqualToString:other->_domain] && [_userInfo isEqual:other->_userInfo];
}

- (NSUInteger)hash {
  return _domain.hash ^ static_cast<NSUInteger>(_code);
}

- (NSString*)description {
  return [NSString stringWithFormat:@"Error Domain=%@ Code=%ld \"%@\"", _domain, _code, self.localizedDescription];
}

@end

@implementation NSURL {
  std::string _scheme;
  std::string _path; // of a file URL: absolute; otherwise all that follows the scheme
}

SUPPORTS_SECURE_CODING

+ (instancetype)URLWithString:(NSString*)string {
  return [[[self alloc] initWithString:string] autorelease];
}

+ (NSURL*)fileURLWithPath:(NSString*)path {
  return [[[self alloc] initFileURLWithPath:path] autorelease];
}

+ (NSURL*)fileURLWithPath:(NSString*)path isDirectory:(BOOL)isDirectory {
  return [self fileURLWithPath:path];
}

- (instancetype)initWithString:(NSString*)string {
  const std::string text = to_std_string(string);
  const size_t colon = text.find(':');
  if (colon == text.npos) {
    [self release];
    return nil;
  }
  _scheme = text.substr(0, colon);
  _path = text.substr(colon + 1);
  if (_scheme == "file" && _path.compare(0, 2, "//") == 0) {
    _path.erase(0, 2);
  }
  return self;
}

- (instancetype)initFileURLWithPath:(NSString*)path {
  if (path.length == 0) {
    VIOLATION("the path is empty");
  }
  _scheme = "file";
  _path = to_std_string(path);
  if (_path[0] != '/') {
    char directory[PATH_MAX];
    if (getcwd(directory, sizeof(directory)) != nullptr) {
      _path = std::string(directory) + "/" + _path;
    }
  }
  return self;
}

COPIES_BY_RETAINING

- (NSString*)absoluteString {
  return to_ns_string(_scheme + (self.isFileURL ? "://" : ":") + _path);
}

- (NSString*)path {
  return to_ns_string(_path);
}

- (NSString*)scheme {
  return to_ns_string(_scheme);
}

- (const char*)fileSystemRepresentation {
  return _path.c_str();
}

- (BOOL)isFileURL {
  return _scheme == "file";
}

- (BOOL)isEqual:(id)object {
  return self == object ||
      ([object isKindOfClass:[NSURL class]] && [self.absoluteString isEqualToString:[object absoluteString]]);
}

- (NSUInteger)hash {
  return self.absoluteString.hash;
}

- (NSString*)description {
  return self.absoluteString;
}

@end

extern char** environ;

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

Class NSClassFromString(NSString* name) {
  return objc_lookUpClass(name.UTF8String);
}

NSString* NSStringFromClass(Class cls) {
  return cls == Nil ? nil : to_ns_string(class_getName(cls));
}

SEL NSSelectorFromString(NSString* name) {
  return sel_registerName(name.UTF8String);
}

NSString* NSStringFromSelector(SEL selector) {
  return selector == nullptr ? nil : to_ns_string(sel_getName(selector));
}

NSString* NSStringFromProtocol(Protocol* protocol) {
  return protocol == nil ? nil : to_ns_string(protocol_getName(protocol));
}

void NSLogv(NSString* format, va_list arguments) {
  std::fprintf(stderr, "%s\n", format_string(string_view_of(format), arguments).c_str());
}

void NSLog(NSString* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  NSLogv(format, arguments);
  va_end(arguments);
}

// What the kernel, dyld and CoreFoundation answer in the simulator.

size_t vm_page_size = 16384;
size_t vm_page_mask = 16383;
int vm_page_shift = 14;

// No Mach-O image is loaded, so nothing can be read from one.
uint32_t _dyld_image_count(void) {
  return 0;
}

const struct mach_header* _dyld_get_image_header(uint32_t image_index) {
  return nullptr;
}

const char* _dyld_get_image_name(uint32_t image_index) {
  return nullptr;
}

uint8_t* getsectiondata(const struct mach_header_64* header,
                        const char* segment_name,
                        const char* section_name,
                        unsigned long* size) {
  return nullptr;
}

void* os_retain(void* object) {
  return [(id)object retain];
}

void os_release(void* object) {
  [(id)object release];
}

CFTypeRef CFRetain(CFTypeRef object) {
  return [(id)object retain];
}

void CFRelease(CFTypeRef object) {
  [(id)object release];
}

CFIndex CFGetRetainCount(CFTypeRef object) {
  return [(id)object retainCount];
}

CFAbsoluteTime CFAbsoluteTimeGetCurrent(void) {
  // Counted from the first of January 2001.
  return clock_gettime_nsec_np(CLOCK_REALTIME) / 1e9 - 978307200.0;
}
