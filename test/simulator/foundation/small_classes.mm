// Classes too small for a file of their own.
#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <mutex>

using namespace mps_simulator;

@implementation NSNull

+ (BOOL)supportsSecureCoding {
  return YES;
}

+ (NSNull*)null {
  static NSNull* const shared = [[NSNull alloc] init];
  return shared;
}

- (id)copyWithZone:(NSZone*)zone {
  return [self retain];
}

- (NSString*)description {
  return @"<null>";
}

@end

@implementation NSDate {
  NSTimeInterval _seconds; // since 1970
}

+ (BOOL)supportsSecureCoding {
  return YES;
}

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

- (id)copyWithZone:(NSZone*)zone {
  return [self retain];
}

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
