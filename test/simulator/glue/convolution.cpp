// The wheel's convolution chooses the backend called "overrideable" for a
// device that it was not compiled for. It does the rest (1d as 2d, the bias
// gradient) as for MPS, so these two do what its MPS cases would.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_mps_convolution.h>
#include <ATen/ops/_mps_convolution_transpose.h>
#include <ATen/ops/mps_convolution_backward.h>
#include <ATen/ops/mps_convolution_transpose_backward.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <vector>

namespace mps_simulator {
namespace {

void check_same_type(const at::Tensor& input, const at::Tensor& other, const char* name) {
  TORCH_CHECK(
      !other.defined() || input.options().type_equal(other.options()),
      "Input type (",
      input.toString(),
      ") and ",
      name,
      " type (",
      other.toString(),
      ") should be the same");
}

at::Tensor convolution(
    const at::Tensor& input,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& optional_bias,
    at::IntArrayRef stride,
    at::IntArrayRef padding,
    at::IntArrayRef dilation,
    bool transposed,
    at::IntArrayRef output_padding,
    int64_t groups) {
  const auto bias = optional_bias.value_or(at::Tensor());
  check_same_type(input, weight, "weight");
  check_same_type(input, bias, "bias");
  if (!transposed) {
    return at::_mps_convolution(
        input, weight, bias.defined() ? bias.contiguous() : bias, padding, stride, dilation, groups);
  }
  auto output =
      at::_mps_convolution_transpose(input.contiguous(), weight, padding, output_padding, stride, dilation, groups);
  if (bias.defined()) {
    std::vector<int64_t> shape(input.dim(), 1);
    shape[1] = -1;
    output.add_(bias.reshape(shape));
  }
  return output;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad_output,
    const at::Tensor& input,
    const at::Tensor& weight,
    at::IntArrayRef stride,
    at::IntArrayRef padding,
    at::IntArrayRef dilation,
    bool transposed,
    at::IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> output_mask) {
  check_same_type(input, weight, "weight");
  if (!transposed) {
    return at::mps_convolution_backward(input, grad_output, weight, padding, stride, dilation, groups, output_mask);
  }
  auto [grad_input, grad_weight] = at::mps_convolution_transpose_backward(
      output_mask[1] ? input.contiguous() : input,
      grad_output,
      weight,
      padding,
      output_padding,
      stride,
      dilation,
      groups,
      {output_mask[0], output_mask[1]});
  // The caller computes a bias gradient that is left undefined.
  return {grad_input, grad_weight, at::Tensor()};
}

} // namespace

TORCH_LIBRARY_IMPL(aten, MPS, library) {
  library.impl("convolution_overrideable", TORCH_FN(convolution));
  library.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
}

} // namespace mps_simulator
