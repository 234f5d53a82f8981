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
#include <unistd.h>

using namespace mps_simulator;

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

NSErrorUserInfoKey const NSLocalizedDescriptionKey = @"NSLocalizedDescription";

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
  return description != nil
      ? description
      : [NSString stringWithFormat:@"The operation couldn’t be completed. (%@ error %ld.)", _domain, _code];
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

// Of files.
@implementation NSURL {
  std::string _path; // absolute
}

SUPPORTS_SECURE_CODING

+ (NSURL*)fileURLWithPath:(NSString*)path {
  return [[[self alloc] initFileURLWithPath:path] autorelease];
}

- (instancetype)initFileURLWithPath:(NSString*)path {
  if (path.length == 0) {
    VIOLATION("the path is empty");
  }
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
  return to_ns_string("file://" + _path);
}

- (NSString*)path {
  return to_ns_string(_path);
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

void NSLog(NSString* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "%s\n", format_string(string_view_of(format), arguments).c_str());
  va_end(arguments);
}

// What the kernel, dyld and CoreFoundation answer in the simulator.

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

void os_release(void* object) {
  [(id)object release];
}

void CFRelease(CFTypeRef object) {
  [(id)object release];
}
