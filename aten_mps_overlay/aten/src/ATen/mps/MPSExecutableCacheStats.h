#pragma once

// What torch.mps.executable_cache shows and sets. Plain C++: may be included
// where Objective-C is not known.

#include <ATen/core/Dict.h>
#include <c10/macros/Macros.h>

#include <cstddef>

namespace at::mps {

/// "limit"; "counts", those of each key that was looked up; and "entries", the
/// executables in the cache, most recently used first. A key is the operation
/// and its parameters: the key of the graph in MPSGraphCache, or "" for a graph
/// that is not from there.
TORCH_API c10::impl::GenericDict describeExecutableCache();
/// Drops all executables and sets the counts to zero.
TORCH_API void clearExecutableCache();
/// Sets how many executables are kept. The most recently used stay.
TORCH_API void setExecutableCacheLimit(size_t limit);
/// Lets operators outside of captures run their graphs as cached executables.
/// Also PYTORCH_MPS_EXECUTABLE_CACHE=1.
TORCH_API void setExecutableCacheEnabled(bool enabled);
TORCH_API bool isExecutableCacheEnabled();

} // namespace at::mps
