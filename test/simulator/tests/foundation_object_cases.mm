// The root class: life, messages, forwarding.
#include "foundation_checks.h"
#include "support/counters.h"

#include <Block.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace {

std::atomic<int> destroyed{0};

struct Tracked {
  int value = 42;
  ~Tracked() {
    ++destroyed;
  }
};

size_t live_count(const char* class_name) {
  const std::string json = mps_simulator::live_objects_json();
  const size_t at = json.find(std::string("\"") + class_name + "\": ");
  return at == json.npos ? 0 : std::stoul(json.substr(json.find(": ", at) + 2));
}

} // namespace

@interface TestObject : NSObject {
  Tracked tracked;
}
@property(nonatomic) float ratio;
- (int)greet;
@end

@implementation TestObject

- (int)greet {
  return tracked.value;
}

@end

struct Triple {
  long x, y, z;
};
struct Pair {
  double first;
  long second;
};

// The receiver of forwarded messages.
@interface Worker : NSObject
- (int)sum:(int)first and:(int)second;
- (double)scale:(double)value by:(float)factor;
- (Triple)tripleOf:(Triple)triple times:(long)factor;
- (Pair)pairOf:(Pair)pair shifted:(double)shift;
- (NSRange)many:(long)a b:(long)b c:(long)c d:(long)d e:(long)e f:(long)f range:(NSRange)range;
- (void)explode;
@end

@implementation Worker

- (int)sum:(int)first and:(int)second {
  return first + second;
}

- (double)scale:(double)value by:(float)factor {
  return value * factor;
}

- (Triple)tripleOf:(Triple)triple times:(long)factor {
  return {triple.x * factor, triple.y * factor, triple.z * factor};
}

- (Pair)pairOf:(Pair)pair shifted:(double)shift {
  return {pair.first + shift, pair.second + 1};
}

- (NSRange)many:(long)a b:(long)b c:(long)c d:(long)d e:(long)e f:(long)f range:(NSRange)range {
  return NSMakeRange(a + b + c + d + e + f + range.location, range.length);
}

- (void)explode {
  throw std::runtime_error("bang");
}

@end

// Passes every message on.
@interface Forwarder : NSObject {
 @public
  Worker* worker;
}
@end

@implementation Forwarder

- (id)forwardingTargetForSelector:(SEL)selector {
  return worker;
}

- (void)dealloc {
  [worker release];
  [super dealloc];
}

@end

CASE(retain_and_release_balance) {
  const size_t before = live_count("TestObject");
  const int destroyed_before = destroyed;
  TestObject* object = [[TestObject alloc] init];
  CHECK_EQUAL(object.retainCount, 1ul);
  CHECK_EQUAL(live_count("TestObject"), before + 1);
  [object retain];
  CHECK_EQUAL(object.retainCount, 2ul);
  [object release];
  CHECK_EQUAL(destroyed.load(), destroyed_before);
  [object release];
  CHECK_EQUAL(destroyed.load(), destroyed_before + 1);
  CHECK_EQUAL(live_count("TestObject"), before);
}

CASE(autorelease_pools_nest) {
  const int before = destroyed;
  @autoreleasepool {
    [[TestObject new] autorelease];
    @autoreleasepool {
      [[TestObject new] autorelease];
    }
    CHECK_EQUAL(destroyed.load(), before + 1);
  }
  CHECK_EQUAL(destroyed.load(), before + 2);
}

CASE(thread_end_drains_its_pool) {
  const int before = destroyed;
  std::thread([] { [[TestObject new] autorelease]; }).join();
  CHECK_EQUAL(destroyed.load(), before + 1);
}

CASE(message_to_deallocated_object) {
  TestObject* object = [TestObject new];
  [object release];
  CHECK_VIOLATION("-[TestObject greet]: message sent to a deallocated object", [object greet]);
  CHECK_VIOLATION("-[TestObject release]: message sent to a deallocated object", [object release]);
}

CASE(message_to_nil) {
  TestObject* object = nil;
  CHECK_EQUAL([object greet], 0);
  CHECK_EQUAL(object.ratio, 0.0f);
  Worker* worker = nil;
  const Triple triple = [worker tripleOf:{1, 2, 3} times:2];
  CHECK_EQUAL(triple.x + triple.y + triple.z, 0);
}

CASE(unknown_selector_is_named) {
  id object = [[TestObject new] autorelease];
  CHECK_UNSUPPORTED("-[TestObject objectAtIndex:] is not simulated", [object objectAtIndex:1]);
  CHECK_UNSUPPORTED("+[TestObject arrayWithCapacity:] is not simulated", [(id)[TestObject class] arrayWithCapacity:1]);
}

CASE(forwarding_to_a_target) {
  Forwarder* forwarder = [[Forwarder new] autorelease];
  forwarder->worker = [Worker new];
  Worker* proxy = (Worker*)forwarder;
  CHECK_EQUAL([proxy sum:3 and:4], 7);
  CHECK_EQUAL([proxy scale:1.5 by:2.0f], 3.0);
  const Triple triple = [proxy tripleOf:{1, 2, 3} times:10];
  CHECK_EQUAL(triple.x, 10);
  CHECK_EQUAL(triple.y, 20);
  CHECK_EQUAL(triple.z, 30);
  const Pair pair = [proxy pairOf:{0.5, 6} shifted:0.25];
  CHECK_EQUAL(pair.first, 0.75);
  CHECK_EQUAL(pair.second, 7);
  const NSRange range = [proxy many:1 b:2 c:3 d:4 e:5 f:6 range:NSMakeRange(100, 9)];
  CHECK_EQUAL(range.location, 121ul);
  CHECK_EQUAL(range.length, 9ul);
  CHECK_THROWS(std::runtime_error, "bang", [proxy explode]);
}

CASE(blocks_retain_what_they_capture) {
  const int before = destroyed;
  auto shared = std::make_shared<Tracked>();
  int (^block)() = nil;
  {
    TestObject* object = [TestObject new];
    block = Block_copy(^{
      return [object greet] + shared->value;
    });
    [object release];
  }
  CHECK_EQUAL(destroyed.load(), before);
  CHECK_EQUAL(shared.use_count(), 2l);
  CHECK_EQUAL(block(), 84);
  Block_release(block);
  CHECK_EQUAL(destroyed.load(), before + 1);
  CHECK_EQUAL(shared.use_count(), 1l);
}

CASE(exceptions_pass_objective_c_frames) {
  Worker* worker = [[Worker new] autorelease];
  const int before = destroyed;
  const auto body = [&] {
    Tracked tracked;
    @autoreleasepool {
      [worker explode];
    }
  };
  CHECK_THROWS(std::runtime_error, "bang", body());
  CHECK_EQUAL(destroyed.load(), before + 1);
}
