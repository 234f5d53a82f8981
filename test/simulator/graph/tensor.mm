#include "foundation/copying.h"
#include "graph/graph_state.h"
#include "support/counters.h"
#include "support/error.h"

#include <sstream>

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraphObject
@end

@implementation MPSGraphTensor

- (instancetype)init {
  VIOLATION("a tensor belongs to a graph and is made by one of its methods");
}

- (instancetype)initWithType:(TensorType)type identifier:(uint32_t)identifier producer:(MPSGraphOperation*)producer {
  if ((self = [super init])) {
    if (type.ranked) {
      _shapeArray = [to_shape(type.sizes) retain];
    }
    _type = std::move(type);
    _identifier = identifier;
    _producer = producer;
  }
  return self;
}

- (void)dealloc {
  [_shapeArray release];
  [super dealloc];
}

- (MPSShape*)shape {
  COUNT_CALL();
  return [[_shapeArray retain] autorelease];
}

- (MPSDataType)dataType {
  COUNT_CALL();
  return to_data_type(_type.type);
}

// Dictionaries copy their keys: a copy of a tensor is the tensor itself.
COPIES_BY_RETAINING

@end

@implementation MPSGraphOperation

- (instancetype)init {
  VIOLATION("an operation belongs to a graph and is made by one of its methods");
}

- (instancetype)initWithNode:(std::shared_ptr<const Node>)node
                      inputs:(std::vector<MPSGraphTensor*>)inputs
                       graph:(MPSGraph*)graph {
  if ((self = [super init])) {
    _node = std::move(node);
    _inputs = std::move(inputs);
    _owner = graph;
  }
  return self;
}

- (void)dealloc {
  for (MPSGraphTensor* output : _outputs) {
    [output release];
  }
  [super dealloc];
}

COPIES_BY_RETAINING

@end

namespace mps_simulator::graph {

bool TensorType::is_static() const {
  return ranked && std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; });
}

at::ScalarType scalar_type_of(MPSGraphTensor* tensor) {
  return tensor->_type.type;
}

int64_t rank_of(MPSGraphTensor* tensor) {
  return tensor->_type.ranked ? static_cast<int64_t>(tensor->_type.sizes.size()) : -1;
}

std::string describe(MPSGraphTensor* tensor) {
  const Node& node = *tensor->_producer->_node;
  const std::string number = std::to_string(tensor->_identifier);
  if (node.name.empty()) {
    return std::string(node.kind) + " " + number;
  }
  return "'" + node.name + "' (" + node.kind + " " + number + ")";
}

std::string describe(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

void check_same_type(const char* kind, const Inputs& tensors) {
  if (!settings().validation) {
    return;
  }
  for (MPSGraphTensor* tensor : tensors) {
    if (tensor->_type.type != tensors[0]->_type.type) {
      violation("-[MPSGraph]: '%s' requires one element type for all its operands, not %s and %s",
                kind,
                c10::toString(tensors[0]->_type.type),
                c10::toString(tensor->_type.type));
    }
  }
}

} // namespace mps_simulator::graph
