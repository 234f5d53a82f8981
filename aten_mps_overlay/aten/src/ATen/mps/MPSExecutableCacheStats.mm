#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <c10/core/ScalarType.h>
#include <c10/util/env.h>
// names that older SDKs lack
#if __has_include(<ATen/native/mps/MPSGraphSonomaOps.h>)
#include <ATen/native/mps/MPSGraphSonomaOps.h>
#endif

#include <algorithm>
#include <utility>

namespace at::mps {

std::atomic<bool> MPSExecutableCache::enabled{c10::utils::check_env("PYTORCH_MPS_EXECUTABLE_CACHE").value_or(false)};

std::string nameOf(MPSDataType type) {
  // The enumeration of an older SDK lacks bfloat16.
  static constexpr std::pair<uint32_t, c10::ScalarType> types[] = {
      {MPSDataTypeFloat32, c10::kFloat},
      {MPSDataTypeFloat16, c10::kHalf},
      {MPSDataTypeBFloat16, c10::kBFloat16},
      {MPSDataTypeComplexFloat32, c10::kComplexFloat},
      {MPSDataTypeComplexFloat16, c10::kComplexHalf},
      {MPSDataTypeInt64, c10::kLong},
      {MPSDataTypeInt32, c10::kInt},
      {MPSDataTypeInt16, c10::kShort},
      {MPSDataTypeInt8, c10::kChar},
      {MPSDataTypeUInt8, c10::kByte},
      {MPSDataTypeUInt16, c10::kUInt16},
      {MPSDataTypeUInt32, c10::kUInt32},
      {MPSDataTypeUInt64, c10::kUInt64},
      {MPSDataTypeBool, c10::kBool},
  };
  for (const auto& [graph_type, scalar_type] : types) {
    if (graph_type == static_cast<uint32_t>(type)) {
      return std::string(c10::getDtypeNames(scalar_type).first);
    }
  }
  return "type " + std::to_string(static_cast<uint32_t>(type));
}

std::string MPSExecutableCache::keyOf(MPSGraph* graph) const {
  const auto known = keys_.find(graph);
  return known == keys_.end() ? "" : known->second;
}

void MPSExecutableCache::countHit(Entry& entry) {
  entry.hits++;
  entry.counts->hits++;
  entry.last_use = ++uses_;
}

void MPSExecutableCache::add(Entry entry) {
  auto& counts = counts_[keyOf(entry.graph.get())];
  counts.misses++;
  counts.entries++;
  entry.counts = &counts;
  entry.last_use = ++uses_;
  MPSGraph* graph = entry.graph.get();
  entries_.emplace(graph, std::move(entry));
  dropBeyond(limit_);
}

void MPSExecutableCache::dropBeyond(size_t limit) {
  while (entries_.size() > limit) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a.second.last_use < b.second.last_use;
    });
    oldest->second.counts->evictions++;
    oldest->second.counts->entries--;
    entries_.erase(oldest);
  }
}

void MPSExecutableCache::noteKey(MPSGraph* graph, const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  keys_[graph] = key;
}

void MPSExecutableCache::forgetGraphs() {
  std::lock_guard<std::mutex> lock(mutex_);
  dropBeyond(0);
  keys_.clear();
}

c10::impl::GenericDict MPSExecutableCache::describe() {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto new_dict = [] { return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get()); };
  auto counts = new_dict();
  for (const auto& [key, of_key] : counts_) {
    auto described = new_dict();
    described.insert("hits", of_key.hits);
    described.insert("misses", of_key.misses);
    described.insert("evictions", of_key.evictions);
    described.insert("entries", of_key.entries);
    counts.insert(key, described);
  }
  std::vector<const Entry*> sorted;
  for (const auto& [graph, entry] : entries_) {
    sorted.push_back(&entry);
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->last_use > b->last_use; });
  c10::impl::GenericList entries(c10::AnyType::get());
  for (const auto* entry : sorted) {
    c10::impl::GenericList inputs(c10::AnyType::get());
    // in the order in which the graph was given its placeholders
    for (MPSGraphTensor* placeholder in entry->graph.get().placeholderTensors) {
      size_t i = 0;
      for (MPSGraphTensor* feed in entry->feeds.get()) {
        const auto& type = entry->types[i++];
        if (feed == placeholder) {
          inputs.push_back(c10::ivalue::Tuple::create(c10::IValue(type.shape), nameOf(type.dtype)));
        }
      }
    }
    auto described = new_dict();
    described.insert("key", keyOf(entry->graph.get()));
    described.insert("inputs", inputs);
    described.insert("hits", entry->hits);
    entries.push_back(described);
  }
  auto result = new_dict();
  result.insert("limit", static_cast<int64_t>(limit_));
  result.insert("counts", counts);
  result.insert("entries", entries);
  return result;
}

void MPSExecutableCache::clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  entries_.clear();
  counts_.clear();
}

void MPSExecutableCache::setLimit(size_t limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  limit_ = limit;
  dropBeyond(limit);
}

c10::impl::GenericDict describeExecutableCache() {
  @autoreleasepool {
    return MPSExecutableCache::getInstance().describe();
  }
}

void clearExecutableCache() {
  @autoreleasepool {
    MPSExecutableCache::getInstance().clear();
  }
}

void setExecutableCacheLimit(size_t limit) {
  @autoreleasepool {
    MPSExecutableCache::getInstance().setLimit(limit);
  }
}

void setExecutableCacheEnabled(bool enabled) {
  MPSExecutableCache::enabled = enabled;
}

bool isExecutableCacheEnabled() {
  return MPSExecutableCache::enabled;
}

} // namespace at::mps
