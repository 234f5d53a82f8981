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

- (NSString*)description {
  return [NSString stringWithFormat:@"<%s: %p>", object_getClassName(self), self];
}

// MARK: Messages that no method answers

- (void)doesNotRecognizeSelector:(SEL)selector {
  unsupported("-[%s %s]", object_getClassName(self), sel_getName(selector));
}

- (id)forwardingTargetForSelector:(SEL)selector {
  return nil;
}

// For keys that are objects.
- (id)valueForKey:(NSString*)key {
  const SEL getter = sel_registerName(key.UTF8String);
  const Method method = class_getInstanceMethod(object_getClass(self), getter);
  if (method == nullptr) {
    violation("-[%s valueForKey:]: no getter for the key '%s'", object_getClassName(self), key.UTF8String);
  }
  if (*method_getTypeEncoding(method) != '@') {
    unsupported("-[%s valueForKey:] for a key that is not an object", object_getClassName(self));
  }
  return [self performSelector:getter];
}

// MARK: Classes as objects

+ (void)doesNotRecognizeSelector:(SEL)selector {
  unsupported("+[%s %s]", class_getName(self), sel_getName(selector));
}

+ (id)forwardingTargetForSelector:(SEL)selector {
  return nil;
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

@end

extern "C" id class_createInstance(Class cls, size_t extra_bytes) {
  if (extra_bytes != 0) {
    unsupported("class_createInstance() with extra bytes");
  }
  return create_object(cls);
}
