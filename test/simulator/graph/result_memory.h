#pragma once

#include <cstddef>

namespace mps_simulator::graph {

// While it exists, the next tensor of exactly `bytes` bytes that ATen makes on
// this thread lies in `memory`, which must outlive it: the value of an
// expression is then computed in its final place. The caller must check whether
// ATen made such a tensor.
class ResultMemory {
 public:
  ResultMemory(void* memory, size_t bytes);
  ~ResultMemory();
  ResultMemory(const ResultMemory&) = delete;
  ResultMemory& operator=(const ResultMemory&) = delete;
};

} // namespace mps_simulator::graph
