#pragma once

// Capture of the stream's work into a graph that can be replayed; the
// counterpart of ATen/cuda/CUDAGraph.h. Plain C++: may be included where
// Objective-C is not known.

#include <ATen/core/Dict.h>
#include <ATen/core/TensorBase.h>
#include <ATen/mps/MPSCommandGraphUtils.h>
#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Note [MPS command graphs]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// A command graph is the GPU work of a block of a program, recorded once and
// submitted again without the program, the dispatcher or the cost of each
// operator. It gives the MPS backend what CUDA graphs give CUDA. Metal can't
// submit a command buffer twice, so a replay encodes the work again.
//
// What is recorded. All work of the backend goes through the one stream, in
// blocks of its serial queue. In a capture,
// - MPSStream::commandEncoder() hands out an MPSRecordingEncoder, which
//   forwards each call and adds it to the step of this encoder. Encoder state
//   stays until it is replaced, so the same calls dispatch the same kernels.
// - MPSStream::executeMPSGraph() looks up or compiles an MPSGraphExecutable,
//   runs it, and records the executable with its inputs and results.
// - MPSStream::copy() and fill() record their arguments.
// Operators run as always, so the results of the block are valid. Whatever
// can't be repeated raises: a read of device data by the host, a CPU fallback,
// an encoder method that is not recorded, the raw command buffer.
//
// Whose work is recorded. The capture adds a thread-local RecordFunction
// callback to the thread that began it. at::ThreadLocalState hands it on to
// autograd's threads, so a thread that has the callback works for the capture.
// The queue may run a block on another thread, so dispatch_sync_with_rethrow()
// marks the blocks of such threads. A block without a mark is not recorded.
// Every hook tests one flag first, and with no capture underway upstream's own
// lines run.
//
// Memory. What the block allocates belongs to the pool of the graph: nobody
// else gets it before the graph is gone. Blocks of the allocator that
// existed before are pinned: they stay out of its free lists while the graph
// lives. So a replay may write wherever the block did.
//
// Changed inputs. A replay uses the memory and the shapes of the capture. It
// raises if a tensor from before the block has other metadata now, by a
// fingerprint of each tensor, or if a storage moved. A storage that moves frees
// a pinned block, which advances an epoch of the allocator, so a replay
// compares one number for all storages.
//
// Order and errors. A replay is one block of the queue, in order with eager
// work, and may share a command buffer with it. The first GPU error of a replay
// is kept by the stream and raised by the next call that waits.
//
// Locks, in the order in which a thread may take them: the graph's, the
// stream's queue, that of the active capture, the capture's own, the
// allocator's. Only the graph's may be held while Python runs, and no thread
// waits for it with the interpreter's lock.

namespace at::mps {

class MPSCommandGraphCapture;
class MPSCommandGraphReplay;
struct MPSCommandGraphRecording;

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
      std::optional<MPSCommandGraphPool> pool = std::nullopt,
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
  /// replay() in two parts, for bindings of an interpreter. The first checks
  /// the tensors, and the caller holds the interpreter's lock, so that no
  /// program changes one meanwhile. It does not wait: it returns null if it
  /// can't check, or if the check fails, and replay() then waits or raises.
  std::shared_ptr<const MPSCommandGraphReplay> tryCheck() const;
  /// Without the interpreter's lock.
  void submit(std::shared_ptr<const MPSCommandGraphReplay> replay);
  /// Lets the bindings leave each replay to the program, which submits it.
  void setAsksProgram(bool asks) {
    asks_program_ = asks;
  }
  bool asksProgram() const {
    return asks_program_;
  }
  /// Drops the recording and the memory it keeps.
  void reset();
  MPSCommandGraphPool pool() const;
  /// Makes the graph a part of a graphed callable, which compares
  /// requires_grad itself. Call it before captureBegin().
  void setOfCallable() {
    is_of_callable_ = true;
  }
  /// The tensors that a callable's block made, that still exist and that are
  /// wanted, each with what an error says of it. Takes the interpreter's lock.
  std::vector<std::pair<TensorBase, std::string>> resultsInUse(
      bool (*is_wanted)(const c10::TensorImpl&)) const;
  /// Lets captures of this graph draw from no generator but the default one.
  /// Call it before captureBegin().
  void drawFromDefaultOnly() {
    draws_from_default_only_ = true;
  }
  /// Counts of the steps, the memory and the replays, by name: numbers, and why
  /// no replay is encoded ahead.
  c10::impl::GenericDict stats() const;
  /// How many replays have overwritten memory of the graph since its capture:
  /// its own, those of graphs that were captured before it into the same pool,
  /// and those of graphs that hold a replay of either. 0 for an empty graph.
  size_t overwrites() const;
  /// True if the graph uses the tensor's memory and the memory existed before
  /// the capture.
  bool keeps(const TensorBase& tensor) const;
  /// What debug dumps say: "buffers" and "steps", lists of dicts.
  c10::impl::GenericDict dump() const;

 private:
  std::shared_ptr<const MPSCommandGraphReplay> makeReplay(
      std::shared_ptr<const MPSCommandGraphRecording> recording) const;

  const bool keep_graph_;
  const size_t encode_ahead_;
  bool is_of_callable_ = false;
  bool draws_from_default_only_ = false;
  // guards what follows
  mutable std::mutex mutex_;
  std::unique_ptr<MPSCommandGraphCapture> capture_;
  std::shared_ptr<const MPSCommandGraphRecording> recording_;
  // that of the recording, once it is instantiated
  std::shared_ptr<const MPSCommandGraphReplay> replay_;
  std::optional<MPSCommandGraphPool> pool_;
  // why the last capture left the graph empty, "" if it did not
  std::string failure_;
  size_t replays_ = 0;
  std::atomic<bool> asks_program_{false};
};

TORCH_API MPSCommandGraphPool newGraphPool();

} // namespace at::mps
