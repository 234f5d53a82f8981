#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSHostRefresh.h>
#include <ATen/mps/MPSReplayPlan.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <unordered_map>

namespace at::mps {

MPSReplayMechanisms MPSReplayMechanisms::fromEnvironment() {
  MPSReplayMechanisms mechanisms;
  const std::map<std::string, bool*> known = {
      {"buffer_ranges", &mechanisms.buffer_ranges},
      {"concurrent_kernels", &mechanisms.concurrent_kernels},
      {"constant_buffer", &mechanisms.constant_buffer},
      {"early_commits", &mechanisms.early_commits},
      {"elided_bindings", &mechanisms.elided_bindings},
      {"hazard_tracking", &mechanisms.hazard_tracking},
      {"indirect_commands", &mechanisms.indirect_commands},
      {"shared_blits", &mechanisms.shared_blits},
      {"staging_ring", &mechanisms.staging_ring},
  };
  const auto turn = [&](const char* variable, bool enabled) {
    const char* value = std::getenv(variable);
    std::stringstream names(value ? value : "");
    for (std::string name; std::getline(names, name, ',');) {
      const auto mechanism = known.find(name);
      if (mechanism == known.end()) {
        std::string all;
        for (const auto& [other, place] : known) {
          all += (all.empty() ? "" : ", ") + other;
        }
        TORCH_CHECK(false,
                    "torch.mps graph capture: ",
                    variable,
                    " is \"",
                    value,
                    "\", but must be names of ",
                    all,
                    ", separated by commas.");
      }
      *mechanism->second = enabled;
    }
  };
  turn("PYTORCH_MPS_GRAPH_WITH", true);
  turn("PYTORCH_MPS_GRAPH_WITHOUT", false);
  return mechanisms;
}

void MPSReplayWatch::look() {
  id<MTLCommandBuffer> command_buffer = stream_->recordedCommandBuffer().commandBuffer;
  if (command_buffer != watched_.get()) {
    watched_ = command_buffer;
    watch(^(id<MTLCommandBuffer>) {
      return std::string();
    });
  }
}

void MPSReplayWatch::watch(std::string (^problem)(id<MTLCommandBuffer>)) {
  auto* stream = stream_;
  NSObject* kept = kept_;
  const size_t check = stream->expectCheck();
  [watched_.get() addCompletedHandler:^(id<MTLCommandBuffer> command_buffer) {
    (void)kept; // the block retains it
    if (command_buffer.status == MTLCommandBufferStatusError) {
      const char* reason = command_buffer.error.localizedDescription.UTF8String;
      stream->finishCheck(
          check,
          std::string("torch.mps graph replay: the GPU reported an error: ") + (reason ? reason : "it gave no reason"));
    } else {
      stream->finishCheck(check, problem(command_buffer));
    }
  }];
}

void MPSReplayWatch::afterwards(void (^block)()) {
  [watched_.get() addCompletedHandler:^(id<MTLCommandBuffer>) {
    block();
  }];
}

MPSRetained<id<MTLBuffer>> MPSStagingBuffers::take(id<MTLDevice> device) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      auto buffer = std::move(free_.back());
      free_.pop_back();
      return buffer;
    }
  }
  id<MTLBuffer> buffer = [device newBufferWithLength:length_ options:MTLResourceStorageModeShared];
  TORCH_CHECK(
      buffer, "torch.mps graph replay: out of memory for the ", length_, " bytes that the host gives to the device");
  MPSRetained<id<MTLBuffer>> taken(buffer);
  [buffer release];
  return taken;
}

void MPSStagingBuffers::giveBack(MPSRetained<id<MTLBuffer>> buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(buffer));
}

void encodeCopy(id<MTLBlitCommandEncoder> encoder, const MPSCopyStep& copy) {
  constexpr size_t largest_piece = 0x80000000;
  for (size_t done = 0; done < copy.length; done += largest_piece) {
    [encoder copyFromBuffer:copy.source.get()
               sourceOffset:copy.source_offset + done
                   toBuffer:copy.destination.get()
          destinationOffset:copy.destination_offset + done
                       size:std::min(largest_piece, copy.length - done)];
  }
}

void encodeDispatch(id<MTLComputeCommandEncoder> encoder, const MPSKernelStep& kernel) {
  switch (kernel.size_kind) {
    case MPSKernelStep::Size::THREADS:
      [encoder dispatchThreads:kernel.size threadsPerThreadgroup:kernel.threadgroup];
      break;
    case MPSKernelStep::Size::THREADGROUPS:
      [encoder dispatchThreadgroups:kernel.size threadsPerThreadgroup:kernel.threadgroup];
      break;
    case MPSKernelStep::Size::INDIRECT:
      [encoder dispatchThreadgroupsWithIndirectBuffer:kernel.indirect_buffer.get()
                                 indirectBufferOffset:kernel.indirect_offset
                                threadsPerThreadgroup:kernel.threadgroup];
      break;
  }
}

namespace {

size_t roundUp(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// The bytes of all kernels in one buffer, each content once.
class Constants {
 public:
  void add(const MPSKernelBinding& binding) {
    const auto [position, is_new] = offsets_.try_emplace(binding.bytes, length_);
    if (is_new) {
      // what GPUs of Intel's Macs need; those of Apple need 4 (Metal feature set tables)
      constexpr size_t alignment = 256;
      length_ += roundUp(binding.bytes.size(), alignment);
    }
    places_[&binding] = position->second;
  }

  /// One reference, or nil if there is nothing, or no memory: then the bytes stay with their calls.
  id<MTLBuffer> newBuffer(id<MTLDevice> device) {
    id<MTLBuffer> buffer =
        length_ > 0 ? [device newBufferWithLength:length_ options:MTLResourceStorageModeShared] : nil;
    if (!buffer) {
      places_.clear();
      return nil;
    }
    auto* contents = static_cast<uint8_t*>([buffer contents]);
    for (const auto& [bytes, offset] : offsets_) {
      std::memcpy(contents + offset, bytes.data(), bytes.size());
    }
    return buffer;
  }

  const size_t* find(const MPSKernelBinding& binding) const {
    const auto place = places_.find(&binding);
    return place == places_.end() ? nullptr : &place->second;
  }

 private:
  std::map<std::vector<uint8_t>, size_t> offsets_;
  std::unordered_map<const MPSKernelBinding*, size_t> places_;
  size_t length_ = 0;
};

} // namespace

// Lays down the calls, and knows what the encoder holds at each point, to leave out those that would change nothing.
class MPSReplayPlanner {
 public:
  MPSReplayPlanner(MPSReplayPlan& plan,
                   const std::vector<MPSLinkedRun>& linked,
                   const MPSReplayMechanisms& mechanisms,
                   const Constants& constants)
      : plan_(plan), mechanisms_(mechanisms), constants_(constants) {
    for (const auto& run : linked) {
      for (const auto& part : run.parts) {
        linked_[part.step] = &part == &run.parts.front() ? &run : nullptr;
      }
    }
  }

  /// Plans the step, and those after it that go with it. Returns the first of the rest.
  size_t add(const std::vector<MPSCommandStep>& steps, size_t first, id<MTLDevice> device) {
    if (mechanisms_.indirect_commands && first >= refused_until_) {
      size_t end = first;
      while (end < steps.size() && end - first < MPSIndirectCommands::kMost &&
             (canBeIndirect(steps[end]) || plan_.isEarlyRefresh(steps[end]))) {
        end++;
      }
      if (end - first >= MPSIndirectCommands::kFewest && addIndirect(steps, first, end, device)) {
        return end;
      }
      refused_until_ = end;
    }
    const auto linked = linked_.find(first);
    if (linked == linked_.end()) {
      add(steps[first]);
    } else if (linked->second) {
      commitNowAndThen(/*is_kernel=*/false);
      endKernels();
      addAlone(Kind::RUN_LINKED, linked->second);
      after_kernel_ = false;
    }
    return first + 1;
  }

 private:
  using Kind = MPSReplayCall::Kind;

  void add(const MPSCommandStep& step) {
    if (plan_.isEarlyRefresh(step)) {
      return;
    }
    const auto* kernel = std::get_if<MPSKernelStep>(&step);
    const auto* encode = std::get_if<MPSEncodeStep>(&step);
    const bool uses_encoder = kernel || (encode && encode->takes_encoder);
    commitNowAndThen(uses_encoder);
    if (kernel) {
      endBlits();
      addKernel(*kernel);
    } else if (uses_encoder) {
      endBlits();
      addKernelObject(*encode);
    } else {
      // everything else ends the compute encoder, and the next one starts with nothing bound
      endKernels();
      addOther(step);
    }
    after_kernel_ = uses_encoder;
  }

  // What it binds, and which memory it uses, is its own affair.
  void addKernelObject(const MPSEncodeStep& encode) {
    if (!threadgroup_memory_.empty()) {
      // lengths of one encoder add up against the device's limit
      endEncoder();
    }
    if (mechanisms_.concurrent_kernels && hazards_.addUnknown()) {
      call(Kind::MEMORY_BARRIER).value = MTLBarrierScopeBuffers;
    }
    call(Kind::ENCODE_WITH_ENCODER).data = &encode;
    forgetBindings();
  }

  bool canBeIndirect(const MPSCommandStep& step) const {
    const auto* kernel = std::get_if<MPSKernelStep>(&step);
    return kernel && MPSIndirectCommands::canHold(*kernel) &&
        std::none_of(kernel->bindings.begin(), kernel->bindings.end(), [&](const auto& binding) {
             return argumentOf(binding).bytes || binding.refreshed;
           });
  }

  bool addIndirect(const std::vector<MPSCommandStep>& steps, size_t first, size_t end, id<MTLDevice> device) {
    std::vector<MPSIndirectKernel> kernels;
    MPSMemoryHazards hazards;
    for (const auto i : c10::irange(first, end)) {
      const auto* kernel = std::get_if<MPSKernelStep>(&steps[i]);
      if (!kernel) {
        continue; // a refresh that comes before all steps
      }
      auto& indirect = kernels.emplace_back();
      indirect.kernel = kernel;
      indirect.arguments = argumentsOf(*kernel);
      indirect.waits = hazards.add(*kernel, indirect.arguments) || !mechanisms_.hazard_tracking;
    }
    if (kernels.size() < MPSIndirectCommands::kFewest) {
      return false;
    }
    auto commands = MPSIndirectCommands::plan(device, kernels);
    if (!commands || commands->calls() >= directCalls(kernels) || !commands->make(device, kernels)) {
      return false;
    }
    commitNowAndThen(/*is_kernel=*/true);
    endBlits();
    if (!threadgroup_memory_.empty()) {
      // what direct dispatches have set stays with the encoder
      endEncoder();
    }
    if (mechanisms_.concurrent_kernels && hazards_.addUnknown()) {
      call(Kind::MEMORY_BARRIER).value = MTLBarrierScopeBuffers;
    }
    call(Kind::EXECUTE).data = commands.get();
    plan_.indirect_.push_back(std::move(commands));
    forgetBindings();
    after_kernel_ = true;
    return true;
  }

  // What the kernels cost without.
  size_t directCalls(const std::vector<MPSIndirectKernel>& kernels) const {
    auto mechanisms = mechanisms_;
    mechanisms.early_commits = false;
    MPSReplayPlan plan;
    plan.constants_ = plan_.constants_;
    MPSReplayPlanner planner(plan, {}, mechanisms, constants_);
    for (const auto& indirect : kernels) {
      planner.addKernel(*indirect.kernel);
    }
    return plan.calls_.size();
  }

  struct Argument {
    id<MTLBuffer> buffer = nil;
    NSUInteger offset = 0;
    // bytes that go with the call
    const std::vector<uint8_t>* bytes = nullptr;
    const MPSRefreshedBytes* refreshed = nullptr;

    bool operator==(const Argument& other) const {
      const bool both_have_bytes = bytes && other.bytes;
      return buffer == other.buffer && offset == other.offset && refreshed == other.refreshed &&
          (both_have_bytes ? *bytes == *other.bytes : !bytes == !other.bytes);
    }
  };

  MPSReplayCall& call(Kind kind) {
    plan_.calls_.emplace_back().kind = kind;
    return plan_.calls_.back();
  }

  // After 32 calls for the first time, then in pieces that grow: a commit costs, too. Where a kernel follows another
  // one its bindings would be lost, so that waits for a better place, but not for ever.
  void commitNowAndThen(bool is_kernel) {
    constexpr size_t largest_piece = 1024;
    const size_t calls = plan_.calls_.size() - committed_calls_;
    const size_t limit = is_kernel && after_kernel_ ? 2 * piece_ : piece_;
    if (!mechanisms_.early_commits || calls < limit) {
      return;
    }
    endKernels();
    endBlits();
    call(Kind::COMMIT);
    committed_calls_ = plan_.calls_.size();
    piece_ = std::min(2 * piece_, largest_piece);
    after_kernel_ = false;
  }

  void forgetBindings() {
    pipeline_ = nil;
    arguments_.clear();
    threadgroup_memory_.clear();
    resources_.clear();
  }

  void endEncoder() {
    call(Kind::END_ENCODER);
    forgetBindings();
    hazards_.clear();
  }

  void endBlits() {
    blits_.clear();
    blit_is_open_ = false;
  }

  void endKernels() {
    if (after_kernel_) {
      endEncoder();
    }
  }

  void addKernel(const MPSKernelStep& kernel) {
    if (holdsOtherThreadgroupMemory(kernel)) {
      // the step before came from another encoder, and lengths of one encoder add up against the device's limit
      endEncoder();
    } else if (!mechanisms_.elided_bindings) {
      pipeline_ = nil;
      arguments_.clear();
      resources_.clear();
    }
    if (pipeline_ != kernel.pipeline.get()) {
      pipeline_ = kernel.pipeline.get();
      call(Kind::SET_PIPELINE).object = pipeline_;
    }
    addArguments(kernel);
    for (const auto& memory : kernel.threadgroup_memory) {
      const auto [position, is_new] = threadgroup_memory_.try_emplace(memory.index, memory.length);
      if (is_new || position->second != memory.length) {
        position->second = memory.length;
        auto& added = call(Kind::SET_THREADGROUP_MEMORY);
        added.index = memory.index;
        added.value = memory.length;
      }
    }
    for (const auto& use : kernel.resources) {
      if (resources_.emplace(use.resource.get(), use.usage).second) {
        auto& added = call(Kind::USE_RESOURCE);
        added.object = use.resource.get();
        added.value = use.usage;
      }
    }
    addBarrier(kernel);
    call(Kind::DISPATCH).data = &kernel;
  }

  void addBarrier(const MPSKernelStep& kernel) {
    if (!mechanisms_.concurrent_kernels) {
      if (kernel.barrier) {
        call(Kind::MEMORY_BARRIER).value = kernel.barrier;
      }
      return;
    }
    const bool waits = mechanisms_.hazard_tracking ? hazards_.add(kernel, argumentsOf(kernel)) : hazards_.addUnknown();
    if (waits || kernel.barrier) {
      // not that of some resources: it orders only what is done through them, and others lie on the same memory
      call(Kind::MEMORY_BARRIER).value = kernel.barrier | MTLBarrierScopeBuffers;
    }
  }

  bool holdsOtherThreadgroupMemory(const MPSKernelStep& kernel) const {
    return std::any_of(threadgroup_memory_.begin(), threadgroup_memory_.end(), [&](const auto& held) {
      return std::none_of(kernel.threadgroup_memory.begin(), kernel.threadgroup_memory.end(), [&](const auto& memory) {
        return memory.index == held.first;
      });
    });
  }

  Argument argumentOf(const MPSKernelBinding& binding) const {
    if (!binding.holds_bytes) {
      return {binding.buffer.get(), binding.offset};
    }
    if (binding.refreshed) {
      return {nil, 0, nullptr, binding.refreshed.get()};
    }
    if (const auto* offset = constants_.find(binding)) {
      return {plan_.constants_.get(), *offset};
    }
    return {nil, 0, &binding.bytes};
  }

  MPSMemoryHazards::Arguments argumentsOf(const MPSKernelStep& kernel) const {
    MPSMemoryHazards::Arguments arguments;
    for (const auto& binding : kernel.bindings) {
      const auto argument = argumentOf(binding);
      arguments.emplace_back(argument.buffer, argument.offset);
    }
    return arguments;
  }

  void addArguments(const MPSKernelStep& kernel) {
    std::map<NSUInteger, Argument> changed;
    for (const auto& binding : kernel.bindings) {
      const auto argument = argumentOf(binding);
      const auto bound = arguments_.find(binding.index);
      if (bound != arguments_.end() && bound->second == argument) {
        continue;
      }
      if (argument.bytes) {
        auto& added = call(Kind::SET_BYTES);
        added.index = binding.index;
        added.data = argument.bytes->data();
        added.count = argument.bytes->size();
        arguments_[binding.index] = argument;
      } else if (argument.refreshed) {
        auto& added = call(Kind::SET_REFRESHED_BYTES);
        added.index = binding.index;
        added.value = plan_.refreshOf(argument.refreshed).offset;
        added.count = argument.refreshed->length;
        arguments_[binding.index] = argument;
      } else {
        changed[binding.index] = argument;
      }
    }
    while (!changed.empty()) {
      addBuffers(changed);
    }
  }

  // Binds the first of what changed, and what follows without a gap.
  void addBuffers(std::map<NSUInteger, Argument>& changed) {
    const NSUInteger first = changed.begin()->first;
    NSUInteger count = 1;
    while (mechanisms_.buffer_ranges && changed.count(first + count)) {
      count++;
    }
    if (count == 1) {
      addBuffer(first, changed.begin()->second);
    } else {
      auto& added = call(Kind::SET_BUFFERS);
      added.index = first;
      added.count = count;
      added.value = plan_.buffers_.size();
    }
    for (const auto index : c10::irange(first, first + count)) {
      const auto& argument = changed.at(index);
      if (count > 1) {
        plan_.buffers_.push_back(argument.buffer);
        plan_.offsets_.push_back(argument.offset);
      }
      arguments_[index] = argument;
      changed.erase(index);
    }
  }

  void addBuffer(NSUInteger index, const Argument& argument) {
    const auto bound = arguments_.find(index);
    const bool same_buffer = bound != arguments_.end() && argument.buffer && bound->second.buffer == argument.buffer;
    auto& added = call(same_buffer ? Kind::SET_BUFFER_OFFSET : Kind::SET_BUFFER);
    added.index = index;
    added.value = argument.offset;
    added.object = argument.buffer;
  }

  void addOther(const MPSCommandStep& step) {
    if (const auto* run = std::get_if<MPSGraphRunStep>(&step)) {
      addAlone(Kind::RUN_GRAPH, run);
    } else if (const auto* encode = std::get_if<MPSEncodeStep>(&step)) {
      addAlone(Kind::ENCODE, encode);
    } else if (const auto* copy = std::get_if<MPSCopyStep>(&step)) {
      addBlit(Kind::COPY, *copy);
    } else if (const auto* fill = std::get_if<MPSFillStep>(&step)) {
      addBlit(Kind::FILL, *fill);
    } else {
      addBlit(Kind::REFRESH, std::get<MPSHostRefreshStep>(step));
    }
  }

  void addAlone(Kind kind, const void* step) {
    endBlits();
    call(kind).data = step;
  }

  template <typename Step>
  void addBlit(Kind kind, const Step& step) {
    const bool shares = !blits_.add(step) && blit_is_open_ && mechanisms_.shared_blits;
    auto& added = call(kind);
    added.data = &step;
    added.opens_encoder = !shares;
    blit_is_open_ = true;
  }

  MPSReplayPlan& plan_;
  const MPSReplayMechanisms& mechanisms_;
  const Constants& constants_;
  // by step: the run that begins there, or null for the later parts of one
  std::unordered_map<size_t, const MPSLinkedRun*> linked_;
  // the end of kernels that gain nothing as indirect commands
  size_t refused_until_ = 0;
  size_t committed_calls_ = 0;
  size_t piece_ = 32;
  bool after_kernel_ = false;
  bool blit_is_open_ = false;
  // of the open blit encoder
  MPSMemoryHazards blits_;
  id<MTLComputePipelineState> pipeline_ = nil;
  std::map<NSUInteger, Argument> arguments_;
  std::map<NSUInteger, NSUInteger> threadgroup_memory_;
  std::set<std::pair<id<MTLResource>, MTLResourceUsage>> resources_;
  // of the open encoder, where its kernels may run at the same time
  MPSMemoryHazards hazards_;
};

bool MPSReplayPlan::isEarlyRefresh(const MPSCommandStep& step) const {
  const auto* refresh = std::get_if<MPSHostRefreshStep>(&step);
  return refresh && refreshOf(refresh).is_early;
}

MPSReplayPlan::MPSReplayPlan(const std::vector<MPSCommandStep>& steps,
                             const std::vector<MPSLinkedRun>& linked,
                             const MPSReplayMechanisms& mechanisms,
                             id<MTLDevice> device)
    : reuses_staging_(mechanisms.staging_ring), has_concurrent_kernels_(mechanisms.concurrent_kernels) {
  planRefreshes(steps);
  Constants constants;
  if (mechanisms.constant_buffer) {
    for (const auto& step : steps) {
      if (const auto* kernel = std::get_if<MPSKernelStep>(&step)) {
        for (const auto& binding : kernel->bindings) {
          if (binding.holds_bytes && !binding.bytes.empty() && !binding.refreshed) {
            constants.add(binding);
          }
        }
      }
    }
    constants_ = [constants.newBuffer(device) autorelease];
  }
  MPSReplayPlanner planner(*this, linked, mechanisms, constants);
  for (size_t next = 0; next < steps.size();) {
    next = planner.add(steps, next, device);
  }
}

// The bytes of a refresh whose destination is its own go to the device before all other work of the replay, together
// with those of others. Earlier replays have read theirs by then: the GPU works in the order of the stream.
void MPSReplayPlan::planRefreshes(const std::vector<MPSCommandStep>& steps) {
  constexpr size_t alignment = 16;
  std::map<const void*, size_t> uses;
  for (const auto& step : steps) {
    if (const auto* refresh = std::get_if<MPSHostRefreshStep>(&step)) {
      uses[refresh->destination.get()]++;
    }
  }
  size_t total = 0;
  const auto add = [&](const void* owner, Refresh refresh, size_t length) {
    if (refresh_places_.try_emplace(owner, refreshes_.size()).second) {
      refresh.offset = total;
      refreshes_.push_back(refresh);
      total += roundUp(length, alignment);
    }
  };
  for (const auto& step : steps) {
    if (const auto* refresh = std::get_if<MPSHostRefreshStep>(&step)) {
      const bool is_early = refresh->owns_destination && uses.at(refresh->destination.get()) == 1;
      has_early_refreshes_ |= is_early;
      add(refresh, {refresh->refresh.get(), refresh, 0, is_early}, refresh->length);
    } else if (const auto* kernel = std::get_if<MPSKernelStep>(&step)) {
      for (const auto& binding : kernel->bindings) {
        if (const auto* refreshed = binding.refreshed.get()) {
          add(refreshed, {refreshed->refresh.get(), nullptr, 0, false}, refreshed->length);
        }
      }
    }
  }
  staging_ = std::make_shared<MPSStagingBuffers>(total);
}

void MPSReplayPlan::checkRefreshes() const {
  for (const auto& refresh : refreshes_) {
    refresh.refresh->check();
  }
}

MPSRetained<id<MTLBuffer>> MPSReplayPlan::writeRefreshes(id<MTLDevice> device) const {
  if (refreshes_.empty()) {
    return {};
  }
  auto staging = staging_->take(device);
  auto* bytes = static_cast<char*>([staging.get() contents]);
  for (const auto& refresh : refreshes_) {
    refresh.refresh->write(bytes + refresh.offset);
  }
  return staging;
}

const MPSReplayPlan::Refresh& MPSReplayPlan::refreshOf(const void* owner) const {
  return refreshes_[refresh_places_.at(owner)];
}

const void* MPSReplayPlan::findBytes(id<MTLBuffer> staging, const MPSRefreshedBytes& refreshed) const {
  return static_cast<const char*>([staging contents]) + refreshOf(&refreshed).offset;
}

void MPSReplayPlan::encodeRefresh(id<MTLBlitCommandEncoder> encoder,
                                  id<MTLBuffer> staging,
                                  const MPSHostRefreshStep& step) const {
  encodeCopy(encoder, {staging, step.destination, step.length, refreshOf(&step).offset, step.offset});
}

void MPSReplayPlan::encodeEarlyRefreshes(MPSCommandBuffer* command_buffer, id<MTLBuffer> staging) const {
  id<MTLBlitCommandEncoder> encoder = [command_buffer blitCommandEncoder];
  for (const auto& refresh : refreshes_) {
    if (refresh.is_early) {
      encodeRefresh(encoder, staging, *refresh.step);
    }
  }
  [encoder endEncoding];
}

id<MTLBlitCommandEncoder> MPSReplayPlan::encodeBlit(id<MTLBlitCommandEncoder> encoder,
                                                    MPSCommandBuffer* command_buffer,
                                                    const MPSReplayCall& call,
                                                    id<MTLBuffer> staging) const {
  using Kind = MPSReplayCall::Kind;
  if (call.opens_encoder) {
    [encoder endEncoding];
    encoder = [command_buffer blitCommandEncoder];
  }
  if (call.kind == Kind::COPY) {
    encodeCopy(encoder, *static_cast<const MPSCopyStep*>(call.data));
  } else if (call.kind == Kind::FILL) {
    const auto& fill = *static_cast<const MPSFillStep*>(call.data);
    [encoder fillBuffer:fill.buffer.get() range:NSMakeRange(fill.offset, fill.length) value:fill.value];
  } else {
    encodeRefresh(encoder, staging, *static_cast<const MPSHostRefreshStep*>(call.data));
  }
  return encoder;
}

void MPSReplayPlan::encode(MPSStream* stream, MPSReplayWatch& watch, id<MTLBuffer> staging) const {
  if (has_early_refreshes_) {
    encodeEarlyRefreshes(stream->recordedCommandBuffer(), staging);
  }
  for (auto next = calls_.begin(); next != calls_.end();) {
    @autoreleasepool {
      next = encodePiece(next, stream, watch, staging);
    }
  }
  if (staging && reuses_staging_) {
    auto buffers = staging_;
    MPSRetained<id<MTLBuffer>> used(staging);
    watch.afterwards(^{
      buffers->giveBack(used);
    });
  }
}

template <typename Run>
static void encodeRun(MPSCommandBuffer* command_buffer, const Run& run) {
  [run.executable.get() encodeToCommandBuffer:command_buffer
                                  inputsArray:run.inputs.get()
                                 resultsArray:run.results.get()
                          executionDescriptor:executableExecutionDescriptor()];
}

id<MTLComputeCommandEncoder> MPSReplayPlan::kernelEncoder(MPSCommandBuffer* command_buffer) const {
  return has_concurrent_kernels_ ? [command_buffer computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent]
                                 : [command_buffer computeCommandEncoder];
}

MPSReplayPlan::Calls::const_iterator MPSReplayPlan::encodePiece(Calls::const_iterator next,
                                                                MPSStream* stream,
                                                                MPSReplayWatch& watch,
                                                                id<MTLBuffer> staging) const {
  using Kind = MPSReplayCall::Kind;
  MPSCommandBuffer* command_buffer = stream->recordedCommandBuffer();
  id<MTLComputeCommandEncoder> kernels = nil;
  id<MTLBlitCommandEncoder> blits = nil;
  while (next != calls_.end()) {
    const auto& call = *next++;
    const bool is_blit = call.kind == Kind::COPY || call.kind == Kind::FILL || call.kind == Kind::REFRESH;
    if (blits && !is_blit) {
      [blits endEncoding];
      blits = nil;
    }
    switch (call.kind) {
      case Kind::SET_PIPELINE:
        // the first call of each encoder
        if (!kernels) {
          kernels = kernelEncoder(command_buffer);
        }
        [kernels setComputePipelineState:static_cast<id<MTLComputePipelineState>>(call.object)];
        break;
      case Kind::SET_BUFFER:
        [kernels setBuffer:static_cast<id<MTLBuffer>>(call.object) offset:call.value atIndex:call.index];
        break;
      case Kind::SET_BUFFER_OFFSET:
        [kernels setBufferOffset:call.value atIndex:call.index];
        break;
      case Kind::SET_BUFFERS:
        [kernels setBuffers:buffers_.data() + call.value
                    offsets:offsets_.data() + call.value
                  withRange:NSMakeRange(call.index, call.count)];
        break;
      case Kind::SET_BYTES:
        [kernels setBytes:call.data length:call.count atIndex:call.index];
        break;
      case Kind::SET_REFRESHED_BYTES:
        [kernels setBytes:static_cast<const char*>([staging contents]) + call.value
                   length:call.count
                  atIndex:call.index];
        break;
      case Kind::SET_THREADGROUP_MEMORY:
        [kernels setThreadgroupMemoryLength:call.value atIndex:call.index];
        break;
      case Kind::USE_RESOURCE:
        [kernels useResource:static_cast<id<MTLResource>>(call.object) usage:static_cast<MTLResourceUsage>(call.value)];
        break;
      case Kind::MEMORY_BARRIER:
        [kernels memoryBarrierWithScope:static_cast<MTLBarrierScope>(call.value)];
        break;
      case Kind::DISPATCH:
        encodeDispatch(kernels, *static_cast<const MPSKernelStep*>(call.data));
        break;
      case Kind::EXECUTE:
        if (!kernels) {
          kernels = kernelEncoder(command_buffer);
        }
        static_cast<const MPSIndirectCommands*>(call.data)->encode(kernels);
        break;
      case Kind::END_ENCODER:
        [kernels endEncoding];
        kernels = nil;
        break;
      case Kind::RUN_GRAPH:
        encodeRun(command_buffer, *static_cast<const MPSGraphRunStep*>(call.data));
        watch.look();
        break;
      case Kind::RUN_LINKED:
        encodeRun(command_buffer, *static_cast<const MPSLinkedRun*>(call.data));
        watch.look();
        break;
      case Kind::ENCODE:
        static_cast<const MPSEncodeStep*>(call.data)->encode.get()(command_buffer, nil);
        watch.look();
        break;
      case Kind::ENCODE_WITH_ENCODER:
        if (!kernels) {
          kernels = kernelEncoder(command_buffer);
        }
        static_cast<const MPSEncodeStep*>(call.data)->encode.get()(command_buffer, kernels);
        break;
      case Kind::COPY:
      case Kind::FILL:
      case Kind::REFRESH:
        blits = encodeBlit(blits, command_buffer, call, staging);
        break;
      case Kind::COMMIT:
        stream->synchronize(SyncType::COMMIT);
        watch.look();
        return next;
    }
  }
  [kernels endEncoding];
  [blits endEncoding];
  return next;
}

} // namespace at::mps
