#include "support/exit_report.h"

#include "support/deferred.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace mps_simulator {

namespace {

std::atomic<bool> reported{false};

void change_status(int status, void*) {
  report_rest_at_exit();
  if (status == 0 && reported) {
    std::fflush(nullptr);
    _exit(kExitStatus);
  }
}

// When the library is loaded, so that it runs after what is registered later and
// may still report.
const int registered = on_exit(change_status, nullptr);

} // namespace

void report_at_exit(const std::string& message) {
  (void)registered;
  reported = true;
  std::fprintf(stderr, "MPS simulator: %s\n", message.c_str());
}

} // namespace mps_simulator
