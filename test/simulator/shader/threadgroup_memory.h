#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

struct ThreadgroupVariable {
  std::string name;
  char* start;
  size_t size;
  // The compiler driver's own, around those of a declaration: a kernel must not
  // write there.
  bool margin;
};

// The variables that the kernel at `function`, of the library loaded from
// `path` at `base`, declares in the threadgroup address space. The compiler has
// made them function-local statics, whose symbols carry the function's name.
std::vector<ThreadgroupVariable> threadgroup_variables(const std::string& path, char* base, const void* function);

} // namespace mps_simulator::shader
