// Random tensors and dropout. The numbers are those of ATen's generator, seeded
// by the state: Apple does not document its own stream.
#include "foundation/copying.h"
#include "graph/graph_state.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <atomic>
#include <limits>

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

// A version, the counter from its lowest word on, and the key.
constexpr int64_t kStateWords = 7;

at::Generator generator_for(const at::Tensor& state) {
  uint64_t seed = 0;
  const at::Tensor words = state.contiguous();
  // Not by values_of(): the shapes of the results do not depend on them.
  for (int64_t i = 0; i < kStateWords; i++) {
    seed = (seed ^ static_cast<uint32_t>(words.const_data_ptr<int32_t>()[i])) * 0x9E3779B97F4A7C15ull;
    seed ^= seed >> 32;
  }
  return at::detail::createCPUGenerator(seed);
}

struct Numbers {
  MPSGraphRandomDistribution distribution;
  at::ScalarType type;
  double minimum, maximum; // of uniform reals: from here to below there
  int64_t minimum_integer, maximum_integer; // both are possible
  double mean, standard_deviation;

  explicit Numbers(MPSGraphRandomOpDescriptor* descriptor, const char* method = __builtin_FUNCTION())
      : distribution(descriptor.distribution),
        type(to_scalar_type(descriptor.dataType)),
        minimum(descriptor.min),
        maximum(descriptor.max),
        minimum_integer(std::max<int64_t>(descriptor.minInteger, std::numeric_limits<int32_t>::lowest())),
        maximum_integer(std::min<int64_t>(descriptor.maxInteger, std::numeric_limits<int32_t>::max())),
        mean(descriptor.mean),
        standard_deviation(descriptor.standardDeviation) {
    const bool normal = distribution == MPSGraphRandomDistributionNormal;
    if ((!normal && distribution != MPSGraphRandomDistributionUniform) ||
        (!at::isFloatingType(type) && (normal || type != at::kInt))) {
      unsupported("%s of distribution %d and type %s", method, int(distribution), c10::toString(type));
    }
  }

  Tensors draw(const Sizes& sizes, const at::Tensor& state) const {
    const auto generator = generator_for(state);
    const at::Tensor values = at::empty(sizes, at::TensorOptions().device(at::kCPU).dtype(type));
    if (distribution == MPSGraphRandomDistributionNormal) {
      values.normal_(mean, standard_deviation, generator);
    } else if (type == at::kInt) {
      values.random_(minimum_integer, maximum_integer + 1, generator);
    } else {
      values.uniform_(minimum, maximum, generator);
    }
    const at::Tensor next = state.clone();
    next[1] += values.numel();
    return {values, next};
  }
};

// Dropout has no state to be given: each run takes the next of a sequence.
at::Tensor drop(const at::Tensor& tensor, double rate) {
  static std::atomic<int32_t> runs{0};
  const at::Tensor state = at::full({kStateWords}, static_cast<int64_t>(settings().seed % 1000), at::kInt);
  state[1] = runs.fetch_add(1);
  const at::Tensor kept = at::empty_like(tensor).bernoulli_(1 - rate, generator_for(state));
  return rate < 1 ? tensor.mul(kept).div(1 - rate) : tensor.mul(0);
}

} // namespace

@implementation MPSGraph (RandomOperations)

- (NSArray*)randomTensorWithShape:(MPSShape*)shape
                       descriptor:(MPSGraphRandomOpDescriptor*)descriptor
                      stateTensor:(MPSGraphTensor*)state
                             name:(NSString*)name {
  COUNT_CALL();
  VALIDATE(state->_type.type == at::kInt && state->_type.sizes == Sizes{kStateWords},
           "the state is seven numbers of type Int32");
  const Numbers numbers(descriptor, __func__);
  const auto sizes = to_sizes(shape);
  const auto expression = [=](const Tensors& inputs) { return numbers.draw(sizes, inputs[0]); };
  const std::vector<TensorType> types{{true, sizes, numbers.type}, {true, {kStateWords}, at::kInt}};
  return outputs_of(append_operation(self, "random", {state}, types, expression, name));
}

- (MPSGraphTensor*)dropoutTensor:(MPSGraphTensor*)tensor rate:(double)rate name:(NSString*)name {
  const TensorType& type = tensor->_type;
  return add_shaped_operation(self, "dropout", {tensor}, type.type, type.sizes, name, [rate](const Tensors& inputs) {
    return drop(inputs[0], rate);
  });
}

@end
