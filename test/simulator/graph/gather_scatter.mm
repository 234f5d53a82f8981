// Gathers and scatters. An index outside of the table, negative ones included,
// reads zeros and writes nothing.
#include "graph/elementwise.h"
#include "graph/operation.h"
#include "support/error.h"

#include <ATen/ATen.h>

using namespace mps_simulator;
using namespace mps_simulator::graph;

namespace {

at::Tensor valid_places(const at::Tensor& indices, int64_t size) {
  TORCH_CHECK(at::isIntegralType(indices.scalar_type(), false), "the indices are ", indices.scalar_type());
  return indices.ge(0).logical_and(indices.lt(size));
}

at::Tensor zero_where_invalid(const at::Tensor& values, const at::Tensor& valid) {
  return at::where(valid, values, at::zeros({}, values.options()));
}

Sizes joined(std::initializer_list<at::IntArrayRef> parts) {
  Sizes result;
  for (const auto part : parts) {
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

at::Tensor gather(const at::Tensor& table, const at::Tensor& indices, int64_t axis, int64_t batch) {
  const auto sizes = table.sizes();
  TORCH_CHECK(batch <= axis && batch <= indices.dim(), batch, " batch dimensions for axis ", axis);
  TORCH_CHECK(sizes.slice(0, batch) == indices.sizes().slice(0, batch), "the batch dimensions differ");
  const auto picked = indices.sizes().slice(batch);
  const auto result_sizes = joined({sizes.slice(0, axis), picked, sizes.slice(axis + 1)});
  if (table.size(axis) == 0) {
    return at::zeros(result_sizes, table.options());
  }
  const auto outer = c10::multiply_integers(sizes.slice(batch, axis - batch));
  const auto inner = c10::multiply_integers(sizes.slice(axis + 1));
  const auto batches = c10::multiply_integers(sizes.slice(0, batch));
  const auto flat = table.reshape({batches, outer, table.size(axis), inner});
  const auto places = indices.to(at::kLong).reshape({batches, 1, c10::multiply_integers(picked), 1});
  const auto valid = valid_places(places, table.size(axis));
  const auto known = zero_where_invalid(places, valid);
  const auto values = batches == 1 ? flat.index_select(2, known.flatten())
                                   : flat.gather(2, known.expand({batches, outer, known.size(2), inner}));
  return zero_where_invalid(values, valid).reshape(result_sizes);
}

at::Tensor gather_along_axis(const at::Tensor& table, const at::Tensor& indices, int64_t axis) {
  for (int64_t i = 0; i < table.dim(); i++) {
    TORCH_CHECK(i == wrap_axis(axis, table.dim()) || table.size(i) == indices.size(i), "sizes differ along ", i);
  }
  const auto valid = valid_places(indices, table.size(axis));
  if (table.size(axis) == 0) {
    return at::zeros(indices.sizes(), table.options());
  }
  return zero_where_invalid(table.gather(axis, zero_where_invalid(indices.to(at::kLong), valid)), valid);
}

// The data with one more element along the axis, which takes what goes to
// places that do not exist, and is dropped again when `write` is done.
template <typename Write>
at::Tensor scattered(const at::Tensor& data,
                     const at::Tensor& updates,
                     const at::Tensor& indices,
                     int64_t axis,
                     MPSGraphScatterMode mode,
                     Write write) {
  const auto type = data.scalar_type();
  // Sums of many half-precision values, and logic on booleans.
  const auto wide = mode == MPSGraphScatterModeSet ? type : type == at::kBool ? at::kInt : computation_type(type);
  const auto rows = data.size(axis);
  auto sizes = data.sizes().vec();
  sizes[wrap_axis(axis, data.dim())] = 1;
  const auto result = at::cat({data.to(wide), at::zeros(sizes, data.options().dtype(wide))}, axis);
  write(result, at::where(valid_places(indices, rows), indices.to(at::kLong), rows), updates.to(wide));
  return result.narrow(axis, 0, rows).to(type);
}

at::Tensor scatter(const at::Tensor& data,
                   const at::Tensor& updates,
                   const at::Tensor& indices,
                   int64_t axis,
                   MPSGraphScatterMode mode) {
  const auto write = [&](const at::Tensor& result, const at::Tensor& places, const at::Tensor& values) {
    mode == MPSGraphScatterModeSet ? result.index_copy_(axis, places, values) : result.index_add_(axis, places, values);
  };
  return scattered(data, updates, indices.flatten(), axis, mode, write);
}

// The last dimension of the indices holds one coordinate for each of the first dimensions of the data.
at::Tensor scatter_points(const at::Tensor& data,
                          const at::Tensor& updates,
                          const at::Tensor& indices,
                          int64_t batch,
                          MPSGraphScatterMode mode) {
  const auto coordinates = indices.size(-1);
  TORCH_CHECK(batch == 0 && coordinates <= data.dim(), coordinates, " coordinates for rank ", data.dim());
  const auto points = indices.to(at::kLong).reshape({-1, coordinates});
  auto row = at::zeros({points.size(0)}, points.options());
  auto valid = at::ones({}, points.options().dtype(at::kBool));
  for (int64_t i = 0; i < coordinates; i++) {
    valid = valid.logical_and(valid_places(points.select(1, i), data.size(i)));
    row = row * data.size(i) + points.select(1, i);
  }
  const auto slice = c10::multiply_integers(data.sizes().slice(coordinates));
  const auto rows = c10::multiply_integers(data.sizes().slice(0, coordinates));
  const auto table = data.reshape({rows, slice});
  return scatter(table, updates.reshape({points.size(0), slice}), row.masked_fill(valid.logical_not(), -1), 0, mode)
      .reshape(data.sizes());
}

at::Tensor scatter_along_axis(const at::Tensor& data,
                              const at::Tensor& updates,
                              const at::Tensor& indices,
                              int64_t axis,
                              MPSGraphScatterMode mode) {
  TORCH_CHECK(updates.sizes() == indices.sizes(), "updates and indices must have one shape");
  for (int64_t i = 0; i < data.dim(); i++) {
    TORCH_CHECK(i == wrap_axis(axis, data.dim()) || data.size(i) == indices.size(i), "sizes differ along ", i);
  }
  const char* reduce = mode == MPSGraphScatterModeAdd ? "sum"
      : mode == MPSGraphScatterModeMul                ? "prod"
      : mode == MPSGraphScatterModeMin                ? "amin"
                                                      : "amax";
  const auto write = [&](const at::Tensor& result, const at::Tensor& places, const at::Tensor& values) {
    mode == MPSGraphScatterModeSet ? result.scatter_(axis, places, values)
                                   : result.scatter_reduce_(axis, places, values, reduce);
  };
  return scattered(data, updates, indices, axis, mode, write);
}

// One of the three; `where` is their axis or number of batch dimensions.
using Scatter = decltype(scatter)*;

void check_mode(MPSGraphScatterMode mode, const char* method) {
  if (mode != MPSGraphScatterModeSet && mode != MPSGraphScatterModeAdd) {
    unsupported("%s with scatter mode %ld", method, (long)mode);
  }
}

MPSGraphTensor* add_scatter(MPSGraph* graph,
                            Scatter scatter,
                            MPSGraphTensor* data,
                            MPSGraphTensor* updates,
                            MPSGraphTensor* indices,
                            int64_t where,
                            MPSGraphScatterMode mode,
                            NSString* name,
                            const char* method = __builtin_FUNCTION()) {
  if (scatter != scatter_along_axis) {
    check_mode(mode, method);
  }
  check_same_type("scatter", {data, updates});
  const auto expression = [=](const Tensors& inputs) { return scatter(inputs[0], inputs[1], inputs[2], where, mode); };
  return add_operation(graph, "scatter", {data, updates, indices}, name, expression, false, method);
}

// Into zeros of the shape.
MPSGraphTensor* add_scatter(MPSGraph* graph,
                            Scatter scatter,
                            MPSShape* shape,
                            MPSGraphTensor* updates,
                            MPSGraphTensor* indices,
                            int64_t where,
                            MPSGraphScatterMode mode,
                            NSString* name,
                            const char* method = __builtin_FUNCTION()) {
  check_mode(mode, method);
  const auto expression = [=, sizes = to_sizes(shape)](const Tensors& inputs) {
    return scatter(at::zeros(sizes, inputs[0].options()), inputs[0], inputs[1], where, mode);
  };
  return add_operation(graph, "scatter", {updates, indices}, name, expression, false, method);
}

} // namespace

@implementation MPSGraph (GatherAndScatterOperations)

- (MPSGraphTensor*)gatherWithUpdatesTensor:(MPSGraphTensor*)updates
                             indicesTensor:(MPSGraphTensor*)indices
                                      axis:(NSUInteger)axis
                           batchDimensions:(NSUInteger)batch
                                      name:(NSString*)name {
  return add_operation(self, "gather", {updates, indices}, name, [=](const Tensors& inputs) {
    return gather(inputs[0], inputs[1], wrap_axis(axis, inputs[0].dim()), batch);
  });
}

- (MPSGraphTensor*)gatherAlongAxis:(NSInteger)axis
                 withUpdatesTensor:(MPSGraphTensor*)updates
                     indicesTensor:(MPSGraphTensor*)indices
                              name:(NSString*)name {
  return add_operation(self, "gather along axis", {updates, indices}, name, [=](const Tensors& inputs) {
    return gather_along_axis(inputs[0], inputs[1], axis);
  });
}

- (MPSGraphTensor*)scatterWithDataTensor:(MPSGraphTensor*)data
                           updatesTensor:(MPSGraphTensor*)updates
                           indicesTensor:(MPSGraphTensor*)indices
                                    axis:(NSInteger)axis
                                    mode:(MPSGraphScatterMode)mode
                                    name:(NSString*)name {
  return add_scatter(self, scatter, data, updates, indices, axis, mode, name);
}

- (MPSGraphTensor*)scatterWithUpdatesTensor:(MPSGraphTensor*)updates
                              indicesTensor:(MPSGraphTensor*)indices
                                      shape:(MPSShape*)shape
                                       axis:(NSInteger)axis
                                       mode:(MPSGraphScatterMode)mode
                                       name:(NSString*)name {
  return add_scatter(self, scatter, shape, updates, indices, axis, mode, name);
}

- (MPSGraphTensor*)scatterNDWithDataTensor:(MPSGraphTensor*)data
                             updatesTensor:(MPSGraphTensor*)updates
                             indicesTensor:(MPSGraphTensor*)indices
                           batchDimensions:(NSUInteger)batch
                                      mode:(MPSGraphScatterMode)mode
                                      name:(NSString*)name {
  return add_scatter(self, scatter_points, data, updates, indices, batch, mode, name);
}

- (MPSGraphTensor*)scatterNDWithUpdatesTensor:(MPSGraphTensor*)updates
                                indicesTensor:(MPSGraphTensor*)indices
                                        shape:(MPSShape*)shape
                              batchDimensions:(NSUInteger)batch
                                         mode:(MPSGraphScatterMode)mode
                                         name:(NSString*)name {
  return add_scatter(self, scatter_points, shape, updates, indices, batch, mode, name);
}

- (MPSGraphTensor*)scatterAlongAxis:(NSInteger)axis
                     withDataTensor:(MPSGraphTensor*)data
                      updatesTensor:(MPSGraphTensor*)updates
                      indicesTensor:(MPSGraphTensor*)indices
                               mode:(MPSGraphScatterMode)mode
                               name:(NSString*)name {
  return add_scatter(self, scatter_along_axis, data, updates, indices, axis, mode, name);
}

@end
