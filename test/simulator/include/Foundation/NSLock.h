#pragma once

#include <Foundation/NSObject.h>

@protocol NSLocking
- (void)lock;
- (void)unlock;
@end

@interface NSLock : NSObject <NSLocking>
- (BOOL)tryLock;
@end

@interface NSRecursiveLock : NSObject <NSLocking>
- (BOOL)tryLock;
@end
