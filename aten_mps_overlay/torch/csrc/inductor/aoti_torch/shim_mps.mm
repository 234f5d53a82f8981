#include <torch/csrc/inductor/aoti_torch/c/shim_mps.h>

#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

using namespace torch::aot_inductor;
using at::native::mps::DynamicMetalShaderLibrary;
using at::native::mps::MetalKernelFunction;

struct AOTIMetalKernelFunctionOpaque {
  std::shared_ptr<MetalKernelFunction> function;
};

struct AOTIMetalShaderLibraryOpaque {
  explicit AOTIMetalShaderLibraryOpaque(const std::string& source) : library(source) {}

  AOTIMetalKernelFunctionHandle kernel(const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = kernels.find(name);
    if (found == kernels.end()) {
      found = kernels.emplace(name, AOTIMetalKernelFunctionOpaque{library.getKernelFunction(name)}).first;
    }
    // elements of the map don't move
    return &found->second;
  }

 private:
  DynamicMetalShaderLibrary library;
  std::mutex mutex;
  std::unordered_map<std::string, AOTIMetalKernelFunctionOpaque> kernels;
};

namespace {

// Metal's limit for compute kernels.
constexpr unsigned kBufferSlots = 31;

struct CommandBlock {
  // Encoders are the stream's, so that the kernel which started last is the one that a dispatch would run.
  AOTIMetalKernelFunctionHandle encoding = nullptr;
  bool failed = false;
};

// Of this thread, while it runs a callback on the stream's queue.
thread_local CommandBlock* current_block = nullptr;

void spoilBlock() {
  if (current_block) {
    current_block->failed = true;
  }
}

// Calls work(function, block). Whatever goes wrong spoils the block: callers that don't look at codes go on, and what
// they encode next could be anything.
template <typename Work>
AOTITorchError encode(AOTIMetalKernelFunctionHandle func, const Work& work) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    auto* block = current_block;
    TORCH_CHECK(block,
                "AOTInductor on MPS: work is encoded in the callback of aoti_torch_mps_run_command_block() only");
    TORCH_CHECK(!std::exchange(block->failed, true),
                "AOTInductor on MPS: an earlier call of this command block failed");
    TORCH_CHECK(func, "AOTInductor on MPS: the handle of the kernel is null");
    work(*func->function, *block);
    block->failed = false;
  });
}

template <typename Work>
AOTITorchError encodeStarted(AOTIMetalKernelFunctionHandle func, const Work& work) {
  return encode(func, [&](MetalKernelFunction& function, CommandBlock& block) {
    TORCH_CHECK(block.encoding == func,
                "AOTInductor on MPS: call aoti_torch_mps_start_encoding() for this kernel before its arguments are set "
                "and it is dispatched");
    work(function);
  });
}

void checkSlot(unsigned idx) {
  TORCH_CHECK(idx < kBufferSlots,
              "AOTInductor on MPS: the index of an argument must be below ",
              kBufferSlots,
              ", but is ",
              idx);
}

void setTensor(MetalKernelFunction& function, unsigned idx, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined(), "AOTInductor on MPS: the tensor for argument ", idx, " is undefined");
  if (tensor.is_mps()) {
    function.setArg(idx, tensor);
    return;
  }
  TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0,
              "AOTInductor on MPS: the tensor for argument ",
              idx,
              " is on ",
              tensor.device(),
              ", not on the MPS device");
  TORCH_CHECK(tensor.scalar_type() != at::kDouble && tensor.scalar_type() != at::kComplexDouble,
              "AOTInductor on MPS: the number for argument ",
              idx,
              " is of type ",
              tensor.scalar_type(),
              ", which Metal does not have");
  function.setArg(idx, tensor.const_data_ptr(), tensor.element_size());
}

// Metal gives no error for a size that it can't run: the process ends, or the GPU does as it likes.
bool checkGrid(const MetalKernelFunction& function,
               c10::ArrayRef<uint64_t> length,
               c10::OptionalArrayRef<uint64_t> group_size) {
  TORCH_CHECK(!length.empty() && length.size() <= 3,
              "AOTInductor on MPS: a grid has 1 to 3 dimensions, but this one has ",
              length.size());
  if (group_size.has_value()) {
    TORCH_CHECK(group_size->size() == length.size(),
                "AOTInductor on MPS: the grid and its threadgroups have different numbers of dimensions: ",
                length.size(),
                " and ",
                group_size->size());
    uint64_t room = function.getMaxThreadsPerThreadgroup();
    for (const auto size : *group_size) {
      TORCH_CHECK(size > 0 && size <= room,
                  "AOTInductor on MPS: a threadgroup of this kernel has 1 to ",
                  function.getMaxThreadsPerThreadgroup(),
                  " threads, but is of shape ",
                  *group_size);
      room /= size;
    }
  }
  return std::find(length.begin(), length.end(), 0) == length.end();
}

c10::ArrayRef<uint64_t> checkedArray(const uint64_t* values, size_t count) {
  TORCH_CHECK(values || count == 0, "AOTInductor on MPS: the array of sizes is null");
  return {values, count};
}

} // namespace

AOTITorchError aoti_torch_mps_create_shader_library(const char* metal_shader_source,
                                                    AOTIMetalShaderLibraryHandle* library_handle) {
  // The thread of a model has no pool of its own.
  @autoreleasepool {
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
      TORCH_CHECK(library_handle, "AOTInductor on MPS: library_handle is null");
      *library_handle = nullptr;
      TORCH_CHECK(metal_shader_source, "AOTInductor on MPS: the source of the library is null");
      *library_handle = new AOTIMetalShaderLibraryOpaque(metal_shader_source);
    });
  }
}

AOTITorchError aoti_torch_mps_delete_shader_library(AOTIMetalShaderLibraryHandle library_handle) {
  @autoreleasepool {
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ delete library_handle; });
  }
}

AOTITorchError aoti_torch_mps_get_kernel_function(AOTIMetalShaderLibraryHandle library_handle,
                                                  const char* kernel_name,
                                                  AOTIMetalKernelFunctionHandle* function_handle) {
  @autoreleasepool {
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
      TORCH_CHECK(function_handle, "AOTInductor on MPS: function_handle is null");
      *function_handle = nullptr;
      TORCH_CHECK(library_handle, "AOTInductor on MPS: the handle of the library is null");
      TORCH_CHECK(kernel_name, "AOTInductor on MPS: the name of the kernel is null");
      *function_handle = library_handle->kernel(kernel_name);
    });
  }
}

AOTITorchError aoti_torch_mps_run_command_block(AOTIMetalKernelFunctionHandle func,
                                                aoti_torch_mps_command_block_callback_t callback,
                                                void* user_data) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    TORCH_CHECK(func, "AOTInductor on MPS: the handle of the kernel is null");
    TORCH_CHECK(callback, "AOTInductor on MPS: the callback of the command block is null");
    if (at::mps::getCurrentMPSStream()->isOnQueue()) {
      spoilBlock();
      TORCH_CHECK(false,
                  "AOTInductor on MPS: a command block was run from a block of the stream's queue, where it would wait "
                  "forever. Run it from another thread");
    }
    CommandBlock block;
    func->function->runCommandBlock([&] {
      current_block = &block;
      auto end = c10::make_scope_exit([] { current_block = nullptr; });
      callback(func, user_data);
    });
    TORCH_CHECK(!block.failed, "AOTInductor on MPS: a call of the command block failed");
  });
}

void aoti_torch_mps_shared_callback(AOTIMetalKernelFunctionHandle func, void* user_data) {
  const auto call = [&]() -> AOTITorchError {
    AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
      TORCH_CHECK(user_data, "AOTInductor on MPS: the function of the command block is null");
      (*static_cast<std::function<void(AOTIMetalKernelFunctionHandle)>*>(user_data))(func);
    });
  };
  if (call() != AOTI_TORCH_SUCCESS) {
    spoilBlock();
  }
}

AOTITorchError aoti_torch_mps_start_encoding(AOTIMetalKernelFunctionHandle func) {
  return encode(func, [&](MetalKernelFunction& function, CommandBlock& block) {
    function.startEncoding();
    block.encoding = func;
  });
}

AOTITorchError aoti_torch_mps_set_arg_tensor(AOTIMetalKernelFunctionHandle func,
                                             unsigned idx,
                                             AtenTensorHandle tensor) {
  return encodeStarted(func, [&](MetalKernelFunction& function) {
    checkSlot(idx);
    TORCH_CHECK(tensor, "AOTInductor on MPS: the handle of the tensor for argument ", idx, " is null");
    setTensor(function, idx, *tensor_handle_to_tensor_pointer(tensor));
  });
}

AOTITorchError aoti_torch_mps_set_arg_int(AOTIMetalKernelFunctionHandle func, unsigned idx, int64_t val) {
  return encodeStarted(func, [&](MetalKernelFunction& function) {
    checkSlot(idx);
    function.setArg(idx, val);
  });
}

AOTITorchError aoti_torch_mps_dispatch_single(AOTIMetalKernelFunctionHandle func, uint64_t length) {
  return encodeStarted(func, [&](MetalKernelFunction& function) {
    if (checkGrid(function, {length}, std::nullopt)) {
      function.dispatch(length);
    }
  });
}

AOTITorchError aoti_torch_mps_dispatch_single_with_group_size(AOTIMetalKernelFunctionHandle func,
                                                              uint64_t length,
                                                              uint64_t group_size) {
  return aoti_torch_mps_dispatch_array_with_group_size(func, &length, 1, &group_size, 1);
}

AOTITorchError aoti_torch_mps_dispatch_array(AOTIMetalKernelFunctionHandle func,
                                             const uint64_t* length,
                                             size_t length_size) {
  return encodeStarted(func, [&](MetalKernelFunction& function) {
    const auto grid = checkedArray(length, length_size);
    if (checkGrid(function, grid, std::nullopt)) {
      function.dispatch(grid);
    }
  });
}

AOTITorchError aoti_torch_mps_dispatch_array_with_group_size(AOTIMetalKernelFunctionHandle func,
                                                             const uint64_t* length,
                                                             size_t length_size,
                                                             const uint64_t* group_size,
                                                             size_t group_size_size) {
  return encodeStarted(func, [&](MetalKernelFunction& function) {
    const auto grid = checkedArray(length, length_size);
    const auto groups = checkedArray(group_size, group_size_size);
    if (checkGrid(function, grid, groups)) {
      function.dispatch(grid, groups);
    }
  });
}
