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

+ (instancetype)new {
  return [[self alloc] init];
}

- (instancetype)init {
  return self;
}

- (void)dealloc {
  destroy_object(self);
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

- (id)copy {
  return [(id<NSCopying>)self copyWithZone:nullptr];
}

- (id)mutableCopy {
  return [(id<NSMutableCopying>)self mutableCopyWithZone:nullptr];
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

- (BOOL)isKindOfClass:(Class)cls {
  return [object_getClass(self) isSubclassOfClass:cls];
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

+ (Class)class {
  return self;
}

+ (BOOL)isSubclassOfClass:(Class)cls {
  for (Class current = self; current != Nil; current = class_getSuperclass(current)) {
    if (current == cls) {
      return YES;
    }
  }
  return NO;
}

+ (BOOL)instancesRespondToSelector:(SEL)selector {
  return class_respondsToSelector(self, selector);
}

+ (BOOL)conformsToProtocol:(Protocol*)protocol {
  for (Class current = self; current != Nil; current = class_getSuperclass(current)) {
    if (class_conformsToProtocol(current, protocol)) {
      return YES;
    }
  }
  return NO;
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

+ (NSString*)description {
  return [NSString stringWithUTF8String:class_getName(self)];
}

@end
