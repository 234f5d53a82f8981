// For test_mps_aoti_shim.py: a model's code as AOTInductor generates it, which
// knows the C API and nothing of Metal; and the API itself, call by call.

#include <ATen/ops/empty_like.h>
#include <pybind11/functional.h>
#include <torch/csrc/inductor/aoti_torch/c/shim_mps.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace py = pybind11;
using torch::aot_inductor::tensor_pointer_to_tensor_handle;

namespace {

// --- as generated ----------------------------------------------------------

const char* const mps_lib_0_source = R"MTL(
kernel void generated_kernel(
    device float* out,
    constant float* left,
    constant float* right,
    constant long& factor,
    uint index [[thread_position_in_grid]]) {
  out[index] = left[index] * factor + right[index];
}
)MTL";

AOTIMetalKernelFunctionHandle get_mps_lib_0_handle() {
  static const auto owner = [] {
    AOTIMetalShaderLibraryHandle library = nullptr;
    AOTIMetalKernelFunctionHandle kernel = nullptr;
    aoti_torch_mps_create_shader_library(mps_lib_0_source, &library);
    aoti_torch_mps_get_kernel_function(library, "generated_kernel", &kernel);
    auto deleter = [](AOTIMetalShaderLibraryHandle handle) {
      aoti_torch_mps_delete_shader_library(handle);
    };
    return std::make_pair(
        kernel,
        std::unique_ptr<AOTIMetalShaderLibraryOpaque, decltype(deleter)>(
            library, deleter));
  }();
  return owner.first;
}

at::Tensor run_model(at::Tensor left, at::Tensor right, int64_t factor) {
  at::Tensor out = at::empty_like(left);
  auto buf0 = tensor_pointer_to_tensor_handle(&out);
  auto arg0_1 = tensor_pointer_to_tensor_handle(&left);
  auto arg1_1 = tensor_pointer_to_tensor_handle(&right);
  auto mps_lib_0_lambda_0 = [&](AOTIMetalKernelFunctionHandle handle) {
    aoti_torch_mps_start_encoding(handle);
    aoti_torch_mps_set_arg_tensor(handle, 0, buf0);
    aoti_torch_mps_set_arg_tensor(handle, 1, arg0_1);
    aoti_torch_mps_set_arg_tensor(handle, 2, arg1_1);
    aoti_torch_mps_set_arg_int(handle, 3, factor);
    aoti_torch_mps_dispatch_single(handle, static_cast<uint64_t>(out.numel()));
  };
  std::function<void(AOTIMetalKernelFunctionHandle)> mps_lib_0_wrapper_0 =
      mps_lib_0_lambda_0;
  const auto code = aoti_torch_mps_run_command_block(
      get_mps_lib_0_handle(),
      aoti_torch_mps_shared_callback,
      &mps_lib_0_wrapper_0);
  if (code != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error("the model failed");
  }
  return out;
}

// --- call by call: handles are numbers, None is a null pointer -------------

using Library = AOTIMetalShaderLibraryHandle;
using Kernel = AOTIMetalKernelFunctionHandle;
using Sizes = std::optional<std::vector<uint64_t>>;

Library library(uintptr_t handle) {
  return reinterpret_cast<Library>(handle);
}

Kernel kernel(uintptr_t handle) {
  return reinterpret_cast<Kernel>(handle);
}

const char* characters(const std::optional<std::string>& text) {
  return text ? text->c_str() : nullptr;
}

std::tuple<int, uintptr_t> create_library(
    const std::optional<std::string>& source) {
  // what the API must overwrite
  auto result = library(1);
  const int code =
      aoti_torch_mps_create_shader_library(characters(source), &result);
  return {code, reinterpret_cast<uintptr_t>(result)};
}

std::tuple<int, uintptr_t> get_kernel(
    uintptr_t of,
    const std::optional<std::string>& name) {
  auto result = kernel(1);
  const int code = aoti_torch_mps_get_kernel_function(
      library(of), characters(name), &result);
  return {code, reinterpret_cast<uintptr_t>(result)};
}

int run(uintptr_t func, std::function<void()> callback) {
  std::function<void(Kernel)> wrapper = [&](Kernel given) {
    if (given != kernel(func)) {
      throw std::runtime_error("the callback got another kernel");
    }
    callback();
  };
  return aoti_torch_mps_run_command_block(
      kernel(func), aoti_torch_mps_shared_callback, &wrapper);
}

int set_tensor(
    uintptr_t func,
    unsigned index,
    const std::optional<at::Tensor>& tensor) {
  auto handle = tensor
      ? tensor_pointer_to_tensor_handle(const_cast<at::Tensor*>(&*tensor))
      : nullptr;
  return aoti_torch_mps_set_arg_tensor(kernel(func), index, handle);
}

int set_undefined(uintptr_t func, unsigned index) {
  at::Tensor undefined;
  return set_tensor(func, index, undefined);
}

int dispatch_array(uintptr_t func, const Sizes& length) {
  return aoti_torch_mps_dispatch_array(
      kernel(func),
      length ? length->data() : nullptr,
      length ? length->size() : 1);
}

int dispatch_groups(uintptr_t func, const Sizes& length, const Sizes& group) {
  return aoti_torch_mps_dispatch_array_with_group_size(
      kernel(func),
      length ? length->data() : nullptr,
      length ? length->size() : 1,
      group ? group->data() : nullptr,
      group ? group->size() : 1);
}

// Callbacks that are no std::function.
int run_throwing(uintptr_t func) {
  return aoti_torch_mps_run_command_block(
      kernel(func), [](Kernel, void*) { throw 3; }, nullptr);
}

int run_empty_function(uintptr_t func) {
  std::function<void(Kernel)> nothing;
  return aoti_torch_mps_run_command_block(
      kernel(func), aoti_torch_mps_shared_callback, &nothing);
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("run_model", run_model, py::call_guard<py::gil_scoped_release>());

  m.def("create_library", create_library);
  m.def("create_library_nowhere", [] {
    return aoti_torch_mps_create_shader_library(mps_lib_0_source, nullptr);
  });
  m.def("delete_library", [](uintptr_t handle) {
    return aoti_torch_mps_delete_shader_library(library(handle));
  });
  m.def("get_kernel", get_kernel);
  m.def("get_kernel_nowhere", [](uintptr_t handle) {
    return aoti_torch_mps_get_kernel_function(
        library(handle), "generated_kernel", nullptr);
  });

  // the queue may run the callback on another thread, which then takes the
  // interpreter
  m.def("run", run, py::call_guard<py::gil_scoped_release>());
  m.def("run_without_callback", [](uintptr_t func) {
    return aoti_torch_mps_run_command_block(kernel(func), nullptr, nullptr);
  });
  m.def("run_without_function", [](uintptr_t func) {
    return aoti_torch_mps_run_command_block(
        kernel(func), aoti_torch_mps_shared_callback, nullptr);
  });
  m.def("run_throwing", run_throwing);
  m.def("run_empty_function", run_empty_function);
  // it returns nothing, and nothing must escape
  m.def("call_without_function", [](uintptr_t func) {
    aoti_torch_mps_shared_callback(kernel(func), nullptr);
  });

  m.def("start", [](uintptr_t func) {
    return aoti_torch_mps_start_encoding(kernel(func));
  });
  m.def("set_tensor", set_tensor);
  m.def("set_undefined", set_undefined);
  m.def("set_int", [](uintptr_t func, unsigned index, int64_t value) {
    return aoti_torch_mps_set_arg_int(kernel(func), index, value);
  });
  m.def("dispatch", [](uintptr_t func, uint64_t length) {
    return aoti_torch_mps_dispatch_single(kernel(func), length);
  });
  m.def("dispatch_group", [](uintptr_t func, uint64_t length, uint64_t group) {
    return aoti_torch_mps_dispatch_single_with_group_size(
        kernel(func), length, group);
  });
  m.def("dispatch_array", dispatch_array);
  m.def("dispatch_groups", dispatch_groups);
}
