#ifndef AOTI_TORCH_SHIM_MPS
#define AOTI_TORCH_SHIM_MPS

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

// What a model compiled by AOTInductor calls to run Metal kernels. The rules of
// shim.h hold: no function throws; each returns AOTI_TORCH_SUCCESS or, after it
// has logged the reason, AOTI_TORCH_FAILURE.

#ifdef __cplusplus
extern "C" {
#endif

// Kernels that were compiled from one source.
struct AOTIMetalShaderLibraryOpaque;
using AOTIMetalShaderLibraryHandle = AOTIMetalShaderLibraryOpaque*;

// One kernel of a library, which owns it: deleting the library ends the handle.
struct AOTIMetalKernelFunctionOpaque;
using AOTIMetalKernelFunctionHandle = AOTIMetalKernelFunctionOpaque*;

// Compiles the source at once. The caller owns the library. If the source does
// not compile, *library_handle is null.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_create_shader_library(
    const char* metal_shader_source,
    AOTIMetalShaderLibraryHandle* library_handle // returns new reference
);

// Work that was submitted still runs, and graphs that captured it still replay.
// A null handle is fine, as for delete.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_delete_shader_library(
    AOTIMetalShaderLibraryHandle library_handle);

// A name gives the same handle each time. If there is no such kernel,
// *function_handle is null.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_get_kernel_function(
    AOTIMetalShaderLibraryHandle library_handle,
    const char* kernel_name,
    AOTIMetalKernelFunctionHandle* function_handle // returns borrowed reference
);

typedef void (*aoti_torch_mps_command_block_callback_t)(
    AOTIMetalKernelFunctionHandle func,
    void* user_data);

// Calls callback(func, user_data) on the stream's queue and returns when it is
// through. The functions below encode work, and fail outside of a callback.
// Once one of them has failed, those that follow in the same callback do
// nothing and fail too, and so does this function in the end: a caller that
// looks at this code alone misses nothing, and no kernel runs with arguments
// that were meant for another. Callbacks can't be nested.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_run_command_block(
    AOTIMetalKernelFunctionHandle func,
    aoti_torch_mps_command_block_callback_t callback,
    void* user_data);

// The callback for a function object: user_data points to a
// std::function<void(AOTIMetalKernelFunctionHandle)>. What that throws makes
// aoti_torch_mps_run_command_block fail.
AOTI_TORCH_EXPORT void aoti_torch_mps_shared_callback(
    AOTIMetalKernelFunctionHandle func,
    void* user_data);

// Makes func the kernel that the calls after it set up and dispatch.
AOTI_TORCH_EXPORT AOTITorchError
aoti_torch_mps_start_encoding(AOTIMetalKernelFunctionHandle func);

// The tensor lies on the MPS device, or is a number: a CPU tensor without
// dimensions, whose value is copied now.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_set_arg_tensor(
    AOTIMetalKernelFunctionHandle func,
    unsigned idx,
    AtenTensorHandle tensor);

// The kernel sees a long of 64 bits.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_set_arg_int(
    AOTIMetalKernelFunctionHandle func,
    unsigned idx,
    int64_t val);

// Runs the kernel with `length` threads. A length of 0 runs nothing, and is no
// error; here and below.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_dispatch_single(
    AOTIMetalKernelFunctionHandle func,
    uint64_t length);

// The same in threadgroups of `group_size` threads.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_dispatch_single_with_group_size(
    AOTIMetalKernelFunctionHandle func,
    uint64_t length,
    uint64_t group_size);

// Runs the kernel over a grid of `length_size` dimensions, 1 to 3.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_dispatch_array(
    AOTIMetalKernelFunctionHandle func,
    const uint64_t* length,
    size_t length_size);

// The same in threadgroups of a shape with as many dimensions.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_mps_dispatch_array_with_group_size(
    AOTIMetalKernelFunctionHandle func,
    const uint64_t* length,
    size_t length_size,
    const uint64_t* group_size,
    size_t group_size_size);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // AOTI_TORCH_SHIM_MPS
