#include "foundation/collection.h"

#include "support/error.h"
#include "support/random.h"

#include <Foundation/Foundation.h>

using namespace mps_simulator;

@implementation NSEnumerator

- (id)nextObject {
  [self doesNotRecognizeSelector:_cmd];
  return nil;
}

- (NSArray*)allObjects {
  NSMutableArray* objects = [NSMutableArray array];
  while (id object = [self nextObject]) {
    [objects addObject:object];
  }
  return objects;
}

- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)length {
  static unsigned long never_changes = 0;
  state->state = 1;
  state->itemsPtr = buffer;
  state->mutationsPtr = &never_changes;
  NSUInteger count = 0;
  while (count < length) {
    id object = [self nextObject];
    if (object == nil) {
      break;
    }
    buffer[count++] = object;
  }
  return count;
}

@end

@interface SimulatorVectorEnumerator : NSEnumerator {
 @public
  std::vector<id> objects;
  size_t position;
}
@end

@implementation SimulatorVectorEnumerator

- (void)dealloc {
  for (id object : objects) {
    [object release];
  }
  [super dealloc];
}

- (id)nextObject {
  return position < objects.size() ? objects[position++] : nil;
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
  SimulatorVectorEnumerator* enumerator = [[[SimulatorVectorEnumerator alloc] init] autorelease];
  for (id object : objects) {
    [object retain];
  }
  enumerator->objects = std::move(objects);
  return enumerator;
}

void check_not_nil(id object, const char* function) {
  if (object == nil) {
    violation("%s: attempt to insert nil", function);
  }
}

} // namespace mps_simulator
