// Shared by arrays, dictionaries and sets.
#pragma once

#include <Foundation/NSArray.h>

#include <string>
#include <unordered_map>
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

// A list that owns its objects. It is in the form that fast enumeration hands out.
class Objects {
 public:
  Objects() = default;
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
  ~Objects() {
    clear();
  }

  // Retains the object.
  void insert(size_t place, id object);
  void replace(size_t place, id object);
  void clear();

  std::vector<id> list;
  unsigned long mutations = 0;
};

// The members of a set, or the keys and values of a dictionary. Foundation promises
// no order, so what a program gets depends on the seed.
class Members {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // Where an equal key is.
  size_t find(id key) const;
  // Retains both; a set has no values. The key must be a new one.
  void add(id key, id value = nil);
  void clear();

  Objects keys;
  Objects values;

 private:
  std::unordered_map<id, size_t, ObjectHash, ObjectEqual> places_;
};

// Gives out all objects at once.
NSUInteger enumerate(const Objects& objects, NSFastEnumerationState* state);

void check_not_nil(id object, const char* function);

} // namespace mps_simulator

// For the @implementation of a collection whose objects, or keys, are `owned`.
#define IS_COLLECTION(owned)                                                        \
  SUPPORTS_SECURE_CODING                                                            \
  -(NSUInteger)count {                                                              \
    return (owned).list.size();                                                     \
  }                                                                                 \
  -(NSUInteger)hash {                                                               \
    return (owned).list.size();                                                     \
  }                                                                                 \
  -(NSUInteger)countByEnumeratingWithState : (NSFastEnumerationState*)state objects \
      : (id __unsafe_unretained[])buffer count : (NSUInteger)length {               \
    return ::mps_simulator::enumerate(owned, state);                                \
  }
