// Random tensors and dropout.
#include "foundation/copying.h"
#include "graph/graph_state.h"
#include "graph/random_fill.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>

#include <atomic>

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraphRandomOpDescriptor

+ (instancetype)descriptorWithDistribution:(MPSGraphRandomDistribution)distribution dataType:(MPSDataType)dataType {
  COUNT_CALL();
  MPSGraphRandomOpDescriptor* descriptor = [[[self alloc] init] autorelease];
  descriptor.distribution = distribution;
  descriptor.dataType = dataType;
  return descriptor;
}

- (instancetype)init {
  if ((self = [super init])) {
    _max = 1;
    _maxInteger = 1;
    _standardDeviation = 1;
  }
  return self;
}

COPIES_PROPERTIES

@end

namespace {

Distribution to_distribution(MPSGraphRandomDistribution distribution) {
  switch (distribution) {
    case MPSGraphRandomDistributionUniform:
      return Distribution::uniform;
    case MPSGraphRandomDistributionNormal:
      return Distribution::normal;
    case MPSGraphRandomDistributionTruncatedNormal:
      return Distribution::truncated_normal;
  }
  unsupported("MPSGraphRandomDistribution %d", static_cast<int>(distribution));
}

void check_type(Distribution distribution, at::ScalarType type) {
  const bool real = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  const bool integer = type == at::kInt || type == at::kLong;
  if (!real && !(integer && distribution == Distribution::uniform)) {
    violation("-[MPSGraph randomTensor]: no such distribution has the element type %s", c10::toString(type));
  }
}

RandomParameters to_parameters(MPSGraphRandomOpDescriptor* descriptor) {
  RandomParameters parameters{to_distribution(descriptor.distribution),
                              to_scalar_type(descriptor.dataType),
                              descriptor.min,
                              descriptor.max,
                              descriptor.minInteger,
                              descriptor.maxInteger,
                              descriptor.mean,
                              descriptor.standardDeviation};
  check_type(parameters.distribution, parameters.type);
  return parameters;
}

Tensors generate(const RandomParameters& parameters, const std::vector<int64_t>& sizes, const at::Tensor& state) {
  const at::Tensor words = state.contiguous();
  const RandomResult result = random_tensor(parameters, sizes, PhiloxState::read(words.const_data_ptr<int32_t>()));
  const at::Tensor new_state = at::empty({PhiloxState::words}, words.options());
  result.state.write(new_state.mutable_data_ptr<int32_t>());
  return {result.values, new_state};
}

// Dropout has no state to be given: each run takes the next of a sequence.
PhiloxState next_dropout_state() {
  static std::atomic<uint32_t> runs{0};
  const uint64_t seed = settings().seed;
  const uint32_t run = runs.fetch_add(1);
  return {1, {0, 0, run, 0}, {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
}

at::Tensor drop(const at::Tensor& tensor, double rate) {
  if (rate <= 0) {
    return tensor;
  }
  if (rate >= 1) {
    return tensor.mul(0);
  }
  RandomParameters parameters{};
  parameters.distribution = Distribution::uniform;
  parameters.type = at::kFloat;
  parameters.maximum = 1;
  const at::Tensor numbers = random_tensor(parameters, tensor.sizes(), next_dropout_state()).values;
  return tensor.mul(1 / (1 - rate)).masked_fill(numbers.lt(rate), 0);
}

} // namespace

@implementation MPSGraph (RandomOperations)

- (NSArray<MPSGraphTensor*>*)randomTensorWithShape:(MPSShape*)shape
                                        descriptor:(MPSGraphRandomOpDescriptor*)descriptor
                                       stateTensor:(MPSGraphTensor*)stateTensor
                                              name:(NSString*)name {
  COUNT_CALL();
  VALIDATE(stateTensor->_type.type == at::kInt && stateTensor->_type.ranked &&
               stateTensor->_type.sizes == std::vector<int64_t>{PhiloxState::words},
           "the state is seven numbers of type Int32");
  const RandomParameters parameters = to_parameters(descriptor);
  const std::vector<int64_t> sizes = to_sizes(shape);
  return append_operation(
             self,
             "random",
             {stateTensor},
             {{true, sizes, parameters.type}, {true, {PhiloxState::words}, at::kInt}},
             [parameters, sizes](const Tensors& inputs) { return generate(parameters, sizes, inputs[0]); },
             name)
      .outputTensors;
}

- (MPSGraphTensor*)dropoutTensor:(MPSGraphTensor*)tensor rate:(double)rate name:(NSString*)name {
  COUNT_CALL();
  return add_shaped_operation(self,
                              "dropout",
                              {tensor},
                              to_data_type(tensor->_type.type),
                              tensor->_type.sizes,
                              name,
                              [rate](const Tensors& inputs) { return drop(inputs[0], rate); });
}

@end
