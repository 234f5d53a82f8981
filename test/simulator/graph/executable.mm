#include "graph/executable.h"

#include "foundation/copying.h"
#include "graph/encoding.h"
#include "support/counters.h"
#include "support/error.h"
#include "support/random.h"

#include <numeric>
#include <optional>
#include <sstream>
#include <thread>

namespace mps_simulator::graph {

void ExecutableUse::check(const char* method) const {
  if (life_ && settings().validation && life_->released_early) {
    violation("%s: %s was released before the GPU had run what it encoded", method, life_->name.c_str());
  }
}

} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

// Not in Apple's headers, but it exists since macOS 13; YES unless it is set.
@interface MPSGraphExecutableExecutionDescriptor ()
@property(readwrite, atomic) BOOL enableCommitAndContinue;
@end

namespace {

constexpr const char* encode_method = "-[MPSGraphExecutable encodeToCommandBuffer]";

TensorType to_type(MPSGraphShapedType* shaped) {
  TensorType type;
  type.type = to_scalar_type(shaped.dataType);
  if (MPSShape* shape = shaped.shape) {
    type.ranked = true;
    type.sizes = to_sizes(shape);
  }
  return type;
}

// Apple promises no order of the dictionary or of the targets, nor the same
// order in another executable: each executable reports its own.
template <typename T>
void shuffle(std::vector<T>& items) {
  static SeededSequence numbers;
  for (size_t left = items.size(); left > 1; left--) {
    std::swap(items[left - 1], items[numbers.next() % left]);
  }
}

void check_count(const char* what, size_t expected, size_t given) {
  if (expected != given) {
    violation("%s: %zu %s are given for an executable with %zu", encode_method, given, what, expected);
  }
}

// It has no label of its own, so its name in a message is made of what it computes.
std::string name_of(MPSGraphExecutable* executable, const std::vector<MPSGraphTensor*>& targets) {
  std::ostringstream name;
  name << "the executable " << static_cast<const void*>(executable);
  const char* separator = " for ";
  for (MPSGraphTensor* target : targets) {
    name << separator << target->_producer->_node->kind << ' ' << describe(target);
    separator = ", ";
  }
  return name.str();
}

} // namespace

@implementation MPSGraphExecutable

- (instancetype)initWithGraph:(MPSGraph*)graph
                        feeds:(std::vector<MPSGraphTensor*>)feeds
                        types:(std::vector<TensorType>)types
                      targets:(std::vector<MPSGraphTensor*>)targets {
  if ((self = [super init])) {
    _graph = [graph retain];
    _options = MPSGraphOptionsDefault;
    _feeds = std::move(feeds);
    _targets = std::move(targets);
    _life = std::make_shared<ExecutableLife>();
    _life->name = name_of(self, _targets);
    _compiled.plan = make_plan(_feeds, _targets);
    _compiled.target_types = _compiled.plan->infer(types);
    _compiled.feed_types = std::move(types);
  }
  return self;
}

- (void)dealloc {
  _life->released_early = _life->in_flight > 0;
  [_graph release];
  [super dealloc];
}

COUNTED_GETTER(NSArray<MPSGraphTensor*>*, feedTensors, [NSArray arrayWithObjects:_feeds.data() count:_feeds.size()])

- (NSArray<MPSGraphTensor*>*)targetTensors {
  COUNT_CALL();
  return [NSArray arrayWithObjects:_targets.data() count:_targets.size()];
}

- (NSArray<MPSGraphTensorData*>*)newResultsForInputs:(const std::vector<MPSGraphTensorData*>&)inputs
                                              device:(id<MTLDevice>)device {
  std::vector<TensorType> feed_types;
  for (MPSGraphTensorData* input : inputs) {
    feed_types.push_back({true, memory_of(input).sizes, memory_of(input).type});
  }
  NSMutableArray<MPSGraphTensorData*>* results = [NSMutableArray arrayWithCapacity:_targets.size()];
  for (const TensorType& type : _compiled.plan->infer(feed_types)) {
    if (!type.is_static()) {
      unsupported("%s: memory for a result whose shape depends on values", encode_method);
    }
    [results addObject:make_tensor_data(device, type.sizes, type.type)];
  }
  return results;
}

- (NSArray<MPSGraphTensorData*>*)encodeToCommandBuffer:(MPSCommandBuffer*)commandBuffer
                                           inputsArray:(NSArray<MPSGraphTensorData*>*)inputsArray
                                          resultsArray:(NSArray<MPSGraphTensorData*>*)resultsArray
                                   executionDescriptor:(MPSGraphExecutableExecutionDescriptor*)executionDescriptor {
  COUNT_CALL();
  std::optional<OneThread::Use> use;
  if (!settings().shared_executables) {
    use.emplace(_life->one_thread, encode_method, "executable");
    // Another thread that may use it meanwhile does so even where there are fewer processors than threads.
    if (!settings().null_mode) {
      std::this_thread::yield();
    }
  }
  check_count("inputs", _feeds.size(), inputsArray.count);
  auto inputs = to_vector<MPSGraphTensorData*>(inputsArray);
  for (size_t i = 0; i < inputs.size(); i++) {
    check_feed(encode_method, _feeds[i], _compiled.feed_types[i], inputs[i]);
  }
  if (!resultsArray) {
    resultsArray = [self newResultsForInputs:inputs device:commandBuffer.device];
  }
  check_count("results", _targets.size(), resultsArray.count);
  auto results = to_vector<MPSGraphTensorData*>(resultsArray);
  for (size_t i = 0; i < results.size(); i++) {
    check_result(encode_method, _targets[i], _compiled.target_types[i], results[i]);
  }
  schedule(encode_method, commandBuffer, _compiled.plan, std::move(inputs), std::move(results), ExecutableUse(_life));
  if (!executionDescriptor || executionDescriptor.enableCommitAndContinue) {
    commit_if_the_seed_says(commandBuffer);
  }
  return resultsArray;
}

@end

@implementation MPSGraphExecutableExecutionDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    _enableCommitAndContinue = YES;
  }
  return self;
}

@end

@implementation MPSGraph (MPSGraphCompiling)

- (MPSGraphExecutable*)compileWithDevice:(MPSGraphDevice*)device
                                   feeds:(MPSGraphTensorShapedTypeDictionary*)feeds
                           targetTensors:(NSArray<MPSGraphTensor*>*)targetTensors
                        targetOperations:(NSArray<MPSGraphOperation*>*)targetOperations
                   compilationDescriptor:(MPSGraphCompilationDescriptor*)compilationDescriptor {
  COUNT_CALL();
  if (targetOperations.count) {
    unsupported("%s with target operations", __func__);
  }
  auto feed_tensors = to_vector<MPSGraphTensor*>(feeds.allKeys);
  std::sort(feed_tensors.begin(), feed_tensors.end(), [](MPSGraphTensor* left, MPSGraphTensor* right) {
    return left->_identifier < right->_identifier;
  });
  shuffle(feed_tensors);
  std::vector<TensorType> types;
  for (MPSGraphTensor* feed : feed_tensors) {
    TensorType type = to_type([feeds objectForKey:feed]);
    if (type.type != feed->_type.type) {
      violation("-[MPSGraph compileWithDevice:]: the placeholder %s has the element type %s, not %s",
                describe(feed).c_str(),
                c10::toString(feed->_type.type),
                c10::toString(type.type));
    }
    types.push_back(std::move(type));
  }
  auto target_tensors = to_vector<MPSGraphTensor*>(targetTensors);
  shuffle(target_tensors);
  MPSGraphExecutable* executable =
      [[[MPSGraphExecutable alloc] initWithGraph:self
                                           feeds:std::move(feed_tensors)
                                           types:std::move(types)
                                         targets:std::move(target_tensors)] autorelease];
  return executable;
}

@end

@implementation MPSGraphCompilationDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    _optimizationLevel = MPSGraphOptimizationLevel1;
  }
  return self;
}

COPIES_PROPERTIES

@end
