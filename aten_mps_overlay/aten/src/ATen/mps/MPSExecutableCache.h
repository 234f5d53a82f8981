#pragma once

// Compiled MPSGraphs by the shapes and types of their feeds. The declarations under __OBJC__ need Objective-C++.

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
  size_t limit = 0;
};

/// An executable that is kept, with the key of its graph in MPSGraphCache: the operation and its parameters. The key
/// is empty for a graph that is not from there.
struct MPSExecutableCacheEntry {
  struct Tensor {
    std::vector<int64_t> shape;
    // Undefined for what no tensor has
    c10::ScalarType dtype = c10::ScalarType::Undefined;
  };
  std::string key;
  std::vector<Tensor> inputs;
  size_t hits = 0;
};

TORCH_API MPSExecutableCacheStats executableCacheStats();
/// The counts for each key of MPSGraphCache that was looked up; the limit is for all together.
TORCH_API std::map<std::string, MPSExecutableCacheStats> executableCacheStatsByKey();
/// The executables in the cache, most recently used first.
TORCH_API std::vector<MPSExecutableCacheEntry> executableCacheEntries();
/// Forgets all executables, and sets the counts to zero.
TORCH_API void clearExecutableCache();
/// Sets how many executables are kept. The most recently used stay.
TORCH_API void setExecutableCacheLimit(size_t limit);
/// Lets operators outside of a capture run their graphs as cached executables. Also PYTORCH_MPS_EXECUTABLE_CACHE=1.
TORCH_API void setExecutableCacheEnabled(bool enabled);
TORCH_API bool isExecutableCacheEnabled();

} // namespace at::mps

#ifdef __OBJC__

#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace at::mps {

/// The dtype of tensors of this type, Undefined if they can't have it.
c10::ScalarType scalarTypeOf(MPSDataType type);

/// An executable with its inputs in the order of feedTensors and its results in the order of targetTensors. If there is
/// no executable, `problem` says why.
struct MPSExecutableRun {
  MPSGraphExecutable* executable = nil;
  std::string problem;
  NSArray<MPSGraphTensorData*>* inputs = nil;
  NSArray<MPSGraphTensorData*>* results = nil;
};

class MPSExecutableCache {
 public:
  static MPSExecutableCache& getInstance();
  MPSExecutableCache();

  /// Finds the executable for the graph and the types of what it is fed, or compiles it: one thread at a time for each
  /// graph, while others look up. `executable` is nil if that fails. What it returns is autoreleased: hand it to
  /// MPSStream::keepUntilDone() after encoding it.
  MPSExecutableRun get(MPSGraph* graph,
                       NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* feeds,
                       NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* targets,
                       id<MTLDevice> device,
                       MPSGraphCompilationDescriptor* descriptor);

  /// Notes the key of a graph, which must live until forgetGraphs() is called. May be called from wherever graphs are
  /// made: waits for nothing but other calls.
  void noteKey(MPSGraph* graph, const std::string& key);
  /// Lets go of all executables and keys, but not of the counts: call it where MPSGraphCache frees its graphs, after
  /// which none of them is found again.
  void forgetGraphs();

  MPSExecutableCacheStats stats();
  std::map<std::string, MPSExecutableCacheStats> statsByKey();
  std::vector<MPSExecutableCacheEntry> entries();
  void clear();
  void setLimit(size_t limit);
  std::atomic<bool> enabled;

 private:
  using Key = std::vector<uint64_t>;

  struct Entry {
    Key key;
    // keeps the addresses in the key from being used again
    MPSGraph* graph;
    MPSGraphExecutable* executable;
    MPSExecutableCacheStats* counts;
    std::vector<MPSExecutableCacheEntry::Tensor> inputs;
    size_t hits = 0;
  };

  MPSGraphExecutable* lookUp(const Key& key);
  std::string keyOf(MPSGraph* graph);
  void dropBeyond(size_t limit);

  std::mutex mutex_;
  // the graphs that are being compiled, without the mutex
  std::unordered_set<const MPSGraph*> compiling_;
  std::condition_variable compiled_;
  std::list<Entry> entries_; // the last used first
  std::map<Key, std::list<Entry>::iterator> by_key_;
  size_t limit_;
  MPSExecutableCacheStats counts_;
  // one for each key that was looked up since the counts were set to zero
  std::map<std::string, MPSExecutableCacheStats> counts_by_key_;

  std::mutex keys_mutex_;
  std::unordered_map<MPSGraph*, std::string> keys_;
};

class MPSStream;

/// How executables are to be encoded: without a commit of their own in the middle.
MPSGraphExecutableExecutionDescriptor* executableExecutionDescriptor();
/// False if the system can't do that.
bool executablesNeverCommit();

/// Encodes a run. One thread at a time does: Apple does not say that several may encode an executable, or one and
/// another that it calls.
void encodeExecutable(MPSGraphExecutable* executable,
                      MPSCommandBuffer* command_buffer,
                      NSArray<MPSGraphTensorData*>* inputs,
                      NSArray<MPSGraphTensorData*>* results);

/// Encodes the run as a cached executable. Returns false, and encodes nothing, if the cache is not enabled or the graph
/// can't be compiled. Call it on the stream's queue, with no encoder open, in an autorelease pool.
bool encodeCachedExecutable(MPSStream* stream,
                            MPSCommandBuffer* command_buffer,
                            MPSGraph* graph,
                            NSDictionary* feeds,
                            NSDictionary* results);

} // namespace at::mps

#endif // __OBJC__
