#pragma once

// Capture of the stream's work into a graph that can be replayed; the
// counterpart of ATen/cuda/CUDAGraph.h. Plain C++: may be included where
// Objective-C is not known.

#include <ATen/core/Generator.h>
#include <ATen/mps/MPSCaptureUtils.h>
#include <ATen/mps/MPSLockOrder.h>
#include <c10/macros/Macros.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace at::mps {

class MPSGraphCapture;
class MPSReplay;
struct MPSRecording;

struct MPSCommandGraphStats {
  size_t kernels = 0;
  size_t graph_runs = 0;
  size_t copies = 0;
  size_t fills = 0;
  size_t kernel_objects = 0;
  size_t host_refreshes = 0;
  // of the copies, those of CPU tensors that the block made
  size_t constants = 0;
  // distinct compiled executables behind the graph runs
  size_t executables = 0;
  // blocks of the allocator that the graph keeps, and their size in bytes
  size_t buffers = 0;
  size_t buffer_bytes = 0;
  // memory of the pool, which may be that of other graphs too
  size_t pool_bytes = 0;
  // replays that are encoded before they are asked for, and the memory in bytes
  // of the host's data of all of them
  size_t ready_replays = 0;
  size_t ready_bytes = 0;
  // "" if replays are encoded ahead
  std::string why_not_ahead;
  size_t replays = 0;
};

/// What debug dumps say of a graph.
struct MPSCommandGraphDump {
  struct Buffer {
    size_t bytes = 0;
    // "pool": of the graph's pool, "kept": a block that was there before,
    // "own": nothing else knows it
    std::string memory;
  };
  struct Use {
    size_t buffer = 0; // position in `buffers`
    size_t offset = 0; // in bytes
    // "read", "write", or "bind": a kernel may do either
    std::string access;
  };
  struct Step {
    std::string kind;
    std::string op; // the operator that submitted it, "" if that is not known
    std::string line; // where the program called it, "" if that is not known
    std::vector<std::pair<std::string, std::vector<uint64_t>>> numbers;
    // dtype and shape of what an MPSGraph takes and gives
    std::vector<std::pair<std::string, std::vector<std::string>>> tensors;
    std::vector<Use> uses;
  };
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
};

/// A recording of the GPU work that was submitted between captureBegin() and
/// captureEnd() by the thread that called captureBegin() and by those that work
/// for it: autograd's, and others that take over its at::ThreadLocalState. The
/// work of other threads goes on as always and is no part of it.
class TORCH_API MPSCommandGraph {
 public:
  /// With `keep_graph` the end of a capture leaves it to instantiate(), or to
  /// the first replay, to lay down what a replay does.
  /// After each replay, the next `encode_ahead` ones are encoded on another
  /// thread, at most 16 of all graphs.
  explicit MPSCommandGraph(bool keep_graph = false, size_t encode_ahead = 0);
  ~MPSCommandGraph();
  MPSCommandGraph(const MPSCommandGraph&) = delete;
  MPSCommandGraph& operator=(const MPSCommandGraph&) = delete;

  /// Starts recording. Raises when a capture is underway, when this graph holds
  /// one, or when a profiler is on.
  /// A read of device data by the host raises. With `freeze_host_reads` it runs
  /// outside of the graph, with one warning, and its value is fixed.
  /// With `check_input_liveness` a replay raises, too, when a tensor of the
  /// device that existed before the capture and was used in it is gone.
  void captureBegin(
      std::optional<MPSGraphPool> pool = std::nullopt,
      bool freeze_host_reads = false,
      bool check_input_liveness = false);
  /// Ends recording. Raises, and leaves the graph empty, when something ran
  /// that can't be repeated.
  void captureEnd();
  /// Lays down the calls of a replay. Only if the graph is kept, and then as
  /// often as wanted: later replays do as the switches say now.
  void instantiate();
  /// Ends recording and drops what was recorded, if this graph is being
  /// captured. Errors of later replays name the reason.
  void captureAbort(const std::string& reason = "");
  /// Encodes the recorded work again, in order with all other work of the
  /// stream. Does not wait for the GPU.
  void replay();
  /// Drops the recording and the memory it keeps.
  void reset();
  MPSGraphPool pool() const;
  /// Lets captures of this graph draw from the generator: replays will, too.
  /// The default generator is always registered. Must precede captureBegin().
  void registerGeneratorState(const Generator& generator);
  MPSCommandGraphStats stats() const;
  /// How many replays have overwritten memory of the graph since its capture:
  /// its own, those of graphs that were captured before it into the same pool,
  /// and those of graphs that hold a replay of either. 0 for an empty graph.
  size_t overwrites() const;
  /// True if the graph uses the tensor's memory and the memory existed before
  /// the capture.
  bool keeps(const TensorBase& tensor) const;
  MPSCommandGraphDump dump() const;

 private:
  std::shared_ptr<const MPSReplay> makeReplay(
      std::shared_ptr<const MPSRecording> recording) const;

  const bool keep_graph_;
  const size_t encode_ahead_;
  // guards what follows
  mutable MPSMutex<MPSLockRank::GRAPH> mutex_;
  std::unique_ptr<MPSGraphCapture> capture_;
  std::shared_ptr<const MPSRecording> recording_;
  // that of the recording, once it is instantiated
  std::shared_ptr<const MPSReplay> replay_;
  std::optional<MPSGraphPool> pool_;
  // why the last capture left the graph empty, "" if it did not
  std::string failure_;
  std::vector<Generator> generators_;
  size_t replays_ = 0;
};

TORCH_API MPSGraphPool newGraphPool();

/// True in a block of the stream's queue, where nothing may wait for the
/// interpreter.
TORCH_API bool isOnStreamQueue();

} // namespace at::mps
