#include "foundation/collection.h"
#include "foundation/copying.h"
#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

using namespace mps_simulator;

@implementation NSDictionary {
 @package
  Members _members;
}

IS_COLLECTION(_members.keys)

// MARK: Making dictionaries

+ (instancetype)dictionary {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)dictionaryWithObjects:(const id[])objects forKeys:(const id<NSCopying>[])keys count:(NSUInteger)count {
  NSDictionary* dictionary = [self dictionary];
  for (NSUInteger i = 0; i < count; ++i) {
    [dictionary simulatorSet:objects[i] forKey:keys[i] function:__func__];
  }
  return dictionary;
}

- (instancetype)initWithDictionary:(NSDictionary*)dictionary {
  for (id key in dictionary) {
    [self simulatorSet:dictionary[key] forKey:key function:__func__];
  }
  return self;
}

COPIES_BY_RETAINING

- (id)mutableCopyWithZone:(NSZone*)zone {
  return [[NSMutableDictionary alloc] initWithDictionary:self];
}

- (void)simulatorSet:(id)object forKey:(id<NSCopying>)key function:(const char*)function {
  check_not_nil(object, function);
  check_not_nil((id)key, function);
  const size_t place = _members.find((id)key);
  if (place != Members::kNone) {
    _members.values.replace(place, object);
    return;
  }
  id owned_key = [(id)key copy];
  _members.add(owned_key, object);
  [owned_key release];
}

// MARK: Access

- (id)objectForKey:(id)key {
  const size_t place = _members.find(key);
  return place == Members::kNone ? nil : _members.values.list[place];
}

- (id)objectForKeyedSubscript:(id)key {
  return [self objectForKey:key];
}

- (id)valueForKey:(NSString*)key {
  return [self objectForKey:key];
}

- (NSArray*)allKeys {
  return [NSArray arrayWithObjects:_members.keys.list.data() count:self.count];
}

- (NSArray*)allValues {
  return [NSArray arrayWithObjects:_members.values.list.data() count:self.count];
}

- (BOOL)isEqual:(id)object {
  if (![object isKindOfClass:[NSDictionary class]] || [object count] != self.count) {
    return NO;
  }
  for (id key in self) {
    if (!ObjectEqual()([self objectForKey:key], [object objectForKey:key])) {
      return NO;
    }
  }
  return YES;
}

@end

@implementation NSMutableDictionary

+ (instancetype)dictionaryWithCapacity:(NSUInteger)capacity {
  return [self dictionary];
}

- (instancetype)initWithCapacity:(NSUInteger)capacity {
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  return [[NSDictionary alloc] initWithDictionary:self];
}

- (void)setObject:(id)object forKey:(id<NSCopying>)key {
  [self simulatorSet:object forKey:key function:__func__];
}

- (void)setObject:(id)object forKeyedSubscript:(id<NSCopying>)key {
  if (object == nil) {
    unsupported("%s with nil, which removes the key", __func__);
  }
  [self setObject:object forKey:key];
}

@end
