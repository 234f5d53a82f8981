#import "metal/access_log.h"

#include "metal/buffer.h"
#include "metal/residency.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace mps_simulator {

namespace {

// A loop that runs one kernel many times adds the same entries again and again.
constexpr size_t kLookBack = 8;
// Larger copies are compared in part.
constexpr size_t kMostBytes = size_t{4} << 20;

uint64_t sum_of(const char* begin, size_t length) {
  uint64_t sum = 0xCBF29CE484222325ull ^ length;
  length = std::min(length, kMostBytes);
  size_t i = 0;
  for (; i + 8 <= length; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, begin + i, 8);
    sum = (sum ^ word) * 0x100000001B3ull;
    sum ^= sum >> 29;
  }
  for (; i < length; ++i) {
    sum = (sum ^ static_cast<unsigned char>(begin[i])) * 0x100000001B3ull;
  }
  return sum;
}

// Program memory that committed work will write: a change of it before a later
// command buffer runs may come from that work and not from the host.
struct PendingWrites {
  std::mutex mutex;
  std::multimap<const char*, size_t> ranges;

  bool overlaps(const char* begin, size_t length) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
      return range.first < begin + length && begin < range.first + range.second;
    });
  }
};

PendingWrites& pending_writes() {
  static auto* instance = new PendingWrites;
  return *instance;
}

} // namespace

void AccessLog::add(SimulatedBuffer* buffer, size_t begin, size_t end, bool writes) {
  if (!buffer || !buffer->_hostView) {
    return;
  }
  const size_t shift = static_cast<size_t>(buffer->_hostStart - buffer->_hostView->address());
  const ViewAccess access{shift + begin, shift + end, writes, nullptr};
  const size_t first = std::max(marked_, entries_.size() > kLookBack ? entries_.size() - kLookBack : 0);
  for (size_t i = first; i < entries_.size(); ++i) {
    const auto& known = entries_[i];
    if (known.view == buffer->_hostView && known.access.begin == access.begin && known.access.end == access.end &&
        known.access.writes == writes) {
      // It is in use for as long as the last command that uses it.
      std::rotate(entries_.begin() + static_cast<std::ptrdiff_t>(i),
                  entries_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  entries_.end());
      return;
    }
  }
  buffer->_hostView->set_name(describe_buffer(buffer));
  entries_.push_back({buffer->_hostView, access});
}

void AccessLog::add_bytes(SimulatedBuffer* buffer, size_t begin, size_t end, bool writes) {
  if (!settings().hazards || !buffer->_isHostMemory || begin == end) {
    return;
  }
  bytes_.push_back({buffer->_pointer + begin, end - begin, writes, 0, describe_buffer(buffer)});
}

void AccessLog::start(const void* user, const std::string& user_name) {
  user_name_ = user_name;
  started_ = true;
  std::map<HostView*, std::vector<ViewAccess>> by_view;
  for (auto& entry : entries_) {
    entry.access.user = user;
    by_view[entry.view.get()].push_back(entry.access);
  }
  for (const auto& [view, accesses] : by_view) {
    view->add(accesses, user_name);
  }
  if (bytes_.empty()) {
    return;
  }
  auto& pending = pending_writes();
  const std::lock_guard<std::mutex> lock(pending.mutex);
  for (auto& bytes : bytes_) {
    // Written by this or by earlier work: a change of it does not show a hazard.
    const bool known = !pending.overlaps(bytes.begin, bytes.length);
    if (bytes.writes) {
      pending.ranges.emplace(bytes.begin, bytes.length);
    }
    bytes.sum = known ? sum_of(bytes.begin, bytes.length) : 0;
  }
}

void AccessLog::check_bytes() {
  for (const auto& bytes : bytes_) {
    if (bytes.sum && bytes.sum != sum_of(bytes.begin, bytes.length)) {
      violation(
          "-[SimulatedCommandBuffer commit]: the host changed the memory that "
          "the buffer %s was made of without a copy while %s, committed and not "
          "completed, %s it",
          bytes.buffer_name.c_str(),
          user_name_.c_str(),
          bytes.writes ? "writes" : "reads");
    }
  }
}

void AccessLog::finish(size_t count) {
  if (!started_) {
    return;
  }
  for (; finished_ < count; ++finished_) {
    entries_[finished_].view->remove(entries_[finished_].access);
  }
  if (finished_ == entries_.size() && !bytes_.empty()) {
    auto& pending = pending_writes();
    const std::lock_guard<std::mutex> lock(pending.mutex);
    for (const auto& bytes : bytes_) {
      if (bytes.writes) {
        const auto range = pending.ranges.equal_range(bytes.begin);
        for (auto it = range.first; it != range.second; ++it) {
          if (it->second == bytes.length) {
            pending.ranges.erase(it);
            break;
          }
        }
      }
    }
    bytes_.clear();
  }
}

} // namespace mps_simulator
