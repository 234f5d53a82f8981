// Composite operators whose C++ takes a shortcut on MPS that the wheel was
// compiled without. They are composite, so the dispatcher differentiates what
// they call, and each is registered below autograd and at it.

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/mps/MPSDevice.h>
#include <ATen/ops/_lstm_mps.h>
#include <ATen/ops/_scaled_dot_product_attention_math_for_mps.h>
#include <ATen/ops/_scaled_dot_product_attention_math_native.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/library.h>

#include <tuple>

namespace mps_simulator {
namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(
    const at::Tensor& input,
    at::TensorList states,
    at::TensorList parameters,
    bool has_biases,
    int64_t num_layers,
    double dropout,
    bool train,
    bool bidirectional,
    bool batch_first) {
  TORCH_CHECK(states.size() == 2, "lstm expects two hidden states");
  auto results =
      at::_lstm_mps(input, states, parameters, has_biases, num_layers, dropout, train, bidirectional, batch_first);
  return {std::get<0>(results), std::get<1>(results), std::get<2>(results)};
}

// Whether scaled_dot_product_attention is running on this thread and may take
// the fused path where it calls _scaled_dot_product_attention_math. A direct
// call of that operator is not changed.
thread_local bool fused_attention = false;

class FusedAttention {
 public:
  explicit FusedAttention(bool enabled) : before_(fused_attention) {
    fused_attention = enabled;
  }
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;
  ~FusedAttention() {
    fused_attention = before_;
  }

 private:
  bool before_;
};

bool has_fused_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double dropout_p) {
  if (query.is_nested() || key.is_nested() || value.is_nested()) {
    return false;
  }
  const bool differentiated =
      at::GradMode::is_enabled() && (query.requires_grad() || key.requires_grad() || value.requires_grad());
  const bool contiguous = query.is_contiguous() && key.is_contiguous() && value.is_contiguous();
  return dropout_p == 0.0 && !differentiated &&
      (contiguous || at::mps::is_macos_13_or_newer(at::mps::MacOSVersion::MACOS_VER_15_0_PLUS));
}

at::Tensor attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& mask,
    double dropout_p,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa) {
  const FusedAttention choice(has_fused_attention(query, key, value, dropout_p));
  return at::native::scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
}

// scaled_dot_product_attention has checked its arguments and made the mask a
// float one when it calls this; only the last choice is missing.
std::tuple<at::Tensor, at::Tensor> attention_math(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& mask,
    double dropout_p,
    bool is_causal,
    const std::optional<at::Tensor>& dropout_mask,
    std::optional<double> scale,
    bool enable_gqa) {
  if (fused_attention) {
    const FusedAttention done(false);
    return at::_scaled_dot_product_attention_math_for_mps(
        query, key, value, mask, dropout_p, is_causal, dropout_mask, scale);
  }
  return at::native::_scaled_dot_product_attention_math(
      query, key, value, mask, dropout_p, is_causal, dropout_mask, scale, enable_gqa);
}

void register_composites(torch::Library& library) {
  library.impl("lstm.input", TORCH_FN(lstm));
  library.impl("scaled_dot_product_attention", TORCH_FN(attention));
  library.impl("_scaled_dot_product_attention_math", TORCH_FN(attention_math));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, MPS, library) {
  register_composites(library);
}

TORCH_LIBRARY_IMPL(aten, AutogradMPS, library) {
  register_composites(library);
}

} // namespace mps_simulator
