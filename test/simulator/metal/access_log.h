#pragma once

#include "metal/host_view.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

@class SimulatedBuffer;

namespace mps_simulator {

// The shared memory that the commands of one command buffer touch, in their
// order. The host must not touch it from commit until the work is done.
class AccessLog {
 public:
  // `begin` and `end` in bytes of the buffer. Forgets buffers that the host
  // cannot see.
  void add(SimulatedBuffer* buffer, size_t begin, size_t end, bool writes);
  // For a copy from or to memory that the program owns: its pages hold other
  // data too and cannot be protected, so the bytes are compared.
  void add_bytes(SimulatedBuffer* buffer, size_t begin, size_t end, bool writes);
  // All entries so far; finish() with this count leaves later ones alone.
  size_t mark() {
    marked_ = entries_.size();
    return marked_;
  }

  // At commit. `user_name` names the command buffer in messages.
  void start(const void* user, const std::string& user_name);
  // Before the command buffer's first command: a violation when bytes changed.
  void check_bytes();
  // The GPU is done with the first `count` entries.
  void finish(size_t count);
  void finish_all() {
    finish(entries_.size());
  }

 private:
  struct Entry {
    std::shared_ptr<HostView> view;
    ViewAccess access;
  };
  struct Bytes {
    const char* begin;
    size_t length;
    bool writes;
    uint64_t sum;
    std::string buffer_name;
  };

  std::vector<Entry> entries_;
  std::vector<Bytes> bytes_;
  size_t finished_ = 0;
  size_t marked_ = 0;
  bool started_ = false;
  std::string user_name_;
};

} // namespace mps_simulator
