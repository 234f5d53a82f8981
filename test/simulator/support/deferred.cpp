#include "support/deferred.h"

#include "support/error.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <unistd.h>

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

namespace {

// Never destroyed: objects still die while the process exits.
struct Deferred {
  std::mutex mutex;
  std::deque<std::string> texts;
};

Deferred& deferred() {
  static auto* instance = new Deferred;
  return *instance;
}

std::atomic<size_t> waiting{0};

} // namespace

void defer_violation(const std::string& text) {
  if (!settings().validation) {
    return;
  }
  auto& all = deferred();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.texts.push_back(text);
  waiting.store(all.texts.size(), std::memory_order_release);
}

bool has_deferred_violation() {
  return waiting.load(std::memory_order_acquire) > 0;
}

void report_deferred_violation() {
  std::string text;
  {
    auto& all = deferred();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.texts.empty()) {
      return;
    }
    text = all.texts.front();
    all.texts.pop_front();
    waiting.store(all.texts.size(), std::memory_order_release);
  }
  violation("%s", text.c_str());
}

void report_rest_at_exit() {
  auto& all = deferred();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& text : all.texts) {
    report_at_exit("misuse that no later call reported: " + display_name(text.c_str()));
  }
}

} // namespace mps_simulator
