#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/MPSGraphSonomaOps.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>

#include <algorithm>

namespace at::mps {

static constexpr size_t kDefaultLimit = 1024;

MPSExecutableCache& MPSExecutableCache::getInstance() {
  // never destroyed: graphs may outlive all statics
  static auto* cache = new MPSExecutableCache();
  return *cache;
}

MPSExecutableCache::MPSExecutableCache()
    : enabled(c10::utils::check_env("PYTORCH_MPS_EXECUTABLE_CACHE").value_or(false)),
      dropped_([NSMutableArray new]),
      limit_(kDefaultLimit) {}

static std::vector<uint64_t> makeKey(MPSGraph* graph, NSDictionary* feeds, NSDictionary* targets) {
  std::vector<std::vector<uint64_t>> parts;
  for (MPSGraphTensor* tensor in feeds) {
    MPSGraphTensorData* data = feeds[tensor];
    auto& part = parts.emplace_back();
    part.push_back(reinterpret_cast<uint64_t>(tensor));
    part.push_back(data.dataType);
    for (NSNumber* length in data.shape) {
      part.push_back(length.unsignedLongLongValue);
    }
  }
  for (MPSGraphTensor* tensor in targets) {
    parts.push_back({reinterpret_cast<uint64_t>(tensor)});
  }
  // a dictionary has no order that could be relied on, a key needs one
  std::sort(parts.begin(), parts.end());
  std::vector<uint64_t> key{reinterpret_cast<uint64_t>(graph)};
  for (const auto& part : parts) {
    key.push_back(part.size());
    key.insert(key.end(), part.begin(), part.end());
  }
  return key;
}

c10::ScalarType scalarTypeOf(MPSDataType type) {
  // the enumeration of an older SDK lacks bfloat16
  switch (static_cast<uint32_t>(type)) {
    case MPSDataTypeFloat32:
      return c10::kFloat;
    case MPSDataTypeFloat16:
      return c10::kHalf;
    case MPSDataTypeBFloat16:
      return c10::kBFloat16;
    case MPSDataTypeComplexFloat32:
      return c10::kComplexFloat;
    case MPSDataTypeComplexFloat16:
      return c10::kComplexHalf;
    case MPSDataTypeInt64:
      return c10::kLong;
    case MPSDataTypeInt32:
      return c10::kInt;
    case MPSDataTypeInt16:
      return c10::kShort;
    case MPSDataTypeInt8:
      return c10::kChar;
    case MPSDataTypeUInt8:
      return c10::kByte;
    case MPSDataTypeUInt16:
      return c10::kUInt16;
    case MPSDataTypeUInt32:
      return c10::kUInt32;
    case MPSDataTypeUInt64:
      return c10::kUInt64;
    case MPSDataTypeBool:
      return c10::kBool;
    default:
      return c10::ScalarType::Undefined;
  }
}

/// Reads the feeds back from a key, in the order in which the graph was given its placeholders.
static std::vector<MPSExecutableCacheEntry::Tensor> inputsOf(MPSGraph* graph, const std::vector<uint64_t>& key) {
  std::unordered_map<uint64_t, MPSExecutableCacheEntry::Tensor> feeds;
  for (size_t at = 1; at < key.size(); at += key[at] + 1) {
    // a result is its tensor alone
    if (key[at] > 1) {
      const auto begin = key.begin() + static_cast<ptrdiff_t>(at);
      const auto end = begin + static_cast<ptrdiff_t>(key[at]) + 1;
      feeds[begin[1]] = {{begin + 3, end}, scalarTypeOf(static_cast<MPSDataType>(begin[2]))};
    }
  }
  std::vector<MPSExecutableCacheEntry::Tensor> inputs;
  for (MPSGraphTensor* tensor in graph.placeholderTensors) {
    const auto feed = feeds.find(reinterpret_cast<uint64_t>(tensor));
    if (feed != feeds.end()) {
      inputs.push_back(feed->second);
    }
  }
  return inputs;
}

static MPSGraphExecutable* compile(MPSGraph* graph,
                                   NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* feeds,
                                   NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* targets,
                                   id<MTLDevice> device,
                                   MPSGraphCompilationDescriptor* descriptor) {
  NSMutableDictionary<MPSGraphTensor*, MPSGraphShapedType*>* types =
      [NSMutableDictionary dictionaryWithCapacity:feeds.count];
  for (MPSGraphTensor* tensor in feeds) {
    MPSGraphTensorData* data = feeds[tensor];
    types[tensor] = [[[MPSGraphShapedType alloc] initWithShape:data.shape dataType:data.dataType] autorelease];
  }
  return [graph compileWithDevice:[MPSGraphDevice deviceWithMTLDevice:device]
                            feeds:types
                    targetTensors:targets.allKeys
                 targetOperations:nil
            compilationDescriptor:descriptor];
}

MPSExecutableRun MPSExecutableCache::get(MPSGraph* graph,
                                         NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* feeds,
                                         NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* targets,
                                         id<MTLDevice> device,
                                         MPSGraphCompilationDescriptor* descriptor) {
  MPSExecutableRun run;
  auto key = makeKey(graph, feeds, targets);
  {
    // also while compiling: of two threads that miss, one compiles
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = by_key_.find(key);
    if (known != by_key_.end()) {
      counts_.hits++;
      known->second->counts->hits++;
      known->second->hits++;
      entries_.splice(entries_.begin(), entries_, known->second);
      run.executable = [[known->second->executable retain] autorelease];
    } else {
      auto& counts = counts_by_key_[keyOf(graph)];
      counts_.misses++;
      counts.misses++;
      run.executable = compile(graph, feeds, targets, device, descriptor);
      if (!run.executable) {
        return run;
      }
      counts.entries++;
      entries_.push_front({key, [graph retain], [run.executable retain], &counts, 0});
      by_key_.emplace(std::move(key), entries_.begin());
      dropBeyond(limit_);
    }
  }
  NSMutableArray<MPSGraphTensorData*>* inputs = [NSMutableArray arrayWithCapacity:feeds.count];
  for (MPSGraphTensor* tensor in run.executable.feedTensors) {
    [inputs addObject:feeds[tensor]];
  }
  NSMutableArray<MPSGraphTensorData*>* results = [NSMutableArray arrayWithCapacity:targets.count];
  for (MPSGraphTensor* tensor in run.executable.targetTensors) {
    [results addObject:targets[tensor]];
  }
  run.inputs = inputs;
  run.results = results;
  return run;
}

void MPSExecutableCache::dropBeyond(size_t limit) {
  while (entries_.size() > limit) {
    auto& last = entries_.back();
    counts_.evictions++;
    last.counts->evictions++;
    last.counts->entries--;
    [dropped_ addObject:last.executable];
    [last.executable release];
    [last.graph release];
    by_key_.erase(last.key);
    entries_.pop_back();
  }
}

void MPSExecutableCache::keepDropped(id<MTLCommandBuffer> command_buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (dropped_.count == 0) {
    return;
  }
  NSArray* kept = dropped_;
  [command_buffer addCompletedHandler:^(id<MTLCommandBuffer>) {
    [kept self]; // the block holds them until here
  }];
  [dropped_ release];
  dropped_ = [NSMutableArray new];
}

MPSExecutableCacheStats MPSExecutableCache::stats() {
  std::lock_guard<std::mutex> lock(mutex_);
  auto stats = counts_;
  stats.entries = entries_.size();
  stats.limit = limit_;
  return stats;
}

std::map<std::string, MPSExecutableCacheStats> MPSExecutableCache::statsByKey() {
  std::lock_guard<std::mutex> lock(mutex_);
  return counts_by_key_;
}

std::vector<MPSExecutableCacheEntry> MPSExecutableCache::entries() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<MPSExecutableCacheEntry> entries;
  entries.reserve(entries_.size());
  for (const auto& entry : entries_) {
    entries.push_back({keyOf(entry.graph), inputsOf(entry.graph, entry.key), entry.hits});
  }
  return entries;
}

void MPSExecutableCache::noteKey(MPSGraph* graph, const std::string& key) {
  std::lock_guard<std::mutex> lock(keys_mutex_);
  keys_[graph] = key;
}

std::string MPSExecutableCache::keyOf(MPSGraph* graph) {
  std::lock_guard<std::mutex> lock(keys_mutex_);
  const auto known = keys_.find(graph);
  return known == keys_.end() ? std::string() : known->second;
}

void MPSExecutableCache::clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  dropBeyond(0);
  counts_ = {};
  counts_by_key_.clear();
}

void MPSExecutableCache::setLimit(size_t limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  limit_ = limit;
  dropBeyond(limit);
}

bool encodeCachedExecutable(MPSStream* stream, MPSGraph* graph, NSDictionary* feeds, NSDictionary* results) {
  auto& cache = MPSExecutableCache::getInstance();
  if (!cache.enabled) {
    return false;
  }
  @autoreleasepool {
    const auto run = cache.get(graph, feeds, results, stream->device(), stream->compilationDescriptor());
    if (!run.executable) {
      return false;
    }
    [run.executable encodeToCommandBuffer:stream->commandBuffer()
                              inputsArray:run.inputs
                             resultsArray:run.results
                      executionDescriptor:nil];
    cache.keepDropped(stream->commandBuffer());
  }
  // an MPSGraph commits by itself every now and then, so that the GPU has something to do; an executable does not
  constexpr int runs_per_commit = 16;
  static int runs = 0;
  if (++runs % runs_per_commit == 0) {
    stream->synchronize(SyncType::COMMIT);
  }
  return true;
}

MPSExecutableCacheStats executableCacheStats() {
  return MPSExecutableCache::getInstance().stats();
}

std::map<std::string, MPSExecutableCacheStats> executableCacheStatsByKey() {
  return MPSExecutableCache::getInstance().statsByKey();
}

std::vector<MPSExecutableCacheEntry> executableCacheEntries() {
  @autoreleasepool {
    return MPSExecutableCache::getInstance().entries();
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
  MPSExecutableCache::getInstance().enabled = enabled;
}

bool isExecutableCacheEnabled() {
  return MPSExecutableCache::getInstance().enabled;
}

} // namespace at::mps
