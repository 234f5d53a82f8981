#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSStream.h>
#include <c10/util/SmallVector.h>

#include <mutex>

// Not in Apple's headers; the counterpart of MPSGraphExecutionDescriptor's property.
@interface MPSGraphExecutableExecutionDescriptor ()
@property(readwrite, atomic) BOOL enableCommitAndContinue;
@end

namespace at::mps {

MPSExecutableCache& MPSExecutableCache::getInstance() {
  // The cache is never destroyed: graphs may outlive all statics.
  static auto* cache = new MPSExecutableCache();
  return *cache;
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

// An executable that takes a tensor twice, or another one, would read or write elsewhere.
static bool areDistinct(NSArray<MPSGraphTensor*>* tensors) {
  return [NSSet setWithArray:tensors].count == tensors.count;
}

static std::vector<int64_t> lengthsOf(MPSShape* shape) {
  std::vector<int64_t> lengths;
  for (NSNumber* length in shape) {
    lengths.push_back(length.longLongValue);
  }
  return lengths;
}

// The data of the run in the executable's order if the entry is for feeds of these types. The targets' types follow
// from them.
MPSGraphRunStep MPSExecutableCache::stepOf(const Entry& entry, NSDictionary* feeds, NSDictionary* targets) {
  if (feeds.count != entry.feeds.get().count || targets.count != entry.targets.get().count) {
    return {};
  }
  c10::SmallVector<MPSGraphTensorData*, 8> inputs;
  for (MPSGraphTensor* tensor in entry.feeds.get()) {
    MPSGraphTensorData* data = feeds[tensor];
    const Type& type = entry.types[inputs.size()];
    if (!data || data.dataType != type.dtype || (!type.is_fixed && lengthsOf(data.shape) != type.shape)) {
      return {};
    }
    inputs.push_back(data);
  }
  c10::SmallVector<MPSGraphTensorData*, 4> results;
  for (MPSGraphTensor* tensor in entry.targets.get()) {
    results.push_back(targets[tensor]);
    if (!results.back()) {
      return {};
    }
  }
  return {entry.executable,
          [NSArray arrayWithObjects:inputs.data() count:inputs.size()],
          [NSArray arrayWithObjects:results.data() count:results.size()]};
}

MPSExecutableRun MPSExecutableCache::get(MPSGraph* graph,
                                         NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* feeds,
                                         NSDictionary<MPSGraphTensor*, MPSGraphTensorData*>* targets,
                                         id<MTLDevice> device,
                                         MPSGraphCompilationDescriptor* descriptor) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [first, last] = entries_.equal_range(graph);
  for (auto known = first; known != last; ++known) {
    if (auto step = stepOf(known->second, feeds, targets); step.executable.get()) {
      countHit(known->second);
      return {std::move(step)};
    }
  }
  Entry entry{graph, compile(graph, feeds, targets, device, descriptor)};
  if (!entry.executable.get()) {
    return {{}, "an MPSGraph could not be compiled to an executable"};
  }
  entry.feeds = entry.executable.get().feedTensors;
  entry.targets = entry.executable.get().targetTensors;
  for (MPSGraphTensor* tensor in entry.feeds.get()) {
    MPSGraphTensorData* data = feeds[tensor];
    auto shape = lengthsOf(data.shape);
    const bool is_fixed = tensor.shape && lengthsOf(tensor.shape) == shape;
    entry.types.push_back({data.dataType, std::move(shape), is_fixed});
  }
  auto step = stepOf(entry, feeds, targets);
  if (!step.executable.get() || !areDistinct(entry.feeds.get()) || !areDistinct(entry.targets.get())) {
    return {{}, "the executable of an MPSGraph has other feeds and results than the graph run had"};
  }
  add(std::move(entry)); // which may drop entries: recordings and command buffers have references of their own
  return {std::move(step)};
}

bool executablesNeverCommit() {
  return [MPSGraphExecutableExecutionDescriptor instancesRespondToSelector:@selector(setEnableCommitAndContinue:)];
}

void encodeExecutable(const MPSGraphRunStep& run, MPSCommandBuffer* command_buffer) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  static MPSGraphExecutableExecutionDescriptor* descriptor = [] {
    auto* made = [MPSGraphExecutableExecutionDescriptor new];
    if (executablesNeverCommit()) {
      made.enableCommitAndContinue = NO;
    }
    return made;
  }();
  [run.executable.get() encodeToCommandBuffer:command_buffer
                                  inputsArray:run.inputs.get()
                                 resultsArray:run.results.get()
                          executionDescriptor:descriptor];
}

MPSExecutableRun encodeAsExecutable(MPSStream* stream, MPSGraph* graph, NSDictionary* feeds, NSDictionary* targets) {
  @autoreleasepool {
    auto run =
        MPSExecutableCache::getInstance().get(graph, feeds, targets, stream->device(), stream->compilationDescriptor());
    if (MPSGraphExecutable* executable = run.step.executable.get()) {
      encodeExecutable(run.step, stream->recordedCommandBuffer());
      [stream->recordedCommandBuffer() addCompletedHandler:^(id<MTLCommandBuffer>) {
        (void)executable; // The cache and the recording may drop it earlier.
      }];
      // MPSGraph commits now and then by itself, so that the GPU has something to do. Executables must not.
      stream->commitAfter(2);
    }
    return run;
  }
}

} // namespace at::mps
