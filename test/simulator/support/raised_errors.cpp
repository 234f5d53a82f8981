#include "support/raised_errors.h"

#include "support/json.h"

#include <map>
#include <mutex>

namespace mps_simulator {

namespace {

constexpr size_t kMost = 1000; // different ones; a loop must not fill the memory

struct Raised {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;
};

// Never destroyed: the GPU thread may fail while the process exits.
Raised& raised() {
  static auto* instance = new Raised;
  return *instance;
}

thread_local int attempts = 0;

} // namespace

void note_error(const char* kind, const std::string& message) {
  if (attempts) {
    return;
  }
  std::string entry = std::string(kind) + ": ";
  for (const char character : message.substr(0, message.find('\n'))) {
    entry += static_cast<unsigned char>(character) < ' ' ? ' ' : character;
  }
  const std::lock_guard<std::mutex> lock(raised().mutex);
  auto& counts = raised().counts;
  const auto known = counts.find(entry);
  if (known != counts.end()) {
    known->second++;
  } else if (counts.size() < kMost) {
    counts.emplace(std::move(entry), 1);
  }
}

std::string raised_errors_json() {
  const std::lock_guard<std::mutex> lock(raised().mutex);
  return json_object(raised().counts);
}

void forget_raised_errors() {
  const std::lock_guard<std::mutex> lock(raised().mutex);
  raised().counts.clear();
}

AttemptGuard::AttemptGuard() {
  attempts++;
}

AttemptGuard::~AttemptGuard() {
  attempts--;
}

} // namespace mps_simulator
