#pragma once

// The library's one function for its loader (torch/_mps_graph_loader.py).

extern "C" {

enum torch_mps_graph_step {
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

/// Returns null, or in a sentence why the step was not done or, of a check,
/// what is wrong. The text is valid until the thread's next call.
__attribute__((visibility("default"))) const char* torch_mps_graph_load(int step);
}
