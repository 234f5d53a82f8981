#pragma once

#include <map>
#include <string>

namespace mps_simulator::shader {

struct CompileRequest {
  std::string source;
  std::map<std::string, std::string> macros;
  unsigned metal_version; // as __METAL_VERSION__
  bool fast_math;
};

// Returns the path of the shared library for `request`, from the cache or fresh
// from the compiler; empty, with the compiler's messages in `error`, when the
// source does not compile. Throws std::runtime_error when the fault is not the
// source's. `fresh` skips the cache.
std::string compiled_library(const CompileRequest& request, bool fresh, std::string& error);

} // namespace mps_simulator::shader
