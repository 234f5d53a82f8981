#include "foundation/collection.h"
#include "foundation/copying.h"
#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <algorithm>
#include <cstdarg>

using namespace mps_simulator;

@implementation NSArray {
 @package
  std::vector<id> _objects;
  unsigned long _mutations;
}

SUPPORTS_SECURE_CODING

// MARK: Making arrays

+ (instancetype)array {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)arrayWithObjects:(const id[])objects count:(NSUInteger)count {
  return [[[self alloc] initWithObjects:objects count:count] autorelease];
}

+ (instancetype)arrayWithObjects:(id)first, ... {
  std::vector<id> objects;
  COLLECT_ARGUMENTS(objects, first);
  return [[[self alloc] initWithObjects:objects.data() count:objects.size()] autorelease];
}

+ (instancetype)arrayWithArray:(NSArray*)array {
  return [[[self alloc] initWithArray:array] autorelease];
}

- (instancetype)initWithObjects:(const id[])objects count:(NSUInteger)count {
  _objects.reserve(count);
  for (NSUInteger i = 0; i < count; ++i) {
    check_not_nil(objects[i], __func__);
    _objects.push_back([objects[i] retain]);
  }
  return self;
}

- (instancetype)initWithObjects:(id)first, ... {
  std::vector<id> objects;
  COLLECT_ARGUMENTS(objects, first);
  return [self initWithObjects:objects.data() count:objects.size()];
}

- (instancetype)initWithArray:(NSArray*)array {
  return array == nil ? [self init] : [self initWithObjects:array->_objects.data() count:array->_objects.size()];
}

- (void)dealloc {
  for (id object : _objects) {
    [object release];
  }
  [super dealloc];
}

COPIES_BY_RETAINING

- (id)mutableCopyWithZone:(NSZone*)zone {
  return [[NSMutableArray alloc] initWithArray:self];
}

// MARK: Access

- (NSUInteger)count {
  return _objects.size();
}

- (id)objectAtIndex:(NSUInteger)index {
  [self checkIndex:index function:__func__];
  return _objects[index];
}

- (id)objectAtIndexedSubscript:(NSUInteger)index {
  return [self objectAtIndex:index];
}

- (id)firstObject {
  return _objects.empty() ? nil : _objects.front();
}

- (void)checkIndex:(NSUInteger)index function:(const char*)function {
  if (index >= _objects.size()) {
    violation("%s: index %lu beyond count %zu", function, index, _objects.size());
  }
}

- (void)checkRange:(NSRange)range function:(const char*)function {
  if (range.location > _objects.size() || range.length > _objects.size() - range.location) {
    violation("%s: range {%lu, %lu} beyond count %zu", function, range.location, range.length, _objects.size());
  }
}

- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)length {
  return enumerate(_objects, &_mutations, state);
}

- (NSEnumerator*)reverseObjectEnumerator {
  return make_enumerator({_objects.rbegin(), _objects.rend()});
}

// MARK: Searching and comparing

- (NSUInteger)indexOfObject:(id)object {
  const auto found =
      std::find_if(_objects.begin(), _objects.end(), [&](id member) { return ObjectEqual()(member, object); });
  return found == _objects.end() ? NSNotFound : found - _objects.begin();
}

- (NSUInteger)indexOfObjectIdenticalTo:(id)object {
  const auto found = std::find(_objects.begin(), _objects.end(), object);
  return found == _objects.end() ? NSNotFound : found - _objects.begin();
}

- (BOOL)containsObject:(id)object {
  return [self indexOfObject:object] != static_cast<NSUInteger>(NSNotFound);
}

- (BOOL)isEqualToArray:(NSArray*)other {
  return other != nil &&
      std::equal(_objects.begin(), _objects.end(), other->_objects.begin(), other->_objects.end(), ObjectEqual());
}

- (BOOL)isEqual:(id)object {
  return self == object || ([object isKindOfClass:[NSArray class]] && [self isEqualToArray:object]);
}

- (NSUInteger)hash {
  return _objects.size();
}

// MARK: Derived arrays

- (NSArray*)arrayByAddingObject:(id)object {
  NSMutableArray* result = [NSMutableArray arrayWithArray:self];
  [result addObject:object];
  return result;
}

- (NSArray*)subarrayWithRange:(NSRange)range {
  [self checkRange:range function:__func__];
  return [NSArray arrayWithObjects:_objects.data() + range.location count:range.length];
}

- (NSString*)componentsJoinedByString:(NSString*)separator {
  std::string text;
  for (size_t i = 0; i < _objects.size(); ++i) {
    if (i > 0) {
      text.append(string_view_of(separator));
    }
    text.append(string_view_of([_objects[i] description]));
  }
  return to_ns_string(text);
}

// The value of each member, in the same order.
- (id)valueForKey:(NSString*)key {
  NSMutableArray* values = [NSMutableArray arrayWithCapacity:_objects.size()];
  for (id object : _objects) {
    [values addObject:[object valueForKey:key]];
  }
  return values;
}

- (std::string)simulatorDescriptionAtDepth:(unsigned)depth {
  std::string text = "(";
  const std::string indent(4 * (depth + 1), ' ');
  for (size_t i = 0; i < _objects.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + indent + describe_member(_objects[i], depth + 1);
  }
  return text + "\n" + std::string(4 * depth, ' ') + ")";
}

- (NSString*)description {
  return to_ns_string([self simulatorDescriptionAtDepth:0]);
}

@end

@implementation NSMutableArray

+ (instancetype)arrayWithCapacity:(NSUInteger)capacity {
  return [[[self alloc] initWithCapacity:capacity] autorelease];
}

- (instancetype)initWithCapacity:(NSUInteger)capacity {
  _objects.reserve(capacity);
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  return [[NSArray alloc] initWithArray:self];
}

- (void)addObject:(id)object {
  check_not_nil(object, __func__);
  _objects.push_back([object retain]);
  ++_mutations;
}

- (void)insertObject:(id)object atIndex:(NSUInteger)index {
  check_not_nil(object, __func__);
  if (index > _objects.size()) {
    VIOLATION("index %lu beyond count %zu", index, _objects.size());
  }
  _objects.insert(_objects.begin() + index, [object retain]);
  ++_mutations;
}

- (void)removeObjectAtIndex:(NSUInteger)index {
  [self checkIndex:index function:__func__];
  id object = _objects[index];
  _objects.erase(_objects.begin() + index);
  ++_mutations;
  [object release];
}

- (void)removeObjectsInRange:(NSRange)range {
  [self checkRange:range function:__func__];
  const auto first = _objects.begin() + range.location;
  const std::vector<id> removed(first, first + range.length);
  _objects.erase(first, first + range.length);
  ++_mutations;
  for (id object : removed) {
    [object release];
  }
}

- (void)removeAllObjects {
  [self removeObjectsInRange:NSMakeRange(0, _objects.size())];
}

- (void)removeObject:(id)object {
  [object retain]; // it may be the member that goes
  for (size_t i = _objects.size(); i-- > 0;) {
    if (ObjectEqual()(_objects[i], object)) {
      [self removeObjectAtIndex:i];
    }
  }
  [object release];
}

- (void)replaceObjectAtIndex:(NSUInteger)index withObject:(id)object {
  check_not_nil(object, __func__);
  [self checkIndex:index function:__func__];
  id old = _objects[index];
  _objects[index] = [object retain];
  ++_mutations;
  [old release];
}

- (void)setObject:(id)object atIndexedSubscript:(NSUInteger)index {
  if (index == _objects.size()) {
    [self addObject:object];
  } else {
    [self replaceObjectAtIndex:index withObject:object];
  }
}

@end
