#pragma once

#include <Foundation/NSMethodSignature.h>
#include <Foundation/NSObject.h>

@interface NSInvocation : NSObject
+ (NSInvocation*)invocationWithMethodSignature:(NSMethodSignature*)signature;
@property(readonly, retain) NSMethodSignature* methodSignature;
@property(assign) id target;
@property SEL selector;
@property(readonly) BOOL argumentsRetained;
- (void)retainArguments;
- (void)getReturnValue:(void*)value;
- (void)setReturnValue:(void*)value;
- (void)getArgument:(void*)value atIndex:(NSInteger)index;
- (void)setArgument:(void*)value atIndex:(NSInteger)index;
- (void)invoke;
- (void)invokeWithTarget:(id)target;
@end
