#pragma once

#import <Metal/Metal.h>

#include "metal/access_map.h"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

@class SimulatedBuffer;

namespace mps_simulator {

class GpuCommand;
struct GpuPass;

// What comes before and in a command buffer, in terms of passes.
struct CommandBufferOrder {
  PassSet before; // of each of its passes
  PassSet done; // its own passes, and what was before them
  PassSet completed; // what the host knows to be done once it sees this one completed
};

// The signals of an event, the oldest first.
class EventOrder {
 public:
  // Both with the lock of GpuOrder held.
  void signal(uint64_t value, const PassSet& done);
  PassSet before(uint64_t value) const;

 private:
  std::deque<std::pair<uint64_t, PassSet>> signals_;
};

// Looks for memory that two commands use, one of them for writing, while nothing
// keeps the GPU from running both at the same time or the later one first:
//
// * in one concurrent encoder, commands without a barrier between them;
// * in two passes, memory that Metal does not track, unless something tracked, an
//   event or a completion that the host has seen orders the passes.
//
// The GPU's thread asks before it runs a command, so a conflict ends that
// command's buffer. Everything here may be called from any thread.
class GpuOrder {
 public:
  // Never destroyed.
  static GpuOrder& instance();
  static bool is_on();

  // As buffers come, of those that Metal does not track, and go.
  void add_untracked() {
    ++untracked_;
  }
  void buffer_gone(const SimulatedBuffer* buffer);
  // The resource, with memory of its own, no longer exists.
  void forget(const char* begin, const char* end, const void* resource);

  // The host has committed the command buffer, has seen that it is completed.
  void committed(CommandBufferOrder& order);
  void completed(CommandBufferOrder& order, PassSet& queue);
  void observed(const CommandBufferOrder& order);

  // By the GPU's thread, around and between the commands.
  void starts(const GpuCommand& command, CommandBufferOrder& order);
  void touches(const GpuAccess& access); // found out while the command runs
  void barrier(const SimulatedBuffer* const* buffers, size_t count); // null: all
  void signals(EventOrder& event, uint64_t value, const CommandBufferOrder& order);
  void waits(const EventOrder& event, uint64_t value, CommandBufferOrder& order);
  // By the host.
  void host_signals(EventOrder& event, uint64_t value);
  void host_sees(const EventOrder& event, uint64_t value);

 private:
  // Of a resource that Metal tracks: a heap, or a buffer with its own memory.
  struct Tracked {
    PassSet writes;
    PassSet reads;
  };

  void start_pass(const GpuCommand& first, CommandBufferOrder& order);
  void add_tracked(const GpuCommand& first, GpuPass& pass);
  void check(const GpuAccess& access);
  [[noreturn]] void report(const GpuAccess& access, const Accessor& earlier, bool wrote, bool same_pass) const;

  std::mutex mutex_;
  std::atomic<long> untracked_{0};
  uint64_t last_pass_ = 0;
  PassSet host_;
  AccessMap untracked_memory_;
  std::unordered_map<const void*, Tracked> tracked_;

  // Of the pass that runs.
  GpuPass* pass_ = nullptr;
  PassSet before_;
  AccessMap concurrent_memory_;
  std::unordered_map<const SimulatedBuffer*, unsigned> barriers_;
  // Of the command that runs.
  const GpuCommand* command_ = nullptr;
  unsigned position_ = 0; // in the order in which they run
  std::shared_ptr<const std::string> name_;
  std::vector<GpuAccess> accesses_; // kept for its memory
};

} // namespace mps_simulator
