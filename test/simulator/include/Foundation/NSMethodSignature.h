#pragma once

#include <Foundation/NSObject.h>

@interface NSMethodSignature : NSObject
+ (NSMethodSignature*)signatureWithObjCTypes:(const char*)types;
@property(readonly) NSUInteger numberOfArguments;
- (const char*)getArgumentTypeAtIndex:(NSUInteger)index;
@property(readonly) NSUInteger frameLength;
@property(readonly) const char* methodReturnType;
@property(readonly) NSUInteger methodReturnLength;
- (BOOL)isOneway;
@end
