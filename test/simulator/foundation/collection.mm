#include "foundation/collection.h"

#include "support/error.h"
#include "support/random.h"

#include <Foundation/Foundation.h>

using namespace mps_simulator;

@implementation NSEnumerator {
 @package
  std::vector<id> _objects;
}

- (void)dealloc {
  for (id object : _objects) {
    [object release];
  }
  [super dealloc];
}

- (NSArray*)allObjects {
  return [NSArray arrayWithObjects:_objects.data() count:_objects.size()];
}

- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)length {
  static unsigned long never_changes = 0;
  return enumerate(_objects, &never_changes, state);
}

@end

namespace mps_simulator {

size_t place_of_next(size_t count) {
  static SeededSequence sequence;
  return sequence.next() % (count + 1);
}

NSUInteger enumerate(const std::vector<id>& objects, unsigned long* mutations, NSFastEnumerationState* state) {
  if (state->state != 0) {
    return 0;
  }
  state->state = 1;
  state->itemsPtr = const_cast<id*>(objects.data());
  state->mutationsPtr = mutations;
  return objects.size();
}

NSEnumerator* make_enumerator(std::vector<id> objects) {
  NSEnumerator* enumerator = [[[NSEnumerator alloc] init] autorelease];
  for (id object : objects) {
    [object retain];
  }
  enumerator->_objects = std::move(objects);
  return enumerator;
}

void check_not_nil(id object, const char* function) {
  if (object == nil) {
    violation("%s: attempt to insert nil", function);
  }
}

} // namespace mps_simulator
