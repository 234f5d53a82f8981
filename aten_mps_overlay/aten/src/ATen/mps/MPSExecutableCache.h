#pragma once

// Compiled MPSGraphs by the shapes and types of their feeds. Objective-C++ only.

#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSExecutableCacheStats.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace at::mps {

class MPSStream;

/// "float32", or "type 5" for a type that no tensor can have.
std::string nameOf(MPSDataType type);

/// A step to record, or, if it has no executable, the reason.
struct MPSExecutableRun {
  MPSGraphRunStep step;
  const char* problem = nullptr;
};

/// Keeps executables for the stream.
class MPSExecutableCache {
 public:
  static MPSExecutableCache& getInstance();

  /// Finds the executable for the graph and the types of its feeds, or compiles it.
  MPSExecutableRun get(MPSGraph* graph,
                       NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* feeds,
                       NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* targets,
                       id<MTLDevice> device,
                       MPSGraphCompilationDescriptor* descriptor);

  /// Notes the key of a graph, which must live until forgetGraphs() is called.
  void noteKey(MPSGraph* graph, const std::string& key);
  /// Drops all executables and keys, but not the counts. MPSGraphCache must call it before it frees its graphs.
  void forgetGraphs();

  // See the functions in MPSExecutableCacheStats.h.
  c10::impl::GenericDict describe();
  void clear();
  void setLimit(size_t limit);
  static std::atomic<bool> enabled;

 private:
  struct Type {
    MPSDataType dtype;
    std::vector<int64_t> shape;
    // The placeholder has the shape. MPSGraph takes no data of another one.
    bool is_fixed;
  };
  struct Counts {
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t evictions = 0;
    int64_t entries = 0;
  };
  struct Entry {
    // The reference keeps the address, which is the key, from being used again.
    MPSRetained<MPSGraph*> graph;
    MPSRetained<MPSGraphExecutable*> executable;
    MPSRetained<NSArray<MPSGraphTensor*>*> feeds;
    MPSRetained<NSArray<MPSGraphTensor*>*> targets;
    std::vector<Type> types; // those of `feeds`
    Counts* counts = nullptr;
    int64_t hits = 0;
    uint64_t last_use = 0;
  };

  static MPSGraphRunStep stepOf(const Entry& entry, NSDictionary* feeds, NSDictionary* targets);

  std::string keyOf(MPSGraph* graph) const;
  void countHit(Entry& entry);
  void add(Entry entry);
  void dropBeyond(size_t limit);

  std::unordered_multimap<MPSGraph*, Entry> entries_;
  std::mutex mutex_;
  std::unordered_map<MPSGraph*, std::string> keys_;
  // one for each key that was looked up since the counts were set to zero
  std::map<std::string, Counts> counts_;
  // Graphs that a program makes again and again must not add up.
  size_t limit_ = 1024;
  uint64_t uses_ = 0;
};

/// False if this system can't keep executables from committing the command buffer.
bool executablesNeverCommit();

/// Encodes a run. One thread at a time does: Apple does not say that several may encode an executable, or one and
/// another that it calls.
void encodeExecutable(const MPSGraphRunStep& run, MPSCommandBuffer* command_buffer);

/// Encodes the run of a graph as its executable, which is kept until the GPU is done. Encodes nothing if there is a
/// problem. Call it on the stream's queue, with no encoder open.
MPSExecutableRun encodeAsExecutable(MPSStream* stream, MPSGraph* graph, NSDictionary* feeds, NSDictionary* targets);

} // namespace at::mps
