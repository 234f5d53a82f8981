#include "performance_shaders/nd_array.h"

#include "foundation/copying.h"
#include "graph/operation.h"
#include "metal/buffer.h"
#include "performance_shaders/encode.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <iostream>

using namespace mps_simulator;
using graph::Sizes;
using graph::to_shape;
using graph::to_sizes;

// MARK: Descriptors

@interface MPSNDArrayDescriptor () {
 @public
  Sizes _sizes; // slowest dimension first
  Sizes _sources; // the dimensions of the array that they came from
}
@end

@implementation MPSNDArrayDescriptor

+ (instancetype)descriptorWithDataType:(MPSDataType)dataType shape:(MPSShape*)shape {
  COUNT_CALL();
  VALIDATE(shape != nil && shape.count <= 16, "a shape has at most 16 dimensions");
  MPSNDArrayDescriptor* descriptor = [[[self alloc] init] autorelease];
  descriptor->_dataType = dataType;
  descriptor->_sizes = to_sizes(shape);
  for (size_t i = 0; i < descriptor->_sizes.size(); ++i) {
    VALIDATE(descriptor->_sizes[i] >= 0, "the shape has a negative length %ld", descriptor->_sizes[i]);
    descriptor->_sources.push_back(i);
  }
  return descriptor;
}

- (id)copyWithZone:(NSZone*)zone {
  MPSNDArrayDescriptor* copy = copy_with_properties(self);
  copy->_sizes = _sizes;
  copy->_sources = _sources;
  return copy;
}

COUNTED_GETTER(NSUInteger, numberOfDimensions, _sizes.size())

// They count from the fastest moving dimension.
- (void)transposeDimension:(NSUInteger)dimension withDimension:(NSUInteger)other {
  COUNT_CALL();
  for (const NSUInteger index : {dimension, other}) {
    VALIDATE(index < _sizes.size(), "dimension %lu of %zu", index, _sizes.size());
  }
  std::swap(_sizes[_sizes.size() - 1 - dimension], _sizes[_sizes.size() - 1 - other]);
  std::swap(_sources[_sizes.size() - 1 - dimension], _sources[_sizes.size() - 1 - other]);
}

COUNTED_GETTER(MPSShape*, getShape, to_shape(_sizes))

- (NSString*)description {
  return [NSString stringWithFormat:@"<MPSNDArrayDescriptor: type 0x%x, shape %@>",
                                    static_cast<unsigned>(_dataType),
                                    [[self getShape] componentsJoinedByString:@"x"]];
}

@end

// MARK: Arrays

namespace {

// Rows of an array that does not ask for packed ones start at multiples of this.
constexpr int64_t kRowAlignment = 16;

Sizes strides_for(const Sizes& sizes, MPSDataType type, bool packed) {
  Sizes strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
    if (i + 1 == sizes.size() && i > 0 && !packed) {
      const int64_t alignment = std::max<int64_t>(1, kRowAlignment / MPSSizeofMPSDataType(type));
      stride = (stride + alignment - 1) / alignment * alignment;
    }
  }
  return strides;
}

// One more than the largest index of an element; 0 for an empty array.
int64_t element_extent(const NDArrayView& view) {
  int64_t extent = 1;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 0) {
      return 0;
    }
    extent += (view.sizes[i] - 1) * view.strides[i];
  }
  return extent;
}

} // namespace

@interface MPSNDArray () {
 @public
  NDArrayView _view;
  id<MTLDevice> _device;
  BOOL _madeFromBuffer;
  BOOL _packed;
}
@end

@implementation MPSNDArray

- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSNDArrayDescriptor*)descriptor {
  COUNT_CALL();
  if ((self = [super init])) {
    check_device(device, __func__);
    [self takeDescriptor:descriptor function:__func__];
    _device = [device retain];
    // A buffer cannot be empty.
    const NSUInteger length = std::max<int64_t>(element_extent(_view), 1) * MPSSizeofMPSDataType(_view.data_type);
    _view.buffer = [device newBufferWithLength:length options:MTLResourceStorageModeShared];
    if (_view.buffer == nil) {
      [self release];
      return nil;
    }
  }
  return self;
}

- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer
                        offset:(NSUInteger)offset
                    descriptor:(MPSNDArrayDescriptor*)descriptor {
  COUNT_CALL();
  if ((self = [super init])) {
    VALIDATE(buffer != nil, "the buffer is nil");
    [self takeDescriptor:descriptor function:__func__];
    VALIDATE(offset <= buffer.length, "offset %lu is beyond the buffer's length %lu", offset, buffer.length);
    VALIDATE(offset % MPSSizeofMPSDataType(_view.data_type) == 0,
             "offset %lu is no multiple of the element's size %zu",
             offset,
             MPSSizeofMPSDataType(_view.data_type));
    _device = [buffer.device retain];
    _view.buffer = [buffer retain];
    _view.byte_offset = offset;
    _madeFromBuffer = YES;
  }
  return self;
}

- (void)takeDescriptor:(MPSNDArrayDescriptor*)descriptor function:(const char*)function {
  if (descriptor == nil || descriptor.dataType == MPSDataTypeInvalid) {
    violation("%s: the descriptor is nil or its data type invalid", function);
  }
  _view.data_type = descriptor.dataType;
  _view.sizes = descriptor->_sizes;
  _packed = descriptor.preferPackedRows;
  _view.strides = strides_for(_view.sizes, _view.data_type, _packed);
}

- (instancetype)initAsViewOf:(MPSNDArray*)array sizes:(Sizes)sizes strides:(Sizes)strides {
  if ((self = [super init])) {
    const NDArrayView& view = array->_view;
    _device = [array->_device retain];
    _view = {[view.buffer retain], view.byte_offset, std::move(sizes), std::move(strides), view.data_type};
    _madeFromBuffer = array->_madeFromBuffer;
    _packed = array->_packed;
  }
  return self;
}

- (MPSNDArray*)viewWithSizes:(Sizes)sizes strides:(Sizes)strides {
  return [[[MPSNDArray alloc] initAsViewOf:self sizes:std::move(sizes) strides:std::move(strides)] autorelease];
}

- (void)dealloc {
  [_label release];
  [_view.buffer release];
  [_device release];
  [super dealloc];
}

GETTER(id<MTLDevice>, device, _device)
COUNTED_GETTER(MPSDataType, dataType, _view.data_type)
COUNTED_GETTER(NSUInteger, numberOfDimensions, _view.sizes.size())

- (MPSNDArrayDescriptor*)descriptor {
  COUNT_CALL();
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:_view.data_type
                                                                            shape:to_shape(_view.sizes)];
  descriptor.preferPackedRows = _packed;
  return descriptor;
}

COUNTED_GETTER(id<MTLBuffer>, userBuffer, _madeFromBuffer ? _view.buffer : nil)

// MARK: Views

- (MPSNDArray*)arrayViewWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                               descriptor:(MPSNDArrayDescriptor*)descriptor
                                 aliasing:(MPSAliasingStrategy)aliasing {
  COUNT_CALL();
  if (commandBuffer != nil || aliasing != MPSAliasingStrategyShallAlias) {
    unsupported("%s with a copy", __func__);
  }
  const Sizes& sources = descriptor->_sources;
  VALIDATE(descriptor.dataType == _view.data_type, "the descriptor has another data type than the array");
  VALIDATE(sources.size() == _view.sizes.size(), "%zu dimensions for %zu", sources.size(), _view.sizes.size());
  Sizes strides;
  for (size_t i = 0; i < sources.size(); ++i) {
    VALIDATE(descriptor->_sizes[i] == _view.sizes[sources[i]], "dimension %zu has another length in the array", i);
    strides.push_back(_view.strides[sources[i]]);
  }
  return [self viewWithSizes:descriptor->_sizes strides:strides];
}

- (MPSNDArray*)arrayViewWithShape:(MPSShape*)shape strides:(MPSShape*)strides {
  COUNT_CALL();
  const Sizes sizes = shape == nil ? _view.sizes : to_sizes(shape);
  const Sizes steps = to_sizes(strides);
  VALIDATE(sizes.size() == steps.size(), "%zu strides for %zu dimensions", steps.size(), sizes.size());
  for (const int64_t stride : steps) {
    VALIDATE(stride >= 0, "the stride %ld is negative", stride);
  }
  VALIDATE(
      steps.empty() || steps.back() == 1, "the fastest moving dimension must have stride 1, not %ld", steps.back());
  MPSNDArray* view = [self viewWithSizes:sizes strides:steps];
  view->_view.check_bounds(__func__);
  return view;
}

// MARK: Data

// The elements and packed ones in memory of the caller.
- (std::pair<at::Tensor, at::Tensor>)tensorAndMemory:(void*)memory
                                             strides:(NSInteger*)strides
                                            function:(const char*)function {
  if (memory == nullptr || _view.buffer.storageMode == MTLStorageModePrivate) {
    violation("%s: the bytes are NULL, or the CPU cannot reach a private buffer", function);
  }
  if (strides != nullptr) {
    unsupported("%s with strides", function);
  }
  _view.check_bounds(function);
  const at::Tensor tensor = _view.tensor();
  return {tensor, at::from_blob(memory, _view.sizes, tensor.options())};
}

- (void)writeBytes:(void*)buffer strideBytes:(NSInteger*)strideBytesPerDimension {
  COUNT_CALL();
  const at::RecordFunctionGuard unobserved(false); // The program's observers see no operator for this call on a Mac.
  const auto [tensor, memory] = [self tensorAndMemory:buffer strides:strideBytesPerDimension function:__func__];
  tensor.copy_(memory);
}

- (void)readBytes:(void*)buffer strideBytes:(NSInteger*)strideBytesPerDimension {
  COUNT_CALL();
  const at::RecordFunctionGuard unobserved(false);
  const auto [tensor, memory] = [self tensorAndMemory:buffer strides:strideBytesPerDimension function:__func__];
  memory.copy_(tensor);
}

- (void)printNDArray {
  COUNT_CALL();
  std::cout << view_of(self).tensor() << std::endl;
}

- (NSString*)description {
  return [NSString stringWithFormat:@"<MPSNDArray: %p, type 0x%x, shape %@>",
                                    self,
                                    static_cast<unsigned>(_view.data_type),
                                    [to_shape(_view.sizes) componentsJoinedByString:@"x"]];
}

@end

@implementation MPSNDArrayIdentity

- (MPSNDArray*)reshapeWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                            sourceArray:(MPSNDArray*)source
                                  shape:(MPSShape*)shape
                       destinationArray:(MPSNDArray*)destination {
  COUNT_CALL();
  VALIDATE(source != nil, "the source is nil");
  if (commandBuffer != nil || destination != nil) {
    unsupported("%s with a copy", __func__);
  }
  const Sizes sizes = to_sizes(shape);
  const NDArrayView view = view_of(source);
  VALIDATE(c10::multiply_integers(view.sizes) == c10::multiply_integers(sizes),
           "%ld elements cannot take a shape of %ld",
           c10::multiply_integers(view.sizes),
           c10::multiply_integers(sizes));
  const auto strides = at::detail::computeStride(view.sizes, view.strides, sizes);
  return strides ? [source viewWithSizes:sizes strides:*strides] : nil;
}

@end

namespace mps_simulator {

at::Tensor NDArrayView::tensor() const {
  return at::from_blob(static_cast<char*>(host_pointer(buffer)) + byte_offset,
                       sizes,
                       strides,
                       at::TensorOptions().dtype(graph::to_scalar_type(data_type)));
}

ByteAccess NDArrayView::access(bool writes) const {
  const auto begin = static_cast<size_t>(byte_offset);
  const auto length = static_cast<size_t>(element_extent(*this)) * MPSSizeofMPSDataType(data_type);
  return {buffer, begin, begin + length, writes};
}

void NDArrayView::check_bounds(const char* function) const {
  const int64_t end = byte_offset + element_extent(*this) * MPSSizeofMPSDataType(data_type);
  if (end > static_cast<int64_t>(buffer.length)) {
    violation("%s: the elements end at byte %ld, the buffer at byte %lu", function, end, buffer.length);
  }
}

NDArrayView view_of(MPSNDArray* array) {
  array->_view.check_bounds("MPSNDArray");
  return array->_view;
}

} // namespace mps_simulator
