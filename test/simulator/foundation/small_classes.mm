// Classes too small for a file of their own.
#include "foundation/copying.h"
#include "foundation/string.h"
#include "support/error.h"
#include "support/settings.h"

#include <Foundation/Foundation.h>
#include <mach-o/dyld.h>
#include <mach-o/getsect.h>
#include <mach/vm_page_size.h>
#include <os/object.h>

#include <cstdarg>
#include <cstdio>
#include <tuple>

using namespace mps_simulator;

NSErrorUserInfoKey const NSLocalizedDescriptionKey = @"NSLocalizedDescription";

@implementation NSError

SUPPORTS_SECURE_CODING

+ (instancetype)errorWithDomain:(NSErrorDomain)domain code:(NSInteger)code userInfo:(NSDictionary*)userInfo {
  NSError* error = [[[self alloc] init] autorelease];
  error->_domain = [domain copy];
  error->_code = code;
  error->_userInfo = [userInfo copy];
  return error;
}

- (void)dealloc {
  [_domain release];
  [_userInfo release];
  [super dealloc];
}

COPIES_BY_RETAINING

- (NSString*)localizedDescription {
  return _userInfo[NSLocalizedDescriptionKey];
}

- (NSString*)description {
  return [NSString stringWithFormat:@"Error Domain=%@ Code=%ld \"%@\"", _domain, _code, self.localizedDescription];
}

@end

// Of files.
@implementation NSURL

SUPPORTS_SECURE_CODING

+ (NSURL*)fileURLWithPath:(NSString*)path {
  if (path.length == 0) {
    VIOLATION("the path is empty");
  }
  NSURL* url = [[[self alloc] init] autorelease];
  url->_path = [path copy];
  return url;
}

- (void)dealloc {
  [_path release];
  [super dealloc];
}

COPIES_BY_RETAINING

@end

@implementation NSProcessInfo

+ (NSProcessInfo*)processInfo {
  static NSProcessInfo* const shared = [[NSProcessInfo alloc] init];
  return shared;
}

- (BOOL)isOperatingSystemAtLeastVersion:(NSOperatingSystemVersion)version {
  return std::tuple(settings().macos_major, settings().macos_minor, 0) >=
      std::tuple(version.majorVersion, version.minorVersion, version.patchVersion);
}

@end

Class NSClassFromString(NSString* name) {
  return objc_lookUpClass(name.UTF8String);
}

void NSLog(NSString* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "%s\n", format_string(string_view_of(format), arguments).c_str());
  va_end(arguments);
}

// What the kernel and dyld answer in the simulator.

size_t vm_page_size = 16384;

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

dispatch_data_t dispatch_data_create(const void* buffer, size_t size, dispatch_queue_t queue, dispatch_block_t block) {
  UNSUPPORTED_CALL();
}

void os_release(void* object) {
  [(id)object release];
}
