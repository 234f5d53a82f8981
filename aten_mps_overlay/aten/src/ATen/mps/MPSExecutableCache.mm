#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSStream.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/env.h>
// names that older SDKs lack
#if __has_include(<ATen/native/mps/MPSGraphSonomaOps.h>)
#include <ATen/native/mps/MPSGraphSonomaOps.h>
#endif

#include <algorithm>

// not in Apple's headers; MPSGraphExecutionDescriptor's counterpart
@interface MPSGraphExecutableExecutionDescriptor ()
@property(readwrite, atomic) BOOL enableCommitAndContinue;
@end

namespace at::mps {

static constexpr size_t kDefaultLimit = 1024;

MPSExecutableCache& MPSExecutableCache::getInstance() {
  // never destroyed: graphs may outlive all statics
  static auto* cache = new MPSExecutableCache();
  return *cache;
}

MPSExecutableCache::MPSExecutableCache()
    : enabled(c10::utils::check_env("PYTORCH_MPS_EXECUTABLE_CACHE").value_or(false)), limit_(kDefaultLimit) {}

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

// In the order in which the graph was given its placeholders.
static std::vector<MPSExecutableCacheEntry::Tensor> inputsOf(
    MPSGraph* graph,
    NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* feeds) {
  std::vector<MPSExecutableCacheEntry::Tensor> inputs;
  for (MPSGraphTensor* tensor in graph.placeholderTensors) {
    if (MPSGraphTensorData* data = feeds[tensor]) {
      auto& input = inputs.emplace_back();
      input.dtype = scalarTypeOf(data.dataType);
      for (NSNumber* size in data.shape) {
        input.shape.push_back(size.longLongValue);
      }
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
  MPSGraphExecutable* executable = [graph compileWithDevice:[MPSGraphDevice deviceWithMTLDevice:device]
                                                      feeds:types
                                              targetTensors:targets.allKeys
                                           targetOperations:nil
                                      compilationDescriptor:descriptor];
  executable.options = MPSGraphOptionsDefault;
  return executable;
}

MPSGraphExecutable* MPSExecutableCache::lookUp(const Key& key) {
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) {
    return nil;
  }
  counts_.hits++;
  known->second->counts->hits++;
  known->second->hits++;
  entries_.splice(entries_.begin(), entries_, known->second);
  return [[known->second->executable retain] autorelease];
}

// Those of `data` in the order of `tensors`, or nil: an executable that was given other ones would read or write beside
// them.
static NSArray<MPSGraphTensorData*>* inOrder(NSArray<MPSGraphTensor*>* tensors,
                                             NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* data) {
  if (tensors.count != data.count || [NSSet setWithArray:tensors ? tensors : @[]].count != data.count) {
    return nil;
  }
  NSMutableArray<MPSGraphTensorData*>* ordered = [NSMutableArray arrayWithCapacity:data.count];
  for (MPSGraphTensor* tensor in tensors) {
    MPSGraphTensorData* one = data[tensor];
    if (!one) {
      return nil;
    }
    [ordered addObject:one];
  }
  return ordered;
}

MPSExecutableRun MPSExecutableCache::get(MPSGraph* graph,
                                         NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* feeds,
                                         NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* targets,
                                         id<MTLDevice> device,
                                         MPSGraphCompilationDescriptor* descriptor) {
  MPSExecutableRun run;
  const auto key = makeKey(graph, feeds, targets);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    // of two threads that miss, one compiles; and no graph is compiled by two at once
    compiled_.wait(lock, [&] {
      run.executable = lookUp(key);
      return run.executable || compiling_.count(graph) == 0;
    });
    if (!run.executable) {
      counts_.misses++;
      counts_by_key_[keyOf(graph)].misses++;
      compiling_.insert(graph);
    }
  }
  if (!run.executable) {
    const auto done = c10::make_scope_exit([&] {
      std::lock_guard<std::mutex> lock(mutex_);
      compiling_.erase(graph);
      compiled_.notify_all();
    });
    run.executable = compile(graph, feeds, targets, device, descriptor);
    if (!run.executable) {
      run.problem = "an MPSGraph could not be compiled to an executable";
      return run;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    auto& counts = counts_by_key_[keyOf(graph)];
    counts.entries++;
    entries_.push_front({key, [graph retain], [run.executable retain], &counts, inputsOf(graph, feeds)});
    by_key_.emplace(key, entries_.begin());
    dropBeyond(limit_);
  }
  run.inputs = inOrder(run.executable.feedTensors, feeds);
  run.results = inOrder(run.executable.targetTensors, targets);
  if (!run.inputs || !run.results) {
    run.problem = "the executable of an MPSGraph has other feeds and results (" +
        std::to_string([run.executable feedTensors].count) + " and " +
        std::to_string([run.executable targetTensors].count) + ") than the graph run had (" +
        std::to_string(feeds.count) + " and " + std::to_string(targets.count) + ")";
    run.executable = nil;
  }
  return run;
}

void MPSExecutableCache::dropBeyond(size_t limit) {
  while (entries_.size() > limit) {
    auto& last = entries_.back();
    counts_.evictions++;
    last.counts->evictions++;
    last.counts->entries--;
    // graphs and command buffers that need it have references of their own
    [last.executable release];
    [last.graph release];
    by_key_.erase(last.key);
    entries_.pop_back();
  }
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
    entries.push_back({keyOf(entry.graph), entry.inputs, entry.hits});
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

void MPSExecutableCache::forgetGraphs() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    dropBeyond(0);
  }
  std::lock_guard<std::mutex> lock(keys_mutex_);
  keys_.clear();
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

bool executablesNeverCommit() {
  return [MPSGraphExecutableExecutionDescriptor instancesRespondToSelector:@selector(setEnableCommitAndContinue:)];
}

MPSGraphExecutableExecutionDescriptor* executableExecutionDescriptor() {
  static MPSGraphExecutableExecutionDescriptor* descriptor = [] {
    auto* made = [MPSGraphExecutableExecutionDescriptor new];
    if (executablesNeverCommit()) {
      made.enableCommitAndContinue = NO;
    }
    return made;
  }();
  return descriptor;
}

void encodeExecutable(MPSGraphExecutable* executable,
                      MPSCommandBuffer* command_buffer,
                      NSArray<MPSGraphTensorData*>* inputs,
                      NSArray<MPSGraphTensorData*>* results) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  [executable encodeToCommandBuffer:command_buffer
                        inputsArray:inputs
                       resultsArray:results
                executionDescriptor:executableExecutionDescriptor()];
}

bool encodeCachedExecutable(MPSStream* stream,
                            MPSCommandBuffer* command_buffer,
                            MPSGraph* graph,
                            NSDictionary* feeds,
                            NSDictionary* results) {
  auto& cache = MPSExecutableCache::getInstance();
  if (!cache.enabled) {
    return false;
  }
  const auto run = cache.get(graph, feeds, results, stream->device(), stream->compilationDescriptor());
  if (!run.executable) {
    return false;
  }
  encodeExecutable(run.executable, command_buffer, run.inputs, run.results);
  stream->keepUntilDone(run.executable);
  // an MPSGraph commits by itself every now and then, so that the GPU has something to do; an executable must not
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
