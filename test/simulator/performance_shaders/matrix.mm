#include "performance_shaders/matrix.h"

#include "graph/operation.h"
#include "metal/buffer.h"
#include "performance_shaders/encode.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ops/from_blob.h>

using namespace mps_simulator;

@implementation MPSMatrixDescriptor

+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                rowBytes:(NSUInteger)rowBytes
                                dataType:(MPSDataType)dataType {
  COUNT_CALL();
  return [self matrixDescriptorWithRows:rows
                                columns:columns
                               matrices:1
                               rowBytes:rowBytes
                            matrixBytes:rows * rowBytes
                               dataType:dataType];
}

+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                matrices:(NSUInteger)matrices
                                rowBytes:(NSUInteger)rowBytes
                             matrixBytes:(NSUInteger)matrixBytes
                                dataType:(MPSDataType)dataType {
  COUNT_CALL();
  const NSUInteger element = MPSSizeofMPSDataType(dataType);
  VALIDATE(element > 0, "MPSDataType 0x%x has no whole bytes", static_cast<unsigned>(dataType));
  VALIDATE(
      rows > 0 && columns > 0 && matrices > 0, "%lu matrices of %lu rows and %lu columns", matrices, rows, columns);
  VALIDATE(rowBytes >= columns * element, "rows of %lu bytes for %lu elements of %lu", rowBytes, columns, element);
  VALIDATE(rowBytes % element == 0, "rows of %lu bytes are no whole number of elements", rowBytes);
  VALIDATE(matrices == 1 || matrixBytes >= rows * rowBytes,
           "matrices of %lu bytes for %lu rows of %lu",
           matrixBytes,
           rows,
           rowBytes);
  VALIDATE(matrixBytes % rowBytes == 0, "matrices of %lu bytes are no whole number of rows", matrixBytes);
  MPSMatrixDescriptor* descriptor = [[[self alloc] init] autorelease];
  descriptor->_rows = rows;
  descriptor->_columns = columns;
  descriptor->_matrices = matrices;
  descriptor->_rowBytes = rowBytes;
  descriptor->_matrixBytes = matrixBytes;
  descriptor->_dataType = dataType;
  return descriptor;
}

@end

@implementation MPSMatrix

@synthesize device = _device;
@synthesize data = _data;

- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer descriptor:(MPSMatrixDescriptor*)descriptor {
  COUNT_CALL();
  return [self initWithBuffer:buffer offset:0 descriptor:descriptor];
}

- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer
                        offset:(NSUInteger)offset
                    descriptor:(MPSMatrixDescriptor*)descriptor {
  COUNT_CALL();
  if ((self = [super init])) {
    VALIDATE(buffer != nil, "the buffer is nil");
    VALIDATE(descriptor != nil, "the descriptor is nil");
    _rows = descriptor.rows;
    _columns = descriptor.columns;
    _matrices = descriptor.matrices;
    _dataType = descriptor.dataType;
    _rowBytes = descriptor.rowBytes;
    _matrixBytes = descriptor.matrixBytes;
    _offset = offset;
    const NSUInteger element = MPSSizeofMPSDataType(_dataType);
    const NSUInteger needed = (_rows - 1) * _rowBytes + _columns * element;
    VALIDATE(offset % element == 0, "offset %lu is no multiple of the element's size %lu", offset, element);
    VALIDATE(offset <= buffer.length && needed <= buffer.length - offset,
             "the matrix ends at byte %lu, the buffer at byte %lu",
             offset + needed,
             buffer.length);
    _data = [buffer retain];
    _device = [buffer.device retain];
  }
  return self;
}

- (instancetype)initWithDevice:(id<MTLDevice>)device descriptor:(MPSMatrixDescriptor*)descriptor {
  COUNT_CALL();
  check_device(device, __func__);
  VALIDATE(descriptor != nil, "the descriptor is nil");
  id<MTLBuffer> buffer = [[device newBufferWithLength:descriptor.matrices * descriptor.matrixBytes
                                              options:MTLResourceStorageModeShared] autorelease];
  return [self initWithBuffer:buffer offset:0 descriptor:descriptor];
}

- (void)dealloc {
  [_data release];
  [_device release];
  [super dealloc];
}

@end

namespace mps_simulator {

MatrixView::MatrixView(MPSMatrix* matrix)
    : buffer(matrix.data),
      offset(matrix.offset),
      rows(matrix.rows),
      columns(matrix.columns),
      row_bytes(matrix.rowBytes),
      matrix_bytes(matrix.matrixBytes),
      data_type(matrix.dataType) {
  // The last one need not have its padding.
  const NSUInteger needed = (rows - 1) * row_bytes + columns * MPSSizeofMPSDataType(data_type);
  const NSUInteger room = buffer.length - offset;
  matrices = matrix_bytes == 0 ? 1 : MIN(matrix.matrices, 1 + (room - needed) / matrix_bytes);
}

at::Tensor MatrixView::tensor(NSUInteger index, MTLOrigin origin, NSUInteger row_count, NSUInteger column_count) const {
  const int64_t element = MPSSizeofMPSDataType(data_type);
  char* start = static_cast<char*>(host_pointer(buffer)) + offset + index * matrix_bytes + origin.y * row_bytes +
      origin.x * element;
  return at::from_blob(start,
                       {static_cast<int64_t>(row_count), static_cast<int64_t>(column_count)},
                       {static_cast<int64_t>(row_bytes) / element, 1},
                       at::TensorOptions().dtype(graph::to_scalar_type(data_type)));
}

ByteAccess MatrixView::access(NSUInteger first, NSUInteger end, bool writes) const {
  // The last one need not have its padding.
  const NSUInteger last = (rows - 1) * row_bytes + columns * MPSSizeofMPSDataType(data_type);
  return {buffer, offset + first * matrix_bytes, offset + (end - 1) * matrix_bytes + last, writes};
}

void MatrixView::check_region(MTLOrigin origin,
                              NSUInteger row_count,
                              NSUInteger column_count,
                              const char* what,
                              const char* function) const {
  if (origin.y + row_count > rows || origin.x + column_count > columns) {
    violation("%s: %lu x %lu elements at row %lu, column %lu of the %s, which is %lu x %lu",
              function,
              row_count,
              column_count,
              origin.y,
              origin.x,
              what,
              rows,
              columns);
  }
}

} // namespace mps_simulator
