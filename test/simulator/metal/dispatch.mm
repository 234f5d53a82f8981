#import "metal/dispatch.h"

#include "metal/kernel_checks.h"
#include "metal/thread_order.h"
#include "support/settings.h"

namespace mps_simulator {

void run_kernel(const KernelRun& run) {
  const auto start = [&] {
    run.function->run({run.grid, run.threadgroup, run.buffers, run.threadgroup_lengths, next_thread_order()});
  };
  if (!settings().validation) {
    start();
    return;
  }
  KernelChecks checks(run);
  try {
    start();
  } catch (const shader::KernelFault& fault) {
    checks.explain(fault);
    throw;
  }
  checks.finish();
}

} // namespace mps_simulator
