// Makes stretches of graph runs one executable each: a graph that calls the executables of the runs.
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSDevice.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSGraphCallOps.h>
#include <ATen/mps/MPSLinkedReplay.h>
#include <ATen/mps/MPSStretch.h>
#include <c10/util/accumulate.h>
#include <c10/util/env.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <unordered_map>

namespace at::mps {

namespace {

using Types = NSArray<MPSGraphShapedType*>*;

MPSShape* toShape(const std::vector<int64_t>& sizes) {
  NSMutableArray<NSNumber*>* shape = [NSMutableArray arrayWithCapacity:sizes.size()];
  for (const int64_t size : sizes) {
    [shape addObject:@(size)];
  }
  return shape;
}

// Nothing if a size is not known.
std::optional<std::vector<int64_t>> sizesOf(MPSGraphShapedType* type) {
  if (!type.shape) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes;
  for (NSNumber* size in type.shape) {
    sizes.push_back(size.longLongValue);
    if (sizes.back() < 0) {
      return std::nullopt;
    }
  }
  return sizes;
}

// Asks executables what they give; many steps have the same one.
class ResultTypes {
 public:
  ResultTypes(id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor)
      : device_([MPSGraphDevice deviceWithMTLDevice:device]), descriptor_(descriptor) {}

  /// Nil if a shape is not known.
  Types get(const MPSGraphRunStep& run) {
    MPSGraphExecutable* executable = run.executable.get();
    const auto [position, is_new] = known_.try_emplace(executable);
    if (is_new) {
      position->second = ask(executable, run.inputs.get());
    }
    return position->second.get();
  }

 private:
  Types ask(MPSGraphExecutable* executable, NSArray<MPSGraphTensorData*>* inputs) {
    NSMutableArray<MPSGraphType*>* input_types = [NSMutableArray arrayWithCapacity:inputs.count];
    for (MPSGraphTensorData* data in inputs) {
      [input_types addObject:[[[MPSGraphShapedType alloc] initWithShape:data.shape
                                                               dataType:data.dataType] autorelease]];
    }
    Types types = [executable getOutputTypesWithDevice:device_
                                            inputTypes:input_types
                                 compilationDescriptor:descriptor_];
    if (types.count != [executable targetTensors].count) {
      return nil;
    }
    for (MPSGraphShapedType* type in types) {
      if (!sizesOf(type)) {
        return nil;
      }
    }
    return types;
  }

  MPSGraphDevice* const device_;
  MPSGraphCompilationDescriptor* const descriptor_;
  std::unordered_map<const void*, MPSRetained<Types>> known_;
};

bool findLocations(NSArray<MPSGraphTensorData*>* all,
                   const MPSTensorLocations& locations,
                   std::vector<MPSTensorLocation>& found) {
  for (MPSGraphTensorData* data in all) {
    const auto known = locations.find(data);
    if (known == locations.end() || known->second.itemsize == 0) {
      return false;
    }
    found.push_back(known->second);
  }
  return true;
}

std::optional<MPSLinkCandidate> makeCandidate(const MPSGraphRunStep& run, size_t step, ResultTypes& types) {
  MPSLinkCandidate candidate;
  candidate.step = step;
  if (!run.locations || !findLocations(run.inputs.get(), *run.locations, candidate.inputs) ||
      !findLocations(run.results.get(), *run.locations, candidate.results)) {
    return std::nullopt;
  }
  Types result_types = types.get(run);
  if (!result_types) {
    return std::nullopt;
  }
  for (const auto i : c10::irange(candidate.results.size())) {
    MPSGraphShapedType* type = result_types[i];
    const bool is_converted = type.dataType != candidate.results[i].type;
    candidate.values.push_back(is_converted ? std::nullopt : sizesOf(type));
  }
  return candidate;
}

// What each kind of step does to memory. Of kernels it is known what they have bound, not what they do with it.
class AccessCollector {
 public:
  MPSStepAccesses operator()(const MPSKernelStep& kernel) {
    MPSStepAccesses accesses;
    for (const auto& binding : kernel.bindings) {
      if (!binding.holds_bytes && binding.buffer.get()) {
        add(accesses, binding.buffer.get(), binding.offset, [binding.buffer.get() length], false);
      }
    }
    for (const auto& use : kernel.resources) {
      if ([use.resource.get() conformsToProtocol:@protocol(MTLBuffer)]) {
        id<MTLBuffer> buffer = (id<MTLBuffer>)use.resource.get();
        add(accesses, buffer, 0, buffer.length, false);
      } else {
        accesses.is_unknown = true;
      }
    }
    if (kernel.indirect_buffer.get()) {
      add(accesses, kernel.indirect_buffer.get(), 0, [kernel.indirect_buffer.get() length], false);
    }
    return accesses;
  }

  MPSStepAccesses operator()(const MPSGraphRunStep& run) {
    MPSStepAccesses accesses;
    std::vector<MPSTensorLocation> inputs, results;
    if (!run.locations || !findLocations(run.inputs.get(), *run.locations, inputs) ||
        !findLocations(run.results.get(), *run.locations, results)) {
      accesses.is_unknown = true;
      return accesses;
    }
    for (const auto& place : inputs) {
      accesses.all.push_back({{place.region, place.begin, endOf(place)}, false});
    }
    for (const auto& place : results) {
      if (isDense(place)) {
        accesses.all.push_back({{place.region, place.begin, endOf(place)}, true});
      }
    }
    return accesses;
  }

  MPSStepAccesses operator()(const MPSCopyStep& copy) {
    MPSStepAccesses accesses;
    add(accesses, copy.source.get(), copy.source_offset, copy.source_offset + copy.length, false);
    add(accesses, copy.destination.get(), copy.destination_offset, copy.destination_offset + copy.length, true);
    return accesses;
  }

  MPSStepAccesses operator()(const MPSFillStep& fill) {
    MPSStepAccesses accesses;
    add(accesses, fill.buffer.get(), fill.offset, fill.offset + fill.length, true);
    return accesses;
  }

  MPSStepAccesses operator()(const MPSEncodeStep&) {
    MPSStepAccesses accesses;
    accesses.is_unknown = true;
    return accesses;
  }

  MPSStepAccesses operator()(const MPSHostRefreshStep& refresh) {
    MPSStepAccesses accesses;
    add(accesses, refresh.destination.get(), refresh.offset, refresh.offset + refresh.length, true);
    return accesses;
  }

  MPSStepAccesses operator()(const MPSStatusStep& status) {
    MPSStepAccesses accesses;
    add(accesses, status.buffer.get(), status.offset, status.offset + sizeof(int32_t), false);
    return accesses;
  }

 private:
  static void add(MPSStepAccesses& accesses, id<MTLBuffer> buffer, size_t begin, size_t end, bool overwrites) {
    accesses.all.push_back({rangeOf(buffer, begin, end), overwrites});
  }
};

MPSGraphTensor* apply(MPSGraph* graph, MPSGraphTensor* tensor, const MPSViewStep& step) {
  switch (step.kind) {
    case MPSViewStep::Kind::RESHAPE:
      return [graph reshapeTensor:tensor withShape:toShape(step.numbers) name:nil];
    case MPSViewStep::Kind::TRANSPOSE:
      return [graph transposeTensor:tensor
                          dimension:static_cast<NSUInteger>(step.numbers[0])
                      withDimension:static_cast<NSUInteger>(step.numbers[1])
                               name:nil];
    case MPSViewStep::Kind::BROADCAST:
      return [graph broadcastTensor:tensor toShape:toShape(step.numbers) name:nil];
    case MPSViewStep::Kind::SLICE:
      return [graph sliceTensor:tensor
                         starts:toShape(step.numbers)
                           ends:toShape(step.ends)
                        strides:toShape(std::vector<int64_t>(step.ends.size(), 1))
                           name:nil];
  }
  return nil;
}

// Builds, compiles and finds again the executable of a stretch.
class Linker {
 public:
  Linker(const MPSStepOrder& steps, id<MTLDevice> device, MPSGraphCompilationDescriptor* descriptor, ResultTypes& types)
      : steps_(steps), device_(device), descriptor_(descriptor), types_(types) {}

  std::optional<MPSLinkedRun> link(const MPSStretch& stretch) {
    NSMutableArray<MPSGraphExecutable*>* parts = [NSMutableArray array];
    for (const auto& part : stretch.parts) {
      [parts addObject:runOf(part).executable.get()];
    }
    const auto made =
        MPSExecutableCache::getInstance().getLinked(describe(stretch), parts, [&] { return compile(stretch); });
    MPSLinkedRun linked;
    if (!made.executable || !bind(stretch, made, linked)) {
      TORCH_WARN_ONCE(
          "torch.mps graph capture: MPSGraph runs could not be linked (link=True), and are replayed one by one.");
      return std::nullopt;
    }
    std::unordered_map<size_t, const MPSStretchPart*> by_step;
    for (const auto& part : stretch.parts) {
      by_step[part.run->step] = &part;
    }
    for (const size_t step : stretch.steps) {
      const auto part = by_step.find(step);
      const auto count = std::get<MPSGraphRunStep>(*steps_[step]).results.get().count;
      linked.parts.push_back(
          {steps_[step], part == by_step.end() ? std::vector<bool>(count, false) : part->second->written});
    }
    return linked;
  }

 private:
  const MPSGraphRunStep& runOf(const MPSStretchPart& part) const {
    return std::get<MPSGraphRunStep>(*steps_[part.run->step]);
  }

  MPSGraphTensorData* dataOf(const MPSStretch& stretch, size_t placeholder) const {
    const auto [part, input] = stretch.placeholders[placeholder];
    return runOf(stretch.parts[part]).inputs.get()[input];
  }

  // All that tells two graphs of the same parts from each other.
  static std::vector<uint64_t> describe(const MPSStretch& stretch) {
    std::vector<uint64_t> text;
    const auto add = [&](const auto& numbers) {
      text.push_back(numbers.size());
      text.insert(text.end(), numbers.begin(), numbers.end());
    };
    for (const auto& part : stretch.parts) {
      for (const auto& input : part.inputs) {
        if (!input.is_result) {
          add(std::vector<uint64_t>{input.placeholder});
          continue;
        }
        add(std::vector<uint64_t>{input.part, input.result});
        text.push_back(input.view.size());
        for (const auto& step : input.view) {
          text.push_back(static_cast<uint64_t>(step.kind));
          add(step.numbers);
          add(step.ends);
        }
      }
      add(part.written);
    }
    return text;
  }

  MPSLinkedExecutable compile(const MPSStretch& stretch) {
    MPSGraph* graph = [[MPSGraph new] autorelease];
    NSMutableArray<MPSGraphTensor*>* feeds = [NSMutableArray array];
    NSMutableArray<MPSGraphTensor*>* targets = [NSMutableArray array];
    NSMutableDictionary<MPSGraphTensor*, MPSGraphShapedType*>* feed_types = [NSMutableDictionary dictionary];
    for (const auto i : c10::irange(stretch.placeholders.size())) {
      MPSGraphTensorData* data = dataOf(stretch, i);
      MPSGraphTensor* feed = [graph placeholderWithShape:data.shape dataType:data.dataType name:nil];
      [feeds addObject:feed];
      feed_types[feed] = [[[MPSGraphShapedType alloc] initWithShape:data.shape dataType:data.dataType] autorelease];
    }
    // one symbol for each executable
    NSMutableDictionary<NSString*, MPSGraphExecutable*>* callables = [NSMutableDictionary dictionary];
    std::vector<NSArray<MPSGraphTensor*>*> results;
    for (const auto& part : stretch.parts) {
      const auto& run = runOf(part);
      NSString* symbol = [NSString stringWithFormat:@"run_%p", run.executable.get()];
      callables[symbol] = run.executable.get();
      NSMutableArray<MPSGraphTensor*>* inputs = [NSMutableArray arrayWithCapacity:part.inputs.size()];
      for (const auto& input : part.inputs) {
        MPSGraphTensor* tensor = input.is_result ? results[input.part][input.result] : feeds[input.placeholder];
        for (const auto& step : input.view) {
          tensor = apply(graph, tensor, step);
        }
        [inputs addObject:tensor];
      }
      results.push_back([graph callSymbolName:symbol inputTensors:inputs outputTypes:types_.get(run) name:nil]);
      for (const auto i : c10::irange(part.written.size())) {
        if (part.written[i]) {
          [targets addObject:results.back()[i]];
        }
      }
    }
    MPSGraphCompilationDescriptor* descriptor = [[descriptor_ copy] autorelease];
    if (!descriptor) {
      descriptor = [[MPSGraphCompilationDescriptor new] autorelease];
    }
    descriptor.callables = callables;
    MPSGraphExecutable* executable = [graph compileWithDevice:[MPSGraphDevice deviceWithMTLDevice:device_]
                                                        feeds:feed_types
                                                targetTensors:targets
                                             targetOperations:nil
                                        compilationDescriptor:descriptor];
    executable.options = MPSGraphOptionsDefault;
    return {graph, executable, feeds, targets};
  }

  // Puts the data in the order of the executable. Returns false if it takes or gives other tensors than it was made of.
  bool bind(const MPSStretch& stretch, const MPSLinkedExecutable& made, MPSLinkedRun& linked) const {
    NSMutableArray<MPSGraphTensorData*>* inputs = [NSMutableArray array];
    for (const auto i : c10::irange(stretch.placeholders.size())) {
      [inputs addObject:dataOf(stretch, i)];
    }
    NSMutableArray<MPSGraphTensorData*>* results = [NSMutableArray array];
    for (const auto& part : stretch.parts) {
      for (const auto i : c10::irange(part.written.size())) {
        if (part.written[i]) {
          [results addObject:runOf(part).results.get()[i]];
        }
      }
    }
    MPSGraphRunStep run;
    run.executable = made.executable;
    run.inputs = inOrder([made.executable feedTensors], made.feeds, inputs);
    run.results = inOrder([made.executable targetTensors], made.targets, results);
    const bool is_bound = run.inputs.get() && run.results.get();
    linked.step = std::move(run);
    return is_bound;
  }

  static NSArray<MPSGraphTensorData*>* inOrder(NSArray<MPSGraphTensor*>* wanted,
                                               NSArray<MPSGraphTensor*>* tensors,
                                               NSArray<MPSGraphTensorData*>* data) {
    if (wanted.count != tensors.count || tensors.count != data.count) {
      return nil;
    }
    NSDictionary* by_tensor = [NSDictionary dictionaryWithObjects:data forKeys:tensors];
    NSMutableArray<MPSGraphTensorData*>* ordered = [NSMutableArray arrayWithCapacity:data.count];
    for (MPSGraphTensor* tensor in wanted) {
      MPSGraphTensorData* one = by_tensor[tensor];
      if (!one) {
        return nil;
      }
      [ordered addObject:one];
    }
    return [NSSet setWithArray:wanted].count == wanted.count ? ordered : nil;
  }

  const MPSStepOrder& steps_;
  id<MTLDevice> const device_;
  MPSGraphCompilationDescriptor* const descriptor_;
  ResultTypes& types_;
};

bool canCallExecutables() {
  return is_macos_13_or_newer(MacOSVersion::MACOS_VER_15_0_PLUS) &&
      [MPSGraph instancesRespondToSelector:@selector(callSymbolName:inputTensors:outputTypes:name:)];
}

} // namespace

std::optional<std::vector<MPSLinkedRun>> linkRuns(const MPSStepOrder& steps,
                                                  id<MTLDevice> device,
                                                  MPSGraphCompilationDescriptor* descriptor,
                                                  MPSGraphPool pool,
                                                  size_t limit) {
  if (!canCallExecutables()) {
    return std::nullopt;
  }
  std::vector<MPSStepAccesses> accesses;
  for (const auto* step : steps) {
    accesses.push_back(std::visit(AccessCollector(), *step));
  }
  const auto* allocator = getIMPSAllocator();
  const auto heaps = allocator->getPoolHeaps(pool);
  const auto used = allocator->getPoolUse(pool);
  const auto is_seen = [&](const MPSByteRange& wanted) {
    const auto holds = [&](const auto& bytes) { return wanted.overlaps({bytes.heap, bytes.begin, bytes.end}); };
    // of other memory than the graph's own it is not known who has it
    return std::none_of(heaps.begin(), heaps.end(), holds) || std::any_of(used.begin(), used.end(), holds);
  };
  const MPSStretchPlanner planner(MPSLaterAccesses(accesses, is_seen),
                                  {limit,
                                   c10::utils::check_env("PYTORCH_MPS_LINK_VIEWS").value_or(true),
                                   c10::utils::check_env("PYTORCH_MPS_LINK_KEEP_RESULTS").value_or(false)});
  ResultTypes types(device, descriptor);
  Linker linker(steps, device, descriptor, types);
  std::vector<MPSLinkedRun> linked;
  std::vector<MPSLinkCandidate> neighbours;
  const auto link_neighbours = [&] {
    for (const auto& stretch : planner.plan(neighbours)) {
      if (auto run = linker.link(stretch)) {
        linked.push_back(std::move(*run));
      }
    }
    neighbours.clear();
  };
  for (const auto i : c10::irange(steps.size())) {
    const auto* run = std::get_if<MPSGraphRunStep>(steps[i]);
    if (auto candidate = run ? makeCandidate(*run, i, types) : std::nullopt) {
      neighbours.push_back(std::move(*candidate));
    } else {
      link_neighbours();
    }
  }
  link_neighbours();
  return linked;
}

} // namespace at::mps
