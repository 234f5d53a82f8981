#pragma once

// What torch.mps.executable_cache shows and sets. Plain C++: may be included
// where Objective-C is not known.

#include <c10/core/ScalarType.h>
#include <c10/macros/Macros.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace at::mps {

struct MPSExecutableCacheStats {
  size_t hits = 0;
  size_t misses = 0;
  size_t evictions = 0;
  size_t entries = 0;
  // of all keys together; 0 in the counts of one
  size_t limit = 0;
};

struct MPSExecutableCacheEntry {
  struct Tensor {
    std::vector<int64_t> shape;
    // Undefined for a type that no tensor has
    c10::ScalarType dtype = c10::ScalarType::Undefined;
  };
  // The operation and its parameters: the key of the graph in MPSGraphCache, or
  // "" for a graph that is not from there.
  std::string key;
  std::vector<Tensor> inputs;
  size_t hits = 0;
};

TORCH_API MPSExecutableCacheStats executableCacheStats();
/// The counts of each key that was looked up.
TORCH_API std::map<std::string, MPSExecutableCacheStats>
executableCacheStatsByKey();
/// The executables in the cache, most recently used first.
TORCH_API std::vector<MPSExecutableCacheEntry> executableCacheEntries();
/// Drops all executables and sets the counts to zero.
TORCH_API void clearExecutableCache();
/// Sets how many executables are kept. The most recently used stay.
TORCH_API void setExecutableCacheLimit(size_t limit);
/// Lets operators outside of captures run their graphs as cached executables.
/// Also PYTORCH_MPS_EXECUTABLE_CACHE=1.
TORCH_API void setExecutableCacheEnabled(bool enabled);
TORCH_API bool isExecutableCacheEnabled();

} // namespace at::mps
