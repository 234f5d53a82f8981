// Shared by arrays, dictionaries and sets.
#pragma once

#include <Foundation/NSArray.h>

#include <vector>

namespace mps_simulator {

// Hash and equality of the objects, not of the pointers.
struct ObjectHash {
  size_t operator()(id object) const {
    return [object hash];
  }
};
struct ObjectEqual {
  bool operator()(id left, id right) const {
    return left == right || [left isEqual:right];
  }
};

// Gives out `objects` from a position that the state remembers.
NSUInteger enumerate(const std::vector<id>& objects, unsigned long* mutations, NSFastEnumerationState* state);

// An enumerator over a snapshot.
NSEnumerator* make_enumerator(std::vector<id> objects);

// Where the next member of a collection without order goes, among the `count`
// that it has and the place behind them: Foundation promises nothing, so what a
// program gets depends on the seed.
size_t place_of_next(size_t count);

void check_not_nil(id object, const char* function);

// Collects the nil-terminated arguments after the first.
#define COLLECT_ARGUMENTS(vector, first)                               \
  do {                                                                 \
    va_list arguments;                                                 \
    va_start(arguments, first);                                        \
    for (id next = first; next != nil; next = va_arg(arguments, id)) { \
      (vector).push_back(next);                                        \
    }                                                                  \
    va_end(arguments);                                                 \
  } while (0)

} // namespace mps_simulator
