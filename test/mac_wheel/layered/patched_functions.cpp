// Which functions of the patched backend ran: the simulator's counters, of
// which this library has its own.

#include "support/functions_run.h"

#include <string>

extern "C" {

__attribute__((visibility("default"))) const char* torch_mps_graph_functions_run() {
  thread_local std::string list;
  list = mps_simulator::functions_run_json();
  return list.c_str();
}

__attribute__((visibility("default"))) void torch_mps_graph_forget_functions_run() {
  mps_simulator::forget_functions_run();
}

} // extern "C"
