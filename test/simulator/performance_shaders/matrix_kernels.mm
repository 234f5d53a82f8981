#include "metal/buffer.h"
#include "performance_shaders/encode.h"
#include "performance_shaders/matrix.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_solve_triangular.h>

#include <algorithm>

using namespace mps_simulator;

namespace {

struct Batch {
  NSUInteger start;
  NSUInteger end;
};

// By default all matrices that every operand has.
Batch batch_of(NSUInteger start, NSUInteger size, std::initializer_list<NSUInteger> matrices, const char* function) {
  const NSUInteger available = std::min(matrices);
  if (start >= available) {
    violation("%s: the batch starts at matrix %lu of %lu", function, start, available);
  }
  if (size != NSUIntegerMax && size > available - start) {
    violation("%s: %lu matrices from the %lu. on, but there are %lu", function, size, start, available);
  }
  return {start, size == NSUIntegerMax ? available : start + size};
}

void check_float_type(const MatrixView& matrix, const char* what, const char* function) {
  if (matrix.data_type != MPSDataTypeFloat32 && matrix.data_type != MPSDataTypeFloat16) {
    violation("%s: the %s has MPSDataType 0x%x, which is no float type",
              function,
              what,
              static_cast<unsigned>(matrix.data_type));
  }
}

} // namespace

@implementation MPSMatrixUnaryKernel

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  if ((self = [super initWithDevice:device])) {
    _batchSize = NSUIntegerMax;
  }
  return self;
}

@end

@implementation MPSMatrixBinaryKernel

- (instancetype)initWithDevice:(id<MTLDevice>)device {
  if ((self = [super initWithDevice:device])) {
    _batchSize = NSUIntegerMax;
  }
  return self;
}

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
  const NSUInteger rows = _rows;
  const NSUInteger columns = _columns;
  const NSUInteger pivot_count = MIN(rows, columns);
  const MTLOrigin source_origin = self.sourceMatrixOrigin;
  const MTLOrigin result_origin = self.resultMatrixOrigin;
  check_float_type(source, "source", __func__);
  VALIDATE(source.data_type == result.data_type, "source and result have different data types");
  VALIDATE(pivots.data_type == MPSDataTypeUInt32, "the pivots are not of MPSDataTypeUInt32");
  source.check_region(source_origin, rows, columns, "source", __func__);
  result.check_region(result_origin, rows, columns, "result", __func__);
  pivots.check_region({0, 0, 0}, 1, pivot_count, "pivots", __func__);
  VALIDATE(status == nil || status.length >= sizeof(int32_t), "the status buffer is too short");
  const Batch batch =
      batch_of(self.batchStart, self.batchSize, {source.matrices, result.matrices, pivots.matrices}, __func__);
  encode_kernel(commandBuffer,
                nil,
                {__func__,
                 [=] {
                   int32_t outcome = MPSMatrixDecompositionStatusSuccess;
                   for (NSUInteger i = batch.start; i < batch.end; ++i) {
                     const at::Tensor matrix = source.tensor(i, source_origin, rows, columns);
                     const auto [factors, rows_swapped, info] = at::linalg_lu_factor_ex(matrix.to(at::kFloat));
                     result.tensor(i, result_origin, rows, columns).copy_(factors);
                     // Counted from zero here, from one in LAPACK.
                     auto* pivot = reinterpret_cast<uint32_t*>(static_cast<char*>(host_pointer(pivots.buffer)) +
                                                               pivots.offset + i * pivots.matrix_bytes);
                     for (NSUInteger k = 0; k < pivot_count; ++k) {
                       pivot[k] = rows_swapped.data_ptr<int32_t>()[k] - 1;
                     }
                     if (info.item<int>() != 0) {
                       outcome = MPSMatrixDecompositionStatusSingular;
                     }
                   }
                   if (status != nil) {
                     *static_cast<int32_t*>(host_pointer(status)) = outcome;
                   }
                 },
                 {source.access(batch.start, batch.end, false),
                  result.access(batch.start, batch.end, true),
                  pivots.access(batch.start, batch.end, true),
                  {status, 0, sizeof(int32_t), true}}});
}

@end

@implementation MPSMatrixSolveTriangular {
  BOOL _right;
  BOOL _upper;
  BOOL _transpose;
  BOOL _unit;
  NSUInteger _order;
  NSUInteger _rightHandSides;
  double _alpha;
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
  if ((self = [super initWithDevice:device])) {
    _right = right;
    _upper = upper;
    _transpose = transpose;
    _unit = unit;
    _order = order;
    _rightHandSides = numberOfRightHandSides;
    _alpha = alpha;
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
  const MatrixView right_hand_side(rightHandSideMatrix);
  const MatrixView solution(solutionMatrix);
  const BOOL right = _right;
  const BOOL transpose = _transpose;
  const BOOL unit = _unit;
  // Transposing turns an upper triangle into a lower one.
  const BOOL upper = _upper != transpose;
  const double alpha = _alpha;
  const NSUInteger order = _order;
  const NSUInteger rows = right ? _rightHandSides : order;
  const NSUInteger columns = right ? order : _rightHandSides;
  const MTLOrigin source_origin = self.primarySourceMatrixOrigin;
  const MTLOrigin right_hand_side_origin = self.secondarySourceMatrixOrigin;
  const MTLOrigin solution_origin = self.resultMatrixOrigin;
  check_float_type(source, "source", __func__);
  VALIDATE(source.data_type == right_hand_side.data_type && source.data_type == solution.data_type,
           "the matrices have different data types");
  source.check_region(source_origin, order, order, "source", __func__);
  right_hand_side.check_region(right_hand_side_origin, rows, columns, "right-hand side", __func__);
  solution.check_region(solution_origin, rows, columns, "solution", __func__);
  const Batch batch = batch_of(
      self.batchStart, self.batchSize, {source.matrices, right_hand_side.matrices, solution.matrices}, __func__);
  encode_kernel(commandBuffer,
                nil,
                {__func__,
                 [=] {
                   for (NSUInteger i = batch.start; i < batch.end; ++i) {
                     at::Tensor matrix = source.tensor(i, source_origin, order, order).to(at::kFloat);
                     if (transpose) {
                       matrix = matrix.mT();
                     }
                     at::Tensor known = right_hand_side.tensor(i, right_hand_side_origin, rows, columns).to(at::kFloat);
                     if (alpha != 1) {
                       known = known.mul(alpha);
                     }
                     const at::Tensor unknown =
                         at::linalg_solve_triangular(matrix, known, upper, /*left=*/!right, unit);
                     solution.tensor(i, solution_origin, rows, columns).copy_(unknown);
                   }
                 },
                 {source.access(batch.start, batch.end, false),
                  right_hand_side.access(batch.start, batch.end, false),
                  solution.access(batch.start, batch.end, true)}});
}

@end
