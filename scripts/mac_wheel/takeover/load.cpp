// The library's one function for its loader (torch/_mps_graph_loader.py).

#include "takeover.h"

#include <exception>
#include <string>

namespace {

enum Step {
  // Before torch._C is imported: put the library's backend in charge.
  TORCH_MPS_GRAPH_TAKE_OVER = 0,
  // After: give torch._C its Python functions and classes. Needs the GIL.
  TORCH_MPS_GRAPH_BIND = 1,
  // Any time later: does anything use the backend that is not in charge?
  TORCH_MPS_GRAPH_CHECK = 2,
  // Instead of the first: leave the official backend in charge. Extensions that
  // were linked with this library still find it.
  TORCH_MPS_GRAPH_STAND_BY = 3,
};

std::string run(int step) {
  switch (step) {
    case TORCH_MPS_GRAPH_TAKE_OVER:
      return torch_mps_graph::takeOver();
    case TORCH_MPS_GRAPH_BIND:
      return torch_mps_graph::replaceBindings();
    case TORCH_MPS_GRAPH_CHECK:
      return torch_mps_graph::trouble();
    case TORCH_MPS_GRAPH_STAND_BY:
      torch_mps_graph::watchCallers(/*is_in_charge=*/false);
      return "";
    default:
      return "it knows no such step: its loader is of another version";
  }
}

} // namespace

/// Returns null, or in a sentence why the step was not done or, of a check,
/// what is wrong. The text is valid until the thread's next call.
extern "C" __attribute__((visibility("default"))) const char* torch_mps_graph_load(int step) {
  thread_local std::string answer;
  try {
    answer = run(step);
  } catch (const std::exception& error) {
    answer = error.what();
  }
  return answer.empty() ? nullptr : answer.c_str();
}
