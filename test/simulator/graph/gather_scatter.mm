// Gathers and scatters. All of them come down to rows: a table of rows of which
// some are read or written, and a list of row numbers. A row number outside of
// the table, negative ones included, reads zeros and writes nothing.
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include "graph/elementwise.h"
#include "graph/operation.h"
#include "support/counters.h"
#include "support/error.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <c10/util/irange.h>

#include <vector>

namespace mps_simulator::graph {
namespace {

using Sizes = std::vector<int64_t>;

void check_indices(const at::Tensor& indices, const char* call) {
  if (!at::isIntegralType(indices.scalar_type(), /*includeBool=*/false)) {
    violation("%s: the indices are %s, not integers", call, c10::toString(indices.scalar_type()));
  }
}

int64_t product_of(at::IntArrayRef sizes) {
  return c10::multiply_integers(sizes);
}

Sizes joined(std::initializer_list<at::IntArrayRef> parts) {
  Sizes result;
  for (const auto part : parts) {
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

// Row numbers as ATen wants them: valid everywhere, and a mask of those that
// were valid before.
struct RowNumbers {
  at::Tensor number;
  at::Tensor valid;

  RowNumbers(const at::Tensor& indices, int64_t rows)
      : number(indices.to(at::kLong)), valid(number.ge(0).logical_and(number.lt(rows))) {
    number = at::where(valid, number, at::zeros({}, number.options()));
  }
};

at::Tensor zero_where_invalid(const at::Tensor& values, const at::Tensor& valid) {
  return at::where(valid, values, at::zeros({}, values.options()));
}

at::Tensor gather(const at::Tensor& table,
                  const at::Tensor& indices,
                  int64_t axis_or_negative,
                  int64_t batch_dimensions,
                  const char* call) {
  check_indices(indices, call);
  const auto axis = wrap_axis(axis_or_negative, table.dim());
  if (batch_dimensions > axis || batch_dimensions > indices.dim()) {
    violation("%s: %ld batch dimensions, with axis %ld and indices of rank %ld",
              call,
              (long)batch_dimensions,
              (long)axis,
              (long)indices.dim());
  }
  const auto batch = table.sizes().slice(0, batch_dimensions);
  const auto outer = table.sizes().slice(batch_dimensions, axis - batch_dimensions);
  const auto inner = table.sizes().slice(axis + 1);
  const auto picked = indices.sizes().slice(batch_dimensions);
  if (batch != indices.sizes().slice(0, batch_dimensions)) {
    violation("%s: the batch dimensions of updates and indices differ", call);
  }
  const auto result_sizes = joined({batch, outer, picked, inner});
  if (is_sample(table)) {
    return at::empty(result_sizes, table.options());
  }
  const auto rows = table.size(axis);
  const RowNumbers numbers(indices.reshape({product_of(batch), 1, product_of(picked), 1}), rows);
  const auto flat = table.reshape({product_of(batch), product_of(outer), rows, product_of(inner)});
  if (rows == 0) {
    return at::zeros(result_sizes, table.options());
  }
  at::Tensor values;
  if (flat.size(0) == 1) {
    values = flat.index_select(2, numbers.number.flatten());
  } else {
    values = flat.gather(2, numbers.number.expand({flat.size(0), flat.size(1), numbers.number.size(2), flat.size(3)}));
  }
  return zero_where_invalid(values, numbers.valid).reshape(result_sizes);
}

at::Tensor gather_along_axis(const at::Tensor& table,
                             const at::Tensor& indices,
                             int64_t axis_or_negative,
                             const char* call) {
  check_indices(indices, call);
  const auto axis = wrap_axis(axis_or_negative, table.dim());
  if (table.dim() != indices.dim()) {
    violation("%s: updates of rank %ld, indices of rank %ld", call, (long)table.dim(), (long)indices.dim());
  }
  for (const auto i : c10::irange(table.dim())) {
    if (i != axis && table.size(i) != indices.size(i)) {
      violation("%s: updates and indices differ in size along dimension %ld", call, (long)i);
    }
  }
  if (is_sample(table) || table.size(axis) == 0) {
    return at::zeros(indices.sizes(), table.options());
  }
  const RowNumbers numbers(indices, table.size(axis));
  return zero_where_invalid(table.gather(axis, numbers.number), numbers.valid);
}

// How the last dimension of the indices of an ND operation addresses a table:
// behind `batch` equal leading dimensions it holds one coordinate per dimension.
struct PointLayout {
  Sizes batch;
  Sizes addressed;
  Sizes slice;
  Sizes points; // of the indices, between the batch and the coordinates

  PointLayout(at::IntArrayRef table, const at::Tensor& indices, int64_t batch_dimensions, const char* call) {
    if (indices.dim() < 1 || batch_dimensions >= indices.dim() ||
        batch_dimensions > static_cast<int64_t>(table.size())) {
      violation("%s: %ld batch dimensions, indices of rank %ld", call, (long)batch_dimensions, (long)indices.dim());
    }
    const auto coordinates = indices.size(-1);
    if (coordinates + batch_dimensions > static_cast<int64_t>(table.size())) {
      violation("%s: %ld coordinates for a tensor of rank %zu", call, (long)coordinates, table.size());
    }
    batch = table.slice(0, batch_dimensions).vec();
    addressed = table.slice(batch_dimensions, coordinates).vec();
    slice = table.slice(batch_dimensions + coordinates).vec();
    points = indices.sizes().slice(batch_dimensions, indices.dim() - 1 - batch_dimensions).vec();
    if (indices.sizes().slice(0, batch_dimensions) != at::IntArrayRef(batch)) {
      violation("%s: the batch dimensions of data and indices differ", call);
    }
  }

  int64_t rows() const {
    return product_of(batch) * product_of(addressed);
  }

  // One row number per point; -1 where a coordinate is out of range.
  at::Tensor row_numbers(const at::Tensor& indices) const {
    const auto flat =
        indices.to(at::kLong).reshape({product_of(batch), product_of(points), static_cast<int64_t>(addressed.size())});
    auto number = at::arange(product_of(batch), flat.options()).unsqueeze(1).expand({flat.size(0), flat.size(1)});
    auto valid = at::ones({}, flat.options().dtype(at::kBool));
    for (const auto i : c10::irange(addressed.size())) {
      const auto coordinate = flat.select(2, static_cast<int64_t>(i));
      valid = valid.logical_and(coordinate.ge(0)).logical_and(coordinate.lt(addressed[i]));
      number = number * addressed[i] + coordinate;
    }
    return at::where(valid, number, at::full({}, -1, flat.options())).flatten();
  }
};

// Writes `updates` [M, S] to the rows `numbers` [M] of a copy of `table` [R, S].
// Rows that do not exist go to one more row, which is dropped again.
at::Tensor scatter_rows(const at::Tensor& table,
                        const at::Tensor& numbers,
                        const at::Tensor& updates,
                        MPSGraphScatterMode mode,
                        const char* call) {
  const auto type = table.scalar_type();
  // Sums of many half-precision values, and logic on booleans.
  const auto wide = mode == MPSGraphScatterModeSet ? type : type == at::kBool ? at::kInt : computation_type(type);
  const auto rows = table.size(0);
  auto result = at::cat({table.to(wide), at::zeros({1, table.size(1)}, table.options().dtype(wide))});
  const auto values = updates.to(wide);
  const RowNumbers valid(numbers, rows);
  const auto target = at::where(valid.valid, valid.number, at::full({}, rows, valid.number.options()));
  switch (mode) {
    case MPSGraphScatterModeSet:
      result.index_copy_(0, target, values);
      break;
    case MPSGraphScatterModeAdd:
      result.index_add_(0, target, values);
      break;
    case MPSGraphScatterModeSub:
      result.index_add_(0, target, values, -1);
      break;
    case MPSGraphScatterModeMul:
      result.index_reduce_(0, target, values, "prod");
      break;
    case MPSGraphScatterModeMin:
      result.index_reduce_(0, target, values, "amin");
      break;
    case MPSGraphScatterModeMax:
      result.index_reduce_(0, target, values, "amax");
      break;
    default:
      unsupported("%s with scatter mode %ld", call, (long)mode);
  }
  return result.narrow(0, 0, rows).to(type);
}

// Without a data tensor the operation starts from zeros; for a product, a
// minimum or a maximum Apple does not say what it starts from.
void check_mode_without_data(MPSGraphScatterMode mode, const char* call) {
  switch (mode) {
    case MPSGraphScatterModeSet:
    case MPSGraphScatterModeAdd:
    case MPSGraphScatterModeSub:
      break;
    default:
      unsupported("%s with scatter mode %ld", call, (long)mode);
  }
}

at::Tensor scatter(const at::Tensor& data,
                   const at::Tensor& updates,
                   const at::Tensor& indices,
                   int64_t axis_or_negative,
                   MPSGraphScatterMode mode,
                   const char* call) {
  check_indices(indices, call);
  const auto axis = wrap_axis(axis_or_negative, data.dim());
  if (indices.dim() > 1) {
    violation("%s: the indices have rank %ld, not 1", call, (long)indices.dim());
  }
  if (updates.dim() != data.dim() || updates.size(axis) != indices.numel()) {
    violation("%s: updates of rank %ld with %ld slices for data of rank %ld and %ld indices",
              call,
              (long)updates.dim(),
              updates.dim() == data.dim() ? (long)updates.size(axis) : -1L,
              (long)data.dim(),
              (long)indices.numel());
  }
  if (is_sample(data)) {
    return at::empty(data.sizes(), data.options());
  }
  const auto table = data.movedim(axis, 0);
  const auto slice = product_of(table.sizes().slice(1));
  const auto result = scatter_rows(table.reshape({table.size(0), slice}),
                                   indices.flatten(),
                                   updates.movedim(axis, 0).reshape({indices.numel(), slice}),
                                   mode,
                                   call);
  return result.reshape(table.sizes()).movedim(0, axis);
}

at::Tensor scatter_points(const at::Tensor& data,
                          const at::Tensor& updates,
                          const at::Tensor& indices,
                          int64_t batch_dimensions,
                          MPSGraphScatterMode mode,
                          const char* call) {
  check_indices(indices, call);
  const PointLayout layout(data.sizes(), indices, batch_dimensions, call);
  const auto expected = joined({layout.batch, layout.points, layout.slice});
  if (updates.numel() != product_of(expected)) {
    violation("%s: %ld updates where the indices ask for %ld", call, (long)updates.numel(), (long)product_of(expected));
  }
  if (is_sample(data)) {
    return at::empty(data.sizes(), data.options());
  }
  const auto slice = product_of(layout.slice);
  return scatter_rows(data.reshape({layout.rows(), slice}),
                      layout.row_numbers(indices),
                      updates.reshape({product_of(layout.batch) * product_of(layout.points), slice}),
                      mode,
                      call)
      .reshape(data.sizes());
}

at::Tensor scatter_along_axis(const at::Tensor& data,
                              const at::Tensor& updates,
                              const at::Tensor& indices,
                              int64_t axis_or_negative,
                              MPSGraphScatterMode mode,
                              const char* call) {
  check_indices(indices, call);
  const auto axis = wrap_axis(axis_or_negative, data.dim());
  if (updates.sizes() != indices.sizes() || updates.dim() != data.dim()) {
    violation("%s: updates and indices must have one shape, and the rank of the data", call);
  }
  for (const auto i : c10::irange(data.dim())) {
    if (i != axis && data.size(i) != indices.size(i)) {
      violation("%s: data and indices differ in size along dimension %ld", call, (long)i);
    }
  }
  if (is_sample(data)) {
    return at::empty(data.sizes(), data.options());
  }
  const auto table = data.movedim(axis, -1);
  const auto length = table.size(-1);
  const auto lines = product_of(table.sizes().slice(0, table.dim() - 1));
  const auto places = indices.movedim(axis, -1).reshape({lines, indices.size(axis)}).to(at::kLong);
  const auto valid = places.ge(0).logical_and(places.lt(length));
  const auto start = at::arange(lines, places.options()).unsqueeze(1) * length;
  const auto numbers = at::where(valid, places + start, at::full({}, -1, places.options()));
  const auto result = scatter_rows(
      table.reshape({lines * length, 1}), numbers.flatten(), updates.movedim(axis, -1).reshape({-1, 1}), mode, call);
  return result.reshape(table.sizes()).movedim(-1, axis);
}

// scatter, scatter_points and scatter_along_axis; `where` is their axis or number of batch dimensions.
using Scatter = at::Tensor (*)(const at::Tensor& data,
                               const at::Tensor& updates,
                               const at::Tensor& indices,
                               int64_t where,
                               MPSGraphScatterMode mode,
                               const char* call);

MPSGraphTensor* add_scatter(MPSGraph* graph,
                            const char* kind,
                            Scatter scatter,
                            MPSGraphTensor* data,
                            MPSGraphTensor* updates,
                            MPSGraphTensor* indices,
                            int64_t where,
                            MPSGraphScatterMode mode,
                            NSString* name,
                            const char* call) {
  check_same_type(kind, {data, updates});
  return add_operation(graph, kind, {data, updates, indices}, name, [=](const Tensors& inputs) {
    return scatter(inputs[0], inputs[1], inputs[2], where, mode, call);
  });
}

// Into zeros of the shape.
MPSGraphTensor* add_scatter(MPSGraph* graph,
                            const char* kind,
                            Scatter scatter,
                            MPSShape* shape,
                            MPSGraphTensor* updates,
                            MPSGraphTensor* indices,
                            int64_t where,
                            MPSGraphScatterMode mode,
                            NSString* name,
                            const char* call) {
  check_mode_without_data(mode, call);
  const auto sizes = to_sizes(shape);
  return add_operation(graph, kind, {updates, indices}, name, [=](const Tensors& inputs) {
    return scatter(at::zeros(sizes, inputs[0].options()), inputs[0], inputs[1], where, mode, call);
  });
}

} // namespace
} // namespace mps_simulator::graph

using namespace mps_simulator;
using namespace mps_simulator::graph;

@implementation MPSGraph (MPSGraphGatherOps)

- (MPSGraphTensor*)gatherWithUpdatesTensor:(MPSGraphTensor*)updatesTensor
                             indicesTensor:(MPSGraphTensor*)indicesTensor
                                      axis:(NSUInteger)axis
                           batchDimensions:(NSUInteger)batchDimensions
                                      name:(NSString*)name {
  COUNT_CALL();
  const char* call = __func__;
  return add_operation(self, "gather", {updatesTensor, indicesTensor}, name, [=](const Tensors& inputs) {
    return gather(inputs[0], inputs[1], static_cast<int64_t>(axis), static_cast<int64_t>(batchDimensions), call);
  });
}

- (MPSGraphTensor*)gatherAlongAxis:(NSInteger)axis
                 withUpdatesTensor:(MPSGraphTensor*)updatesTensor
                     indicesTensor:(MPSGraphTensor*)indicesTensor
                              name:(NSString*)name {
  COUNT_CALL();
  const char* call = __func__;
  return add_operation(self, "gather along axis", {updatesTensor, indicesTensor}, name, [=](const Tensors& inputs) {
    return gather_along_axis(inputs[0], inputs[1], axis, call);
  });
}

@end

@implementation MPSGraph (MPSGraphScatterNDOps)

- (MPSGraphTensor*)scatterWithDataTensor:(MPSGraphTensor*)data
                           updatesTensor:(MPSGraphTensor*)updates
                           indicesTensor:(MPSGraphTensor*)indices
                                    axis:(NSInteger)axis
                                    mode:(MPSGraphScatterMode)mode
                                    name:(NSString*)name {
  COUNT_CALL();
  return add_scatter(self, "scatter", scatter, data, updates, indices, axis, mode, name, __func__);
}

- (MPSGraphTensor*)scatterWithUpdatesTensor:(MPSGraphTensor*)updates
                              indicesTensor:(MPSGraphTensor*)indices
                                      shape:(MPSShape*)shape
                                       axis:(NSInteger)axis
                                       mode:(MPSGraphScatterMode)mode
                                       name:(NSString*)name {
  COUNT_CALL();
  return add_scatter(self, "scatter", scatter, shape, updates, indices, axis, mode, name, __func__);
}

- (MPSGraphTensor*)scatterNDWithDataTensor:(MPSGraphTensor*)data
                             updatesTensor:(MPSGraphTensor*)updates
                             indicesTensor:(MPSGraphTensor*)indices
                           batchDimensions:(NSUInteger)batch
                                      mode:(MPSGraphScatterMode)mode
                                      name:(NSString*)name {
  COUNT_CALL();
  return add_scatter(self, "scatter ND", scatter_points, data, updates, indices, batch, mode, name, __func__);
}

- (MPSGraphTensor*)scatterNDWithUpdatesTensor:(MPSGraphTensor*)updates
                                indicesTensor:(MPSGraphTensor*)indices
                                        shape:(MPSShape*)shape
                              batchDimensions:(NSUInteger)batch
                                         mode:(MPSGraphScatterMode)mode
                                         name:(NSString*)name {
  COUNT_CALL();
  return add_scatter(self, "scatter ND", scatter_points, shape, updates, indices, batch, mode, name, __func__);
}

- (MPSGraphTensor*)scatterAlongAxis:(NSInteger)axis
                     withDataTensor:(MPSGraphTensor*)data
                      updatesTensor:(MPSGraphTensor*)updates
                      indicesTensor:(MPSGraphTensor*)indices
                               mode:(MPSGraphScatterMode)mode
                               name:(NSString*)name {
  COUNT_CALL();
  return add_scatter(
      self, "scatter along axis", scatter_along_axis, data, updates, indices, axis, mode, name, __func__);
}

- (MPSGraphTensor*)scatterAlongAxis:(NSInteger)axis
                  withUpdatesTensor:(MPSGraphTensor*)updates
                      indicesTensor:(MPSGraphTensor*)indices
                              shape:(MPSShape*)shape
                               mode:(MPSGraphScatterMode)mode
                               name:(NSString*)name {
  COUNT_CALL();
  return add_scatter(
      self, "scatter along axis", scatter_along_axis, shape, updates, indices, axis, mode, name, __func__);
}

@end
