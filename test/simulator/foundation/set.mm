#include "foundation/collection.h"
#include "foundation/copying.h"
#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cstdarg>
#include <unordered_map>

using namespace mps_simulator;

@implementation NSSet {
 @package
  std::unordered_map<id, size_t, ObjectHash, ObjectEqual> _positions;
  std::vector<id> _objects;
  unsigned long _mutations;
}

SUPPORTS_SECURE_CODING

+ (instancetype)set {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)setWithObject:(id)object {
  return [[[self alloc] initWithObjects:&object count:1] autorelease];
}

+ (instancetype)setWithObjects:(id)first, ... {
  std::vector<id> objects;
  COLLECT_ARGUMENTS(objects, first);
  return [[[self alloc] initWithObjects:objects.data() count:objects.size()] autorelease];
}

+ (instancetype)setWithArray:(NSArray*)array {
  return [[[self alloc] initWithArray:array] autorelease];
}

- (instancetype)initWithObjects:(const id[])objects count:(NSUInteger)count {
  for (NSUInteger i = 0; i < count; ++i) {
    [self simulatorAdd:objects[i]];
  }
  return self;
}

- (instancetype)initWithArray:(NSArray*)array {
  for (id object in array) {
    [self simulatorAdd:object];
  }
  return self;
}

- (instancetype)initWithSet:(NSSet*)set {
  for (id object in set) {
    [self simulatorAdd:object];
  }
  return self;
}

- (void)dealloc {
  for (id object : _objects) {
    [object release];
  }
  [super dealloc];
}

- (void)simulatorAdd:(id)object {
  check_not_nil(object, __func__);
  if (_positions.emplace(object, _objects.size()).second) {
    _objects.push_back([object retain]);
    const size_t last = _objects.size() - 1;
    const size_t place = place_of_next(last);
    if (place != last) {
      std::swap(_objects[place], _objects[last]);
      _positions[_objects[place]] = place;
      _positions[_objects[last]] = last;
    }
    ++_mutations;
  }
}

COPIES_BY_RETAINING

- (id)mutableCopyWithZone:(NSZone*)zone {
  return [[NSMutableSet alloc] initWithSet:self];
}

- (NSUInteger)count {
  return _objects.size();
}

- (id)member:(id)object {
  const auto found = _positions.find(object);
  return found == _positions.end() ? nil : found->first;
}

- (BOOL)containsObject:(id)object {
  return object != nil && _positions.count(object) > 0;
}

- (id)anyObject {
  return _objects.empty() ? nil : _objects.front();
}

- (NSArray*)allObjects {
  return [NSArray arrayWithObjects:_objects.data() count:_objects.size()];
}

- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)length {
  return enumerate(_objects, &_mutations, state);
}

- (BOOL)isSubsetOfSet:(NSSet*)other {
  for (id object : _objects) {
    if (![other containsObject:object]) {
      return NO;
    }
  }
  return YES;
}

- (BOOL)isEqualToSet:(NSSet*)other {
  return other != nil && other.count == _objects.size() && [self isSubsetOfSet:other];
}

- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSSet class]] && [self isEqualToSet:object]);
}

- (NSUInteger)hash {
  return _objects.size();
}

- (std::string)simulatorDescriptionAtDepth:(unsigned)depth {
  std::string text = "{(";
  const std::string indent(4 * (depth + 1), ' ');
  for (size_t i = 0; i < _objects.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + indent + describe_member(_objects[i], depth + 1);
  }
  return text + "\n" + std::string(4 * depth, ' ') + ")}";
}

- (NSString*)description {
  return to_ns_string([self simulatorDescriptionAtDepth:0]);
}

@end

@implementation NSMutableSet

- (instancetype)initWithCapacity:(NSUInteger)capacity {
  _positions.reserve(capacity);
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  return [[NSSet alloc] initWithSet:self];
}

- (void)addObject:(id)object {
  [self simulatorAdd:object];
}

- (void)removeObject:(id)object {
  const auto found = _positions.find(object);
  if (found == _positions.end()) {
    return;
  }
  const size_t position = found->second;
  id old = _objects[position];
  _positions.erase(found);
  if (position + 1 != _objects.size()) {
    _objects[position] = _objects.back();
    _positions[_objects[position]] = position;
  }
  _objects.pop_back();
  ++_mutations;
  [old release];
}

- (void)removeAllObjects {
  const std::vector<id> objects = std::move(_objects);
  _objects.clear();
  _positions.clear();
  ++_mutations;
  for (id object : objects) {
    [object release];
  }
}

@end
