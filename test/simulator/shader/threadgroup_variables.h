#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mps_simulator::shader {

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
