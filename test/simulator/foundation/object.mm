#include "foundation/object_memory.h"
#include "support/error.h"

#include <Foundation/Foundation.h>
#include <objc/runtime.h>

#include <cstdint>

using namespace mps_simulator;

@implementation NSObject

+ (void)load {
  install_runtime_hooks(self);
}

+ (void)initialize {
}

+ (instancetype)alloc {
  return create_object(self);
}

+ (instancetype)allocWithZone:(NSZone*)zone {
  return [self alloc];
}

+ (instancetype)new {
  return [[self alloc] init];
}

- (instancetype)init {
  return self;
}

- (void)dealloc {
  destroy_object(self);
}

- (void)finalize {
}

- (instancetype)retain {
  increment_retain_count(self);
  return self;
}

- (oneway void)release {
  const auto count = decrement_retain_count(self);
  if (count == 0) {
    [self dealloc];
  } else if (count < 0) {
    violation("-[%s release]: released more often than retained", object_getClassName(self));
  }
}

- (instancetype)autorelease {
  return autorelease_object(self);
}

- (NSUInteger)retainCount {
  return get_retain_count(self);
}

- (NSZone*)zone {
  return nullptr;
}

// Called by the runtime for weak references.
- (BOOL)allowsWeakReference {
  return YES;
}

- (BOOL)retainWeakReference {
  [self retain];
  return YES;
}

- (id)copy {
  return [(id<NSCopying>)self copyWithZone:nullptr];
}

- (id)mutableCopy {
  return [(id<NSMutableCopying>)self mutableCopyWithZone:nullptr];
}

+ (id)copyWithZone:(NSZone*)zone {
  return self;
}

+ (id)mutableCopyWithZone:(NSZone*)zone {
  return self;
}

- (BOOL)isEqual:(id)object {
  return self == object;
}

- (NSUInteger)hash {
  return reinterpret_cast<uintptr_t>(self) >> 4;
}

- (instancetype)self {
  return self;
}

- (Class)class {
  return object_getClass(self);
}

- (Class)superclass {
  return class_getSuperclass(object_getClass(self));
}

- (BOOL)isProxy {
  return NO;
}

- (BOOL)isKindOfClass:(Class)cls {
  return [object_getClass(self) isSubclassOfClass:cls];
}

- (BOOL)isMemberOfClass:(Class)cls {
  return object_getClass(self) == cls;
}

- (BOOL)respondsToSelector:(SEL)selector {
  return class_respondsToSelector(object_getClass(self), selector);
}

- (BOOL)conformsToProtocol:(Protocol*)protocol {
  return [object_getClass(self) conformsToProtocol:protocol];
}

- (id)performSelector:(SEL)selector {
  return objc_msg_lookup(self, selector)(self, selector);
}

- (id)performSelector:(SEL)selector withObject:(id)object {
  return objc_msg_lookup(self, selector)(self, selector, object);
}

- (id)performSelector:(SEL)selector withObject:(id)object1 withObject:(id)object2 {
  return objc_msg_lookup(self, selector)(self, selector, object1, object2);
}

- (IMP)methodForSelector:(SEL)selector {
  return objc_msg_lookup(self, selector);
}

- (NSString*)description {
  return [NSString stringWithFormat:@"<%s: %p>", object_getClassName(self), self];
}

- (NSString*)debugDescription {
  return self.description;
}

// MARK: Messages that no method answers

- (void)doesNotRecognizeSelector:(SEL)selector {
  unsupported("-[%s %s]", object_getClassName(self), sel_getName(selector));
}

- (id)forwardingTargetForSelector:(SEL)selector {
  return nil;
}

- (void)forwardInvocation:(NSInvocation*)invocation {
  [self doesNotRecognizeSelector:invocation.selector];
}

- (NSMethodSignature*)methodSignatureForSelector:(SEL)selector {
  return [object_getClass(self) instanceMethodSignatureForSelector:selector];
}

+ (NSMethodSignature*)instanceMethodSignatureForSelector:(SEL)selector {
  Method method = class_getInstanceMethod(self, selector);
  if (method == nullptr) {
    return nil;
  }
  return [NSMethodSignature signatureWithObjCTypes:method_getTypeEncoding(method)];
}

+ (BOOL)resolveClassMethod:(SEL)selector {
  return NO;
}

+ (BOOL)resolveInstanceMethod:(SEL)selector {
  return NO;
}

// MARK: Classes as objects

+ (void)doesNotRecognizeSelector:(SEL)selector {
  unsupported("+[%s %s]", class_getName(self), sel_getName(selector));
}

+ (id)forwardingTargetForSelector:(SEL)selector {
  return nil;
}

+ (NSMethodSignature*)methodSignatureForSelector:(SEL)selector {
  return [object_getClass(self) instanceMethodSignatureForSelector:selector];
}

+ (Class)class {
  return self;
}

+ (instancetype)self {
  return (id)self;
}

+ (Class)superclass {
  return class_getSuperclass(self);
}

+ (NSUInteger)hash {
  return reinterpret_cast<uintptr_t>(self) >> 4;
}

+ (BOOL)isEqual:(id)object {
  return (id)self == object;
}

+ (BOOL)isSubclassOfClass:(Class)cls {
  for (Class current = self; current != Nil; current = class_getSuperclass(current)) {
    if (current == cls) {
      return YES;
    }
  }
  return NO;
}

+ (BOOL)isKindOfClass:(Class)cls {
  return cls == [NSObject class];
}

+ (BOOL)instancesRespondToSelector:(SEL)selector {
  return class_respondsToSelector(self, selector);
}

+ (BOOL)respondsToSelector:(SEL)selector {
  return class_respondsToSelector(object_getClass(self), selector);
}

+ (BOOL)conformsToProtocol:(Protocol*)protocol {
  for (Class current = self; current != Nil; current = class_getSuperclass(current)) {
    if (class_conformsToProtocol(current, protocol)) {
      return YES;
    }
  }
  return NO;
}

+ (IMP)instanceMethodForSelector:(SEL)selector {
  return class_getMethodImplementation(self, selector);
}

+ (id)performSelector:(SEL)selector {
  return objc_msg_lookup(self, selector)(self, selector);
}

+ (id)performSelector:(SEL)selector withObject:(id)object {
  return objc_msg_lookup(self, selector)(self, selector, object);
}

+ (instancetype)retain {
  return (id)self;
}

+ (oneway void)release {
}

+ (instancetype)autorelease {
  return (id)self;
}

+ (NSUInteger)retainCount {
  return NSUIntegerMax;
}

+ (id)copy {
  return self;
}

+ (NSString*)description {
  return [NSString stringWithUTF8String:class_getName(self)];
}

+ (NSString*)debugDescription {
  return [self description];
}

@end

extern "C" id class_createInstance(Class cls, size_t extra_bytes) {
  if (extra_bytes != 0) {
    unsupported("class_createInstance() with extra bytes");
  }
  return create_object(cls);
}
