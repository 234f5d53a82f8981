#include "foundation/collection.h"
#include "foundation/copying.h"
#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cstdarg>
#include <unordered_map>

using namespace mps_simulator;

@implementation NSDictionary {
 @package
  // Positions in the two vectors, which keep what fast enumeration hands out.
  std::unordered_map<id, size_t, ObjectHash, ObjectEqual> _positions;
  std::vector<id> _keys;
  std::vector<id> _values;
  unsigned long _mutations;
}

SUPPORTS_SECURE_CODING

// MARK: Making dictionaries

+ (instancetype)dictionary {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)dictionaryWithObjects:(const id[])objects forKeys:(const id<NSCopying>[])keys count:(NSUInteger)count {
  return [[[self alloc] initWithObjects:objects forKeys:keys count:count] autorelease];
}

+ (instancetype)dictionaryWithObjects:(NSArray*)objects forKeys:(NSArray*)keys {
  return [[[self alloc] initWithObjects:objects forKeys:keys] autorelease];
}

- (instancetype)initWithObjects:(const id[])objects forKeys:(const id<NSCopying>[])keys count:(NSUInteger)count {
  _positions.reserve(count);
  for (NSUInteger i = 0; i < count; ++i) {
    [self simulatorSet:objects[i] forKey:keys[i] function:__func__];
  }
  return self;
}

- (instancetype)initWithObjects:(NSArray*)objects forKeys:(NSArray*)keys {
  if (objects.count != keys.count) {
    VIOLATION("%lu objects for %lu keys", objects.count, keys.count);
  }
  for (NSUInteger i = 0; i < objects.count; ++i) {
    [self simulatorSet:objects[i] forKey:keys[i] function:__func__];
  }
  return self;
}

- (instancetype)initWithDictionary:(NSDictionary*)dictionary {
  if (dictionary != nil) {
    for (size_t i = 0; i < dictionary->_keys.size(); ++i) {
      [self simulatorSet:dictionary->_values[i] forKey:dictionary->_keys[i] function:__func__];
    }
  }
  return self;
}

- (void)dealloc {
  for (size_t i = 0; i < _keys.size(); ++i) {
    [_keys[i] release];
    [_values[i] release];
  }
  [super dealloc];
}

COPIES_BY_RETAINING

- (id)mutableCopyWithZone:(NSZone*)zone {
  return [[NSMutableDictionary alloc] initWithDictionary:self];
}

- (void)simulatorSet:(id)object forKey:(id<NSCopying>)key function:(const char*)function {
  check_not_nil(object, function);
  check_not_nil((id)key, function);
  const auto found = _positions.find((id)key);
  if (found != _positions.end()) {
    id old = _values[found->second];
    _values[found->second] = [object retain];
    [old release];
    return;
  }
  id owned_key = [(id)key copy];
  _positions.emplace(owned_key, _keys.size());
  _keys.push_back(owned_key);
  _values.push_back([object retain]);
  const size_t last = _keys.size() - 1;
  const size_t place = place_of_next(last);
  if (place != last) {
    std::swap(_keys[place], _keys[last]);
    std::swap(_values[place], _values[last]);
    _positions[_keys[place]] = place;
    _positions[_keys[last]] = last;
  }
  ++_mutations;
}

// MARK: Access

- (NSUInteger)count {
  return _keys.size();
}

- (id)objectForKey:(id)key {
  if (key == nil) {
    return nil;
  }
  const auto found = _positions.find(key);
  return found == _positions.end() ? nil : _values[found->second];
}

- (id)objectForKeyedSubscript:(id)key {
  return [self objectForKey:key];
}

- (id)valueForKey:(NSString*)key {
  return [self objectForKey:key];
}

- (NSArray*)allKeys {
  return [NSArray arrayWithObjects:_keys.data() count:_keys.size()];
}

- (NSArray*)allValues {
  return [NSArray arrayWithObjects:_values.data() count:_values.size()];
}

- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)length {
  return enumerate(_keys, &_mutations, state);
}

- (BOOL)isEqualToDictionary:(NSDictionary*)other {
  if (other == nil || other->_keys.size() != _keys.size()) {
    return NO;
  }
  for (size_t i = 0; i < _keys.size(); ++i) {
    if (!ObjectEqual()(_values[i], [other objectForKey:_keys[i]])) {
      return NO;
    }
  }
  return YES;
}

- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSDictionary class]] && [self isEqualToDictionary:object]);
}

- (NSUInteger)hash {
  return _keys.size();
}

- (std::string)simulatorDescriptionAtDepth:(unsigned)depth {
  std::string text = "{\n";
  const std::string indent(4 * (depth + 1), ' ');
  for (size_t i = 0; i < _keys.size(); ++i) {
    text += indent + describe_member(_keys[i], depth + 1) + " = " + describe_member(_values[i], depth + 1) + ";\n";
  }
  return text + std::string(4 * depth, ' ') + "}";
}

- (NSString*)description {
  return to_ns_string([self simulatorDescriptionAtDepth:0]);
}

@end

@implementation NSMutableDictionary

+ (instancetype)dictionaryWithCapacity:(NSUInteger)capacity {
  return [[[self alloc] initWithCapacity:capacity] autorelease];
}

- (instancetype)initWithCapacity:(NSUInteger)capacity {
  _positions.reserve(capacity);
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
    [self removeObjectForKey:(id)key];
  } else {
    [self simulatorSet:object forKey:key function:__func__];
  }
}

- (void)removeObjectForKey:(id)key {
  check_not_nil(key, __func__);
  const auto found = _positions.find(key);
  if (found == _positions.end()) {
    return;
  }
  // The last pair takes the place of the removed one.
  const size_t position = found->second;
  id old_key = _keys[position];
  id old_value = _values[position];
  _positions.erase(found);
  if (position + 1 != _keys.size()) {
    _keys[position] = _keys.back();
    _values[position] = _values.back();
    _positions[_keys[position]] = position;
  }
  _keys.pop_back();
  _values.pop_back();
  ++_mutations;
  [old_key release];
  [old_value release];
}

- (void)removeAllObjects {
  const std::vector<id> keys = std::move(_keys);
  const std::vector<id> values = std::move(_values);
  _positions.clear();
  _keys.clear();
  _values.clear();
  ++_mutations;
  for (size_t i = 0; i < keys.size(); ++i) {
    [keys[i] release];
    [values[i] release];
  }
}

@end
