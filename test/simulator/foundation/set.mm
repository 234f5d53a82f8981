#include "foundation/collection.h"
#include "foundation/copying.h"
#include "foundation/string.h"

#include <Foundation/Foundation.h>

using namespace mps_simulator;

@implementation NSSet {
 @package
  Members _members;
}

IS_COLLECTION(_members.keys)

+ (instancetype)set {
  return [[[self alloc] init] autorelease];
}

+ (instancetype)setWithArray:(NSArray*)array {
  return [[[self alloc] initWithArray:array] autorelease];
}

- (instancetype)initWithArray:(NSArray*)array {
  for (id object in array) {
    [self simulatorAdd:object];
  }
  return self;
}

- (void)simulatorAdd:(id)object {
  check_not_nil(object, __func__);
  if (_members.find(object) == Members::kNone) {
    _members.add(object);
  }
}

- (NSArray*)allObjects {
  return [NSArray arrayWithObjects:_members.keys.list.data() count:self.count];
}

@end

@implementation NSMutableSet

- (instancetype)initWithCapacity:(NSUInteger)capacity {
  return self;
}

- (void)addObject:(id)object {
  [self simulatorAdd:object];
}

- (void)removeAllObjects {
  _members.clear();
}

@end
