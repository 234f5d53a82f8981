#include "performance_shaders/nd_array.h"

#include "graph/operation.h"
#include "metal/buffer.h"
#include "performance_shaders/encode.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <iostream>
#include <optional>

using namespace mps_simulator;

namespace {

// Rows of an array that does not ask for packed ones start at multiples of this.
constexpr int64_t kRowAlignment = 16;

std::vector<int64_t> strides_for(const std::vector<int64_t>& sizes, MPSDataType type, bool packed) {
  std::vector<int64_t> strides(sizes.size());
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

// Integers of the width of an element: copies must not change a bit.
at::ScalarType bits_type(MPSDataType type, const char* function) {
  switch (MPSSizeofMPSDataType(type)) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    case 8:
      return at::kLong;
    default:
      unsupported("%s with MPSDataType 0x%x", function, static_cast<unsigned>(type));
  }
}

at::Tensor bits_of(const NDArrayView& view, const char* function) {
  return at::from_blob(static_cast<char*>(host_pointer(view.buffer)) + view.byte_offset,
                       view.sizes,
                       view.strides,
                       at::TensorOptions().dtype(bits_type(view.data_type, function)));
}

// Memory of the caller in the shape of the array. The strides are given for the
// fastest moving dimension first.
at::Tensor caller_memory(void* memory, const NDArrayView& view, const NSInteger* stride_bytes, const char* function) {
  const auto type = bits_type(view.data_type, function);
  const int64_t element = c10::elementSize(type);
  std::vector<int64_t> strides = at::detail::defaultStrides(view.sizes);
  if (stride_bytes != nullptr) {
    for (size_t i = 0; i < strides.size(); ++i) {
      const NSInteger bytes = stride_bytes[strides.size() - 1 - i];
      if (bytes < 0 || bytes % element != 0) {
        violation("%s: a stride of %ld bytes is no multiple of the element's %ld", function, bytes, element);
      }
      strides[i] = bytes / element;
    }
  }
  return at::from_blob(memory, view.sizes, strides, at::TensorOptions().dtype(type));
}

// With conversion to the destination's type.
void encode_elements(id<MTLCommandBuffer> command_buffer,
                     const NDArrayView& source,
                     const NDArrayView& destination,
                     const char* function) {
  encode_kernel(command_buffer,
                nil,
                {function,
                 [=] { destination.tensor().copy_(source.tensor()); },
                 {source.access(false), destination.access(true)}});
}

} // namespace

@interface MPSNDArray () {
 @public
  NDArrayView _view;
  id<MTLDevice> _device;
  MPSNDArray* _parent;
  BOOL _madeFromBuffer;
  BOOL _packed;
}
- (MPSNDArray*)viewWithOffset:(int64_t)byteOffset
                        sizes:(std::vector<int64_t>)sizes
                      strides:(std::vector<int64_t>)strides;
@end

@implementation MPSNDArray

// MARK: Making arrays

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

- (instancetype)initWithDevice:(id<MTLDevice>)device scalar:(double)value {
  COUNT_CALL();
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:MPSDataTypeFloat32 shape:@[ @1 ]];
  if ((self = [self initWithDevice:device descriptor:descriptor])) {
    float single = value;
    [self writeBytes:&single strideBytes:nullptr];
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
  if (descriptor == nil) {
    violation("%s: the descriptor is nil", function);
  }
  _view.data_type = descriptor.dataType;
  if (_view.data_type == MPSDataTypeInvalid) {
    violation("%s: the data type is MPSDataTypeInvalid", function);
  }
  bits_type(_view.data_type, function);
  _view.sizes = to_integers([descriptor getShape]);
  _packed = descriptor.preferPackedRows;
  _view.strides = strides_for(_view.sizes, _view.data_type, _packed);
}

- (MPSNDArray*)viewWithOffset:(int64_t)byteOffset
                        sizes:(std::vector<int64_t>)sizes
                      strides:(std::vector<int64_t>)strides {
  MPSNDArray* view = [[[MPSNDArray alloc] initAsViewOf:self] autorelease];
  view->_view.byte_offset = byteOffset;
  view->_view.sizes = std::move(sizes);
  view->_view.strides = std::move(strides);
  return view;
}

- (instancetype)initAsViewOf:(MPSNDArray*)parent {
  if ((self = [super init])) {
    _parent = [parent retain];
    _device = [parent->_device retain];
    _view.buffer = [parent->_view.buffer retain];
    _view.data_type = parent->_view.data_type;
    _madeFromBuffer = parent->_madeFromBuffer;
    _packed = parent->_packed;
  }
  return self;
}

- (void)dealloc {
  [_label release];
  [_parent release];
  [_view.buffer release];
  [_device release];
  [super dealloc];
}

// MARK: Properties

- (id<MTLDevice>)device {
  return _device;
}

- (MPSNDArray*)parent {
  return _parent;
}

- (MPSDataType)dataType {
  COUNT_CALL();
  return _view.data_type;
}

- (NSUInteger)numberOfDimensions {
  COUNT_CALL();
  return _view.sizes.size();
}

- (NSUInteger)lengthOfDimension:(NSUInteger)dimensionIndex {
  COUNT_CALL();
  return dimensionIndex < _view.sizes.size() ? _view.sizes[_view.sizes.size() - 1 - dimensionIndex] : 1;
}

- (MPSNDArrayDescriptor*)descriptor {
  COUNT_CALL();
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:_view.data_type
                                                                            shape:to_numbers(_view.sizes)];
  descriptor.preferPackedRows = _packed;
  return descriptor;
}

- (id<MTLBuffer>)userBuffer {
  COUNT_CALL();
  return _madeFromBuffer ? _view.buffer : nil;
}

// MARK: Views

- (MPSNDArray*)arrayViewWithCommandBuffer:(id<MTLCommandBuffer>)cmdBuf
                               descriptor:(MPSNDArrayDescriptor*)descriptor
                                 aliasing:(MPSAliasingStrategy)aliasing {
  COUNT_CALL();
  VALIDATE(descriptor != nil, "the descriptor is nil");
  VALIDATE((aliasing & MPSAliasingStrategyAliasingReserved) != MPSAliasingStrategyAliasingReserved,
           "the view shall alias and shall not alias");
  MPSNDArray* view = [self aliasWithDescriptor:descriptor function:__func__];
  if (view != nil && (aliasing & MPSAliasingStrategyShallNotAlias) == 0) {
    return view;
  }
  if ((aliasing & MPSAliasingStrategyShallAlias) != 0 || cmdBuf == nil) {
    return nil;
  }
  if (view == nil) {
    // A reshaped array whose elements are not in order.
    return copy_with_sizes(self, to_integers([descriptor getShape]), cmdBuf, __func__);
  }
  return copy_with_sizes(view, view->_view.sizes, cmdBuf, __func__);
}

- (MPSNDArray*)arrayViewWithDescriptor:(MPSNDArrayDescriptor*)descriptor {
  COUNT_CALL();
  VALIDATE(descriptor != nil, "the descriptor is nil");
  return [self aliasWithDescriptor:descriptor function:__func__];
}

- (MPSNDArray*)aliasWithDescriptor:(MPSNDArrayDescriptor*)descriptor function:(const char*)function {
  if (descriptor.dataType != _view.data_type) {
    violation("%s: the descriptor has another data type than the array", function);
  }
  const auto& plan = plan_of(descriptor);
  if (plan.reshaped) {
    const auto sizes = to_integers([descriptor getShape]);
    const auto strides = strides_of_reshape(_view, sizes, function);
    return strides ? [self viewWithOffset:_view.byte_offset sizes:sizes strides:*strides] : nil;
  }
  const size_t rank = _view.sizes.size();
  if (plan.dimensions.size() != rank) {
    violation("%s: the descriptor has %zu dimensions, the array %zu", function, plan.dimensions.size(), rank);
  }
  std::vector<int64_t> sizes(rank);
  std::vector<int64_t> strides(rank);
  int64_t offset = _view.byte_offset;
  for (size_t i = 0; i < rank; ++i) {
    const auto& dimension = plan.dimensions[i];
    const size_t source = rank - 1 - dimension.source;
    if (static_cast<int64_t>(dimension.length) != _view.sizes[source]) {
      violation("%s: dimension %zu is %lu long, in the array %ld", function, i, dimension.length, _view.sizes[source]);
    }
    sizes[rank - 1 - i] = dimension.slice.length;
    strides[rank - 1 - i] = _view.strides[source];
    offset += dimension.slice.start * _view.strides[source] * MPSSizeofMPSDataType(_view.data_type);
  }
  return [self viewWithOffset:offset sizes:std::move(sizes) strides:std::move(strides)];
}

- (MPSNDArray*)arrayViewWithShape:(MPSShape*)shape strides:(MPSShape*)strides {
  COUNT_CALL();
  VALIDATE(strides != nil, "the strides are nil");
  return [self viewWithSizes:shape == nil ? _view.sizes : to_integers(shape)
                     strides:to_integers(strides)
                    function:__func__];
}

- (MPSNDArray*)arrayViewWithDimensionCount:(NSUInteger)numberOfDimensions
                            dimensionSizes:(const NSUInteger*)dimensionSizes
                                   strides:(const NSUInteger*)dimStrides {
  COUNT_CALL();
  std::vector<int64_t> sizes(dimensionSizes, dimensionSizes + numberOfDimensions);
  std::vector<int64_t> strides(dimStrides, dimStrides + numberOfDimensions);
  std::reverse(sizes.begin(), sizes.end());
  std::reverse(strides.begin(), strides.end());
  return [self viewWithSizes:std::move(sizes) strides:std::move(strides) function:__func__];
}

- (MPSNDArray*)viewWithSizes:(std::vector<int64_t>)sizes
                     strides:(std::vector<int64_t>)strides
                    function:(const char*)function {
  if (sizes.size() != strides.size()) {
    violation("%s: %zu strides for %zu dimensions", function, strides.size(), sizes.size());
  }
  if (sizes.size() > kMaximumDimensions) {
    violation("%s: %zu dimensions, at most %lu are allowed", function, sizes.size(), kMaximumDimensions);
  }
  for (const int64_t stride : strides) {
    if (stride < 0) {
      violation("%s: the stride %ld is negative", function, stride);
    }
  }
  if (!strides.empty() && strides.back() != 1) {
    violation("%s: the fastest moving dimension must have stride 1, not %ld", function, strides.back());
  }
  MPSNDArray* view = [self viewWithOffset:_view.byte_offset sizes:std::move(sizes) strides:std::move(strides)];
  check_bounds(view->_view, function);
  return view;
}

// MARK: Data

- (void)writeBytes:(void*)buffer strideBytes:(NSInteger*)strideBytesPerDimension {
  COUNT_CALL();
  VALIDATE(buffer != nullptr, "the bytes are NULL");
  VALIDATE(_view.buffer.storageMode != MTLStorageModePrivate, "the CPU cannot reach a private buffer");
  check_bounds(_view, __func__);
  bits_of(_view, __func__).copy_(caller_memory(buffer, _view, strideBytesPerDimension, __func__));
}

- (void)readBytes:(void*)buffer strideBytes:(NSInteger*)strideBytesPerDimension {
  COUNT_CALL();
  VALIDATE(buffer != nullptr, "the bytes are NULL");
  VALIDATE(_view.buffer.storageMode != MTLStorageModePrivate, "the CPU cannot reach a private buffer");
  check_bounds(_view, __func__);
  caller_memory(buffer, _view, strideBytesPerDimension, __func__).copy_(bits_of(_view, __func__));
}

// The array that the buffer holds, in the given type and with the given strides.
- (NDArrayView)viewOfBuffer:(id<MTLBuffer>)buffer
                   dataType:(MPSDataType)dataType
                     offset:(NSUInteger)offset
                 rowStrides:(NSInteger*)rowStrides
                   function:(const char*)function {
  if (buffer == nil) {
    violation("%s: the buffer is nil", function);
  }
  NDArrayView view{
      buffer, static_cast<int64_t>(offset), _view.sizes, at::detail::defaultStrides(_view.sizes), dataType};
  if (rowStrides != nullptr) {
    const NSInteger element = MPSSizeofMPSDataType(dataType);
    for (size_t i = 0; i < view.strides.size(); ++i) {
      view.strides[i] = rowStrides[view.strides.size() - 1 - i] / element;
    }
  }
  check_bounds(view, function);
  return view;
}

- (void)exportDataWithCommandBuffer:(id<MTLCommandBuffer>)cmdBuf
                           toBuffer:(id<MTLBuffer>)buffer
                destinationDataType:(MPSDataType)destinationDataType
                             offset:(NSUInteger)offset
                         rowStrides:(NSInteger*)rowStrides {
  COUNT_CALL();
  const NDArrayView destination = [self viewOfBuffer:buffer
                                            dataType:destinationDataType
                                              offset:offset
                                          rowStrides:rowStrides
                                            function:__func__];
  const NDArrayView source = view_of(self);
  encode_elements(cmdBuf, source, destination, __func__);
}

- (void)printNDArray {
  COUNT_CALL();
  std::cout << view_of(self).tensor() << std::endl;
}

- (NSString*)description {
  return [NSString stringWithFormat:@"<MPSNDArray: %p, type 0x%x, shape %@>",
                                    self,
                                    static_cast<unsigned>(_view.data_type),
                                    [to_numbers(_view.sizes) componentsJoinedByString:@"x"]];
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

NDArrayView view_of(MPSNDArray* array) {
  check_bounds(array->_view, "MPSNDArray");
  return array->_view;
}

void check_bounds(const NDArrayView& view, const char* function) {
  const int64_t end = view.byte_offset + element_extent(view) * MPSSizeofMPSDataType(view.data_type);
  if (end > static_cast<int64_t>(view.buffer.length)) {
    violation("%s: the elements end at byte %ld, the buffer at byte %lu", function, end, view.buffer.length);
  }
}

std::optional<std::vector<int64_t>> strides_of_reshape(const NDArrayView& view,
                                                       const std::vector<int64_t>& sizes,
                                                       const char* function) {
  if (c10::multiply_integers(view.sizes) != c10::multiply_integers(sizes)) {
    violation("%s: %ld elements cannot take a shape of %ld",
              function,
              c10::multiply_integers(view.sizes),
              c10::multiply_integers(sizes));
  }
  return at::detail::computeStride(view.sizes, view.strides, sizes);
}

MPSNDArray* alias_with_strides(MPSNDArray* array, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  return [array viewWithOffset:array->_view.byte_offset sizes:std::move(sizes) strides:std::move(strides)];
}

MPSNDArray* new_array(id<MTLDevice> device, const std::vector<int64_t>& sizes, MPSDataType type) {
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:type shape:to_numbers(sizes)];
  descriptor.preferPackedRows = YES;
  return [[[MPSNDArray alloc] initWithDevice:device descriptor:descriptor] autorelease];
}

MPSNDArray* copy_with_sizes(MPSNDArray* array,
                            const std::vector<int64_t>& sizes,
                            id<MTLCommandBuffer> command_buffer,
                            const char* function) {
  MPSNDArray* copy = new_array(array.device, sizes, array->_view.data_type);
  encode_copy(command_buffer, nil, array, copy, function);
  return copy;
}

void encode_copy(id<MTLCommandBuffer> command_buffer,
                 id<MTLComputeCommandEncoder> encoder,
                 MPSNDArray* source_array,
                 MPSNDArray* destination_array,
                 const char* function) {
  const NDArrayView source = view_of(source_array);
  const NDArrayView destination = view_of(destination_array);
  encode_kernel(command_buffer,
                encoder,
                {function,
                 [=] {
                   const at::Tensor target = bits_of(destination, function);
                   target.copy_(bits_of(source, function).reshape(target.sizes()));
                 },
                 {source.access(false), destination.access(true)}});
}

} // namespace mps_simulator
