#include "graph/operation.h"
#include "metal/buffer.h"
#include "performance_shaders/encode.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_solve_triangular.h>

#include <algorithm>

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

- (void)dealloc {
  [_data release];
  [_device release];
  [super dealloc];
}

@end

// Kernels run on all matrices that their operands have room for from their
// offset on: callers hand in each matrix of a batch with the descriptor of the whole batch.
namespace {

struct MatrixView {
  explicit MatrixView(MPSMatrix* matrix)
      : buffer(matrix.data),
        offset(matrix.offset),
        rows(matrix.rows),
        columns(matrix.columns),
        row_bytes(matrix.rowBytes),
        matrix_bytes(matrix.matrixBytes),
        data_type(matrix.dataType),
        matrices(matrix_bytes ? MIN(matrix.matrices, 1 + (buffer.length - offset - used_bytes()) / matrix_bytes) : 1) {}

  // Of one matrix. The last one need not have its padding.
  NSUInteger used_bytes() const {
    return (rows - 1) * row_bytes + columns * MPSSizeofMPSDataType(data_type);
  }

  // On the GPU thread only.
  at::Tensor tensor(NSUInteger index) const {
    const int64_t element = MPSSizeofMPSDataType(data_type);
    return at::from_blob(static_cast<char*>(host_pointer(buffer)) + offset + index * matrix_bytes,
                         {static_cast<int64_t>(rows), static_cast<int64_t>(columns)},
                         {static_cast<int64_t>(row_bytes) / element, 1},
                         at::TensorOptions().dtype(graph::to_scalar_type(data_type)));
  }

  ByteAccess access(NSUInteger count, bool writes) const {
    return {buffer, offset, offset + (count - 1) * matrix_bytes + used_bytes(), writes};
  }

  void check(NSUInteger wanted_rows, NSUInteger wanted_columns, const char* what, const char* function) const {
    if (rows != wanted_rows || columns != wanted_columns) {
      violation("%s: the %s are %lu x %lu, not %lu x %lu", function, what, rows, columns, wanted_rows, wanted_columns);
    }
  }

  id<MTLBuffer> buffer; // owned by the matrix
  NSUInteger offset, rows, columns, row_bytes, matrix_bytes;
  MPSDataType data_type;
  NSUInteger matrices;
};

void check_types(const MatrixView& source, const MatrixView& result, const char* function) {
  if ((source.data_type != MPSDataTypeFloat32 && source.data_type != MPSDataTypeFloat16) ||
      source.data_type != result.data_type) {
    violation("%s: the data types are 0x%x and 0x%x, not one float type", function, source.data_type, result.data_type);
  }
}

} // namespace

@implementation MPSMatrixUnaryKernel
@end

@implementation MPSMatrixBinaryKernel
@end

@implementation MPSMatrixDecompositionLU {
  NSUInteger _rows;
  NSUInteger _columns;
}

- (instancetype)initWithDevice:(id<MTLDevice>)device rows:(NSUInteger)rows columns:(NSUInteger)columns {
  COUNT_CALL();
  VALIDATE(rows > 0 && columns > 0, "%lu rows and %lu columns", rows, columns);
  if ((self = [super initWithDevice:device])) {
    _rows = rows;
    _columns = columns;
  }
  return self;
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 sourceMatrix:(MPSMatrix*)sourceMatrix
                 resultMatrix:(MPSMatrix*)resultMatrix
                 pivotIndices:(MPSMatrix*)pivotIndices
                       status:(id<MTLBuffer>)status {
  COUNT_CALL();
  VALIDATE(sourceMatrix != nil && resultMatrix != nil && pivotIndices != nil, "a matrix is nil");
  const MatrixView source(sourceMatrix);
  const MatrixView result(resultMatrix);
  const MatrixView pivots(pivotIndices);
  check_types(source, result, __func__);
  source.check(_rows, _columns, "source", __func__);
  result.check(_rows, _columns, "result", __func__);
  pivots.check(1, MIN(_rows, _columns), "pivots", __func__);
  VALIDATE(pivots.data_type == MPSDataTypeUInt32, "the pivots are not of MPSDataTypeUInt32");
  VALIDATE(status == nil || status.length >= sizeof(int32_t), "the status buffer is too short");
  const NSUInteger count = std::min({source.matrices, result.matrices, pivots.matrices});
  const auto run = [=] {
    int32_t outcome = MPSMatrixDecompositionStatusSuccess;
    for (NSUInteger i = 0; i < count; ++i) {
      const auto [factors, rows_swapped, info] = at::linalg_lu_factor_ex(source.tensor(i).to(at::kFloat));
      result.tensor(i).copy_(factors);
      // Counted from zero here, from one in LAPACK.
      pivots.tensor(i).copy_(rows_swapped.sub(1));
      if (info.item<int>() != 0) {
        outcome = MPSMatrixDecompositionStatusSingular;
      }
    }
    if (status != nil) {
      *static_cast<int32_t*>(host_pointer(status)) = outcome;
    }
  };
  encode_kernel(commandBuffer,
                nil,
                {__func__,
                 run,
                 {source.access(count, false),
                  result.access(count, true),
                  pivots.access(count, true),
                  {status, 0, sizeof(int32_t), true}}});
}

@end

@implementation MPSMatrixSolveTriangular {
  BOOL _right, _upper, _transpose, _unit;
  NSUInteger _order;
  NSUInteger _rightHandSides;
}

- (instancetype)initWithDevice:(id<MTLDevice>)device
                         right:(BOOL)right
                         upper:(BOOL)upper
                     transpose:(BOOL)transpose
                          unit:(BOOL)unit
                         order:(NSUInteger)order
        numberOfRightHandSides:(NSUInteger)numberOfRightHandSides
                         alpha:(double)alpha {
  COUNT_CALL();
  VALIDATE(order > 0 && numberOfRightHandSides > 0, "order %lu, %lu right-hand sides", order, numberOfRightHandSides);
  if (alpha != 1) {
    unsupported("%s with a factor", __func__);
  }
  if ((self = [super initWithDevice:device])) {
    _right = right;
    _upper = upper;
    _transpose = transpose;
    _unit = unit;
    _order = order;
    _rightHandSides = numberOfRightHandSides;
  }
  return self;
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 sourceMatrix:(MPSMatrix*)sourceMatrix
          rightHandSideMatrix:(MPSMatrix*)rightHandSideMatrix
               solutionMatrix:(MPSMatrix*)solutionMatrix {
  COUNT_CALL();
  VALIDATE(sourceMatrix != nil && rightHandSideMatrix != nil && solutionMatrix != nil, "a matrix is nil");
  const MatrixView source(sourceMatrix);
  const MatrixView known(rightHandSideMatrix);
  const MatrixView solution(solutionMatrix);
  const BOOL right = _right;
  const BOOL transpose = _transpose;
  const BOOL unit = _unit;
  // Transposing turns an upper triangle into a lower one.
  const BOOL upper = _upper != transpose;
  const NSUInteger rows = right ? _rightHandSides : _order;
  const NSUInteger columns = right ? _order : _rightHandSides;
  check_types(source, known, __func__);
  check_types(source, solution, __func__);
  source.check(_order, _order, "source", __func__);
  known.check(rows, columns, "right-hand sides", __func__);
  solution.check(rows, columns, "solution", __func__);
  const NSUInteger count = std::min({source.matrices, known.matrices, solution.matrices});
  const auto run = [=] {
    for (NSUInteger i = 0; i < count; ++i) {
      const at::Tensor matrix = source.tensor(i).to(at::kFloat);
      solution.tensor(i).copy_(at::linalg_solve_triangular(
          transpose ? matrix.mT() : matrix, known.tensor(i).to(at::kFloat), upper, /*left=*/!right, unit));
    }
  };
  encode_kernel(
      commandBuffer,
      nil,
      {__func__, run, {source.access(count, false), known.access(count, false), solution.access(count, true)}});
}

@end
