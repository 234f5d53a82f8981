#include "foundation/collection.h"

#include "foundation/string.h"
#include "support/error.h"
#include "support/random.h"

#include <Foundation/Foundation.h>

#include <utility>

using namespace mps_simulator;

@implementation NSEnumerator {
 @package
  Objects _objects;
}

- (NSArray*)allObjects {
  return [NSArray arrayWithObjects:_objects.list.data() count:_objects.list.size()];
}

- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)length {
  return enumerate(_objects, state);
}

@end

@implementation NSArray (ReverseEnumeration)

- (NSEnumerator*)reverseObjectEnumerator {
  NSEnumerator* enumerator = [[[NSEnumerator alloc] init] autorelease];
  for (id object in self) {
    enumerator->_objects.insert(0, object);
  }
  return enumerator;
}

@end

namespace mps_simulator {

void Objects::insert(size_t place, id object) {
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(place), [object retain]);
  ++mutations;
}

void Objects::replace(size_t place, id object) {
  [object retain];
  std::swap(list[place], object);
  [object release];
}

void Objects::clear() {
  ++mutations;
  for (id object : std::exchange(list, {})) {
    [object release];
  }
}

size_t Members::find(id key) const {
  const auto found = key == nil ? places_.end() : places_.find(key);
  return found == places_.end() ? kNone : found->second;
}

void Members::add(id key, id value) {
  static SeededSequence sequence;
  const size_t last = keys.list.size();
  const size_t place = sequence.next() % (last + 1);
  keys.insert(last, key);
  values.insert(last, value);
  std::swap(keys.list[place], keys.list[last]);
  std::swap(values.list[place], values.list[last]);
  places_[keys.list[last]] = last;
  places_[key] = place;
}

void Members::clear() {
  places_.clear();
  keys.clear();
  values.clear();
}

NSUInteger enumerate(const Objects& objects, NSFastEnumerationState* state) {
  if (state->state != 0) {
    return 0;
  }
  state->state = 1;
  state->itemsPtr = const_cast<id*>(objects.list.data());
  state->mutationsPtr = const_cast<unsigned long*>(&objects.mutations);
  return objects.list.size();
}

void check_not_nil(id object, const char* function) {
  if (object == nil) {
    violation("%s: attempt to insert nil", function);
  }
}

} // namespace mps_simulator
