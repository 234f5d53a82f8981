#pragma once

#include <cstddef>
#include <cstdint>

namespace mps_simulator::shader {

// Memory of one threadgroup argument. It ends where a page ends that is followed
// by others that fault, and begins behind such pages and a pattern.
class ThreadgroupMemory {
 public:
  ThreadgroupMemory();
  ThreadgroupMemory(const ThreadgroupMemory&) = delete;
  ThreadgroupMemory& operator=(const ThreadgroupMemory&) = delete;

  // Up to 32 KiB, aligned to 16 bytes. The content is undefined.
  char* reserve(size_t length);
  char* start() const {
    return start_;
  }
  size_t length() const {
    return length_;
  }
  // Whether a fault at the address is a miss of this memory.
  bool is_near(uintptr_t address) const;
  // How far in front of the memory a byte has been overwritten; 0 if none has.
  size_t overwritten_in_front() const;

 private:
  char* reserved_;
  char* start_ = nullptr;
  size_t length_ = 0;
};

} // namespace mps_simulator::shader
