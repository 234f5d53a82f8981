#include "graph/tensor_data.h"

#include "graph/graph_state.h"
#include "metal/buffer.h"
#include "performance_shaders/nd_array.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <ATen/TensorUtils.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

@interface MPSGraphTensorData () {
 @public
  TensorMemory _memory;
  MPSNDArray* _array; // nil until asked for when made from a buffer
}
- (void)printNDArray;
@end

@implementation MPSGraphTensorData

- (instancetype)initWithMTLBuffer:(id<MTLBuffer>)buffer shape:(MPSShape*)shape dataType:(MPSDataType)dataType {
  COUNT_CALL();
  if ((self = [super init])) {
    VALIDATE(buffer != nil, "the buffer is nil");
    _memory.buffer = [buffer retain];
    _memory.sizes = to_sizes(shape);
    _memory.strides = at::detail::defaultStrides(_memory.sizes);
    _memory.type = to_scalar_type(dataType);
    const size_t needed = c10::multiply_integers(_memory.sizes) * c10::elementSize(_memory.type);
    VALIDATE(needed <= buffer.length,
             "the shape %s needs %zu bytes, but the buffer has %zu",
             describe(_memory.sizes).c_str(),
             needed,
             static_cast<size_t>(buffer.length));
  }
  return self;
}

- (instancetype)initWithMPSNDArray:(MPSNDArray*)ndarray {
  COUNT_CALL();
  if ((self = [super init])) {
    VALIDATE(ndarray != nil, "the array is nil");
    _array = [ndarray retain];
    NDArrayView view = view_of(ndarray);
    _memory.buffer = [view.buffer retain];
    _memory.byte_offset = view.byte_offset;
    _memory.sizes = std::move(view.sizes);
    _memory.strides = std::move(view.strides);
    _memory.type = to_scalar_type(view.data_type);
  }
  return self;
}

- (void)dealloc {
  [_memory.buffer release];
  [_array release];
  [super dealloc];
}

- (MPSShape*)shape {
  COUNT_CALL();
  return to_shape(_memory.sizes);
}

- (MPSDataType)dataType {
  COUNT_CALL();
  return to_data_type(_memory.type);
}

- (MPSNDArray*)mpsndarray {
  COUNT_CALL();
  if (!_array) {
    MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:to_data_type(_memory.type)
                                                                              shape:to_shape(_memory.sizes)];
    descriptor.preferPackedRows = YES;
    _array = [[MPSNDArray alloc] initWithBuffer:_memory.buffer offset:_memory.byte_offset descriptor:descriptor];
  }
  return [[_array retain] autorelease];
}

- (void)printNDArray {
  COUNT_CALL();
  [[self mpsndarray] printNDArray];
}

@end

namespace mps_simulator::graph {

const TensorMemory& memory_of(MPSGraphTensorData* data) {
  return data->_memory;
}

at::Tensor TensorMemory::tensor() const {
  return at::from_blob(static_cast<char*>(host_pointer(buffer)) + byte_offset,
                       sizes,
                       strides,
                       at::TensorOptions().dtype(type).device(at::kCPU));
}

MPSGraphTensorData* make_tensor_data(id<MTLDevice> device, at::IntArrayRef sizes, at::ScalarType type) {
  const size_t bytes = c10::multiply_integers(sizes) * c10::elementSize(type);
  // A buffer cannot be empty.
  id<MTLBuffer> buffer = [[device newBufferWithLength:std::max<size_t>(bytes, 1)
                                              options:MTLResourceStorageModeShared] autorelease];
  return [[[MPSGraphTensorData alloc] initWithMTLBuffer:buffer shape:to_shape(sizes)
                                               dataType:to_data_type(type)] autorelease];
}

} // namespace mps_simulator::graph
