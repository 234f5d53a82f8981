#pragma once

#include <Foundation/NSObject.h>

namespace mps_simulator {

// A new object of the same class with the values of all properties that can be
// set and have an instance variable of their name, superclasses' included. The
// runtime knows the properties, so a new one in a header needs no line here. What
// a class keeps elsewhere it adds to the copy itself.
id copy_with_properties(id object);

} // namespace mps_simulator

// For the @implementation of a class that has nothing but such properties.
#define COPIES_PROPERTIES                               \
  -(id)copyWithZone : (NSZone*)zone {                   \
    return ::mps_simulator::copy_with_properties(self); \
  }

// For classes whose objects do not change.
#define COPIES_BY_RETAINING           \
  -(id)copyWithZone : (NSZone*)zone { \
    return [self retain];             \
  }

#define SUPPORTS_SECURE_CODING  \
  +(BOOL)supportsSecureCoding { \
    return YES;                 \
  }

// For objects without a count of their references.
#define IS_NEVER_FREED          \
  -(instancetype)retain {       \
    return self;                \
  }                             \
  -(oneway void)release {}      \
  -(instancetype)autorelease {  \
    return self;                \
  }                             \
  -(NSUInteger)retainCount {    \
    return NSUIntegerMax;       \
  }
