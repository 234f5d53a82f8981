#include "foundation/string.h"

#include <Foundation/Foundation.h>

using namespace mps_simulator;

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

+ (BOOL)supportsSecureCoding {
  return YES;
}

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

- (id)copyWithZone:(NSZone*)zone {
  return [self retain];
}

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
