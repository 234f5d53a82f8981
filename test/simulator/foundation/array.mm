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
  Objects _objects;
}

IS_COLLECTION(_objects)

// MARK: Making arrays

+ (instancetype)array {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)arrayWithObjects:(const id[])objects count:(NSUInteger)count {
  return [[[self alloc] initWithObjects:objects count:count] autorelease];
}

+ (instancetype)arrayWithObjects:(id)first, ... {
  std::vector<id> objects;
  va_list arguments;
  va_start(arguments, first);
  for (id next = first; next != nil; next = va_arg(arguments, id)) {
    objects.push_back(next);
  }
  va_end(arguments);
  return [self arrayWithObjects:objects.data() count:objects.size()];
}

+ (instancetype)arrayWithArray:(NSArray*)array {
  return [[[self alloc] initWithArray:array] autorelease];
}

- (instancetype)initWithObjects:(const id[])objects count:(NSUInteger)count {
  _objects.list.reserve(count);
  for (NSUInteger i = 0; i < count; ++i) {
    check_not_nil(objects[i], __func__);
    _objects.insert(i, objects[i]);
  }
  return self;
}

- (instancetype)initWithArray:(NSArray*)array {
  return array == nil ? self : [self initWithObjects:array->_objects.list.data() count:array.count];
}

COPIES_BY_RETAINING

- (id)mutableCopyWithZone:(NSZone*)zone {
  return [[NSMutableArray alloc] initWithArray:self];
}

// MARK: Access

- (id)objectAtIndex:(NSUInteger)index {
  [self checkRange:NSMakeRange(index, 1) function:__func__];
  return _objects.list[index];
}

- (id)objectAtIndexedSubscript:(NSUInteger)index {
  return [self objectAtIndex:index];
}

- (void)checkRange:(NSRange)range function:(const char*)function {
  const size_t count = _objects.list.size();
  if (range.length == 1 && range.location >= count) {
    violation("%s: index %lu beyond count %zu", function, range.location, count);
  }
  if (range.location > count || range.length > count - range.location) {
    violation("%s: range {%lu, %lu} beyond count %zu", function, range.location, range.length, count);
  }
}

// MARK: Searching and comparing

- (NSUInteger)indexOfObject:(id)object {
  const auto& list = _objects.list;
  const auto found = std::find_if(list.begin(), list.end(), [&](id member) { return ObjectEqual()(member, object); });
  return found == list.end() ? NSNotFound : found - list.begin();
}

- (BOOL)isEqual:(id)object {
  if (![object isKindOfClass:[NSArray class]]) {
    return NO;
  }
  const auto& list = _objects.list;
  const auto& other = ((NSArray*)object)->_objects.list;
  return std::equal(list.begin(), list.end(), other.begin(), other.end(), ObjectEqual());
}

// MARK: Derived arrays

- (NSArray*)arrayByAddingObject:(id)object {
  NSMutableArray* result = [NSMutableArray arrayWithArray:self];
  [result addObject:object];
  return result;
}

- (NSArray*)subarrayWithRange:(NSRange)range {
  [self checkRange:range function:__func__];
  return [NSArray arrayWithObjects:_objects.list.data() + range.location count:range.length];
}

- (NSString*)componentsJoinedByString:(NSString*)separator {
  std::string text;
  for (size_t i = 0; i < _objects.list.size(); ++i) {
    text.append(i == 0 ? "" : string_view_of(separator)).append(string_view_of([_objects.list[i] description]));
  }
  return to_ns_string(text);
}

// The value of each member, in the same order.
- (id)valueForKey:(NSString*)key {
  NSMutableArray* values = [NSMutableArray arrayWithCapacity:_objects.list.size()];
  for (id object : _objects.list) {
    [values addObject:[object valueForKey:key]];
  }
  return values;
}

@end

@implementation NSMutableArray

+ (instancetype)arrayWithCapacity:(NSUInteger)capacity {
  return [self array];
}

- (instancetype)initWithCapacity:(NSUInteger)capacity {
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  return [[NSArray alloc] initWithArray:self];
}

- (void)addObject:(id)object {
  check_not_nil(object, __func__);
  _objects.insert(_objects.list.size(), object);
}

- (void)insertObject:(id)object atIndex:(NSUInteger)index {
  check_not_nil(object, __func__);
  [self checkRange:NSMakeRange(index, 0) function:__func__];
  _objects.insert(index, object);
}

- (void)setObject:(id)object atIndexedSubscript:(NSUInteger)index {
  if (index == _objects.list.size()) {
    [self addObject:object];
    return;
  }
  check_not_nil(object, __func__);
  [self checkRange:NSMakeRange(index, 1) function:__func__];
  _objects.replace(index, object);
}

@end
