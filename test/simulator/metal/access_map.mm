#import "metal/access_map.h"

#include <algorithm>

namespace mps_simulator {

namespace {

// Both limit the map's memory. An entry that is dropped is no longer checked.
constexpr size_t kMostStretches = 64 * 1024;
constexpr size_t kMostReaders = 64;

} // namespace

void AccessMap::split_at(const char* address) {
  auto after = stretches_.upper_bound(address);
  if (after == stretches_.begin()) {
    return;
  }
  const auto found = std::prev(after);
  if (found->first == address || found->second.end <= address) {
    return;
  }
  Stretch rest = found->second;
  found->second.end = address;
  stretches_.emplace_hint(after, address, std::move(rest));
}

void AccessMap::add(const GpuAccess& access, const Accessor& accessor, IsOrdered is_ordered, OnConflict on_conflict) {
  if (access.begin >= access.end) {
    return;
  }
  if (stretches_.size() > kMostStretches) {
    stretches_.clear();
  }
  split_at(access.begin);
  split_at(access.end);
  const auto first = stretches_.lower_bound(access.begin);
  const auto last = stretches_.lower_bound(access.end);
  for (auto stretch = first; stretch != last; ++stretch) {
    const auto& known = stretch->second;
    if (known.written && !is_ordered(known.writer)) {
      on_conflict(known.writer, true);
    }
    if (access.writes) {
      for (const auto& reader : known.readers) {
        if (!is_ordered(reader)) {
          on_conflict(reader, false);
        }
      }
    }
  }
  if (access.writes) {
    stretches_.erase(first, last);
    stretches_.emplace(access.begin, Stretch{access.end, true, accessor, {}});
    return;
  }
  const char* gap = access.begin;
  for (auto stretch = first; stretch != last; ++stretch) {
    if (gap < stretch->first) {
      stretches_.emplace_hint(stretch, gap, Stretch{stretch->first, false, {}, {accessor}});
    }
    auto& readers = stretch->second.readers;
    // A pass that must wait for this reader also waits for those before it.
    readers.erase(std::remove_if(readers.begin(), readers.end(), is_ordered), readers.end());
    if (readers.size() >= kMostReaders) {
      readers.erase(readers.begin());
    }
    readers.push_back(accessor);
    gap = stretch->second.end;
  }
  if (gap < access.end) {
    stretches_.emplace(gap, Stretch{access.end, false, {}, {accessor}});
  }
}

void AccessMap::forget(const char* begin, const char* end) {
  split_at(begin);
  split_at(end);
  stretches_.erase(stretches_.lower_bound(begin), stretches_.lower_bound(end));
}

} // namespace mps_simulator
