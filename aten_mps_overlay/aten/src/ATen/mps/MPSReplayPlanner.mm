#include <ATen/mps/MPSReplayPlan.h>
#include <c10/util/env.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>

namespace at::mps {

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

// Lays down the calls of kernels, and knows what the encoder holds, to leave out those that would change nothing.
class KernelCalls {
 public:
  KernelCalls(MPSReplayCalls& made, const Constants& constants, const MPSReplayRefreshes& refreshes)
      : made_(made), constants_(constants), refreshes_(refreshes) {}

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

  Argument argumentOf(const MPSKernelBinding& binding) const {
    if (!binding.holds_bytes) {
      return {binding.buffer.get(), binding.offset};
    }
    if (binding.refreshed) {
      return {nil, 0, nullptr, binding.refreshed.get()};
    }
    if (const auto* offset = constants_.find(binding)) {
      return {made_.constants.get(), *offset};
    }
    return {nil, 0, &binding.bytes};
  }

  void add(const MPSKernelStep& kernel) {
    if (holdsOtherThreadgroupMemory(kernel)) {
      // the step before came from another encoder, and lengths of one encoder add up against the device's limit
      endEncoder();
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
    if (kernel.barrier) {
      call(Kind::MEMORY_BARRIER).value = kernel.barrier;
    }
    call(Kind::DISPATCH).data = &kernel;
  }

  /// Something that goes on in the open encoder with bindings and memory of its own.
  void addOpaque(MPSReplayCall::Kind kind, const void* data) {
    if (!threadgroup_memory_.empty()) {
      // lengths of one encoder add up against the device's limit
      endEncoder();
    }
    call(kind).data = data;
    forgetBindings();
  }

  /// After a call that ends the encoder.
  void forgetBindings() {
    pipeline_ = nil;
    arguments_.clear();
    threadgroup_memory_.clear();
    resources_.clear();
  }

 private:
  using Kind = MPSReplayCall::Kind;

  MPSReplayCall& call(Kind kind) {
    return made_.add(kind);
  }

  void endEncoder() {
    call(Kind::END_ENCODER);
    forgetBindings();
  }

  bool holdsOtherThreadgroupMemory(const MPSKernelStep& kernel) const {
    return std::any_of(threadgroup_memory_.begin(), threadgroup_memory_.end(), [&](const auto& held) {
      return std::none_of(kernel.threadgroup_memory.begin(), kernel.threadgroup_memory.end(), [&](const auto& memory) {
        return memory.index == held.first;
      });
    });
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
        added.value = refreshes_.offsetOf(argument.refreshed);
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
    while (changed.count(first + count)) {
      count++;
    }
    if (count == 1) {
      addBuffer(first, changed.begin()->second);
    } else {
      auto& added = call(Kind::SET_BUFFERS);
      added.index = first;
      added.count = count;
      added.value = made_.buffers.size();
    }
    for (const auto index : c10::irange(first, first + count)) {
      const auto& argument = changed.at(index);
      if (count > 1) {
        made_.buffers.push_back(argument.buffer);
        made_.offsets.push_back(argument.offset);
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

  MPSReplayCalls& made_;
  const Constants& constants_;
  const MPSReplayRefreshes& refreshes_;
  id<MTLComputePipelineState> pipeline_ = nil;
  std::map<NSUInteger, Argument> arguments_;
  std::map<NSUInteger, NSUInteger> threadgroup_memory_;
  std::set<std::pair<id<MTLResource>, MTLResourceUsage>> resources_;
};

// Lays down the calls of all steps: decides what shares an encoder, and where the GPU may begin.
class Planner {
 public:
  Planner(MPSReplayCalls& made, const Constants& constants, const MPSReplayRefreshes& refreshes, size_t steps)
      : made_(made), constants_(constants), refreshes_(refreshes), kernels_(made, constants, refreshes), left_(steps) {}

  /// Plans the step, and those after it that go with it. Returns the first of the rest.
  size_t add(const MPSStepOrder& steps, size_t first, id<MTLDevice> device) {
    if (indirect_commands_ && first >= refused_until_) {
      size_t end = first;
      while (end < steps.size() && end - first < MPSIndirectCommands::kMostCommands && canBeIndirect(*steps[end])) {
        end++;
      }
      if (end - first >= MPSIndirectCommands::kFewest && addIndirect(steps, first, end, device)) {
        return end;
      }
      refused_until_ = end;
    }
    add(*steps[first]);
    return first + 1;
  }

 private:
  using Kind = MPSReplayCall::Kind;

  void add(const MPSCommandStep& step) {
    const auto* kernel = std::get_if<MPSKernelStep>(&step);
    const bool uses_encoder = usesComputeEncoder(step);
    commitNowAndThen(uses_encoder);
    left_--;
    if (kernel) {
      kernels_.add(*kernel);
    } else if (uses_encoder) {
      kernels_.addOpaque(Kind::STEP, &step);
    } else {
      // it ends the compute encoder, and the next one starts with nothing bound
      kernels_.forgetBindings();
      made_.add(Kind::STEP).data = &step;
    }
    after_kernel_ = uses_encoder;
  }

  bool canBeIndirect(const MPSCommandStep& step) const {
    const auto* kernel = std::get_if<MPSKernelStep>(&step);
    return kernel && MPSIndirectCommands::canHold(*kernel) &&
        std::none_of(kernel->bindings.begin(), kernel->bindings.end(), [&](const auto& binding) {
             return kernels_.argumentOf(binding).bytes || binding.refreshed;
           });
  }

  bool addIndirect(const MPSStepOrder& steps, size_t first, size_t end, id<MTLDevice> device) {
    std::vector<MPSIndirectKernel> kernels;
    MPSMemoryHazards hazards;
    for (const auto i : c10::irange(first, end)) {
      auto& indirect = kernels.emplace_back();
      indirect.kernel = &std::get<MPSKernelStep>(*steps[i]);
      for (const auto& binding : indirect.kernel->bindings) {
        const auto argument = kernels_.argumentOf(binding);
        indirect.arguments.emplace_back(argument.buffer, argument.offset);
      }
      indirect.waits = hazards.add(*indirect.kernel, indirect.arguments);
    }
    auto commands = MPSIndirectCommands::plan(device, kernels);
    if (!commands || commands->calls() >= directCalls(kernels) || !commands->make(device, kernels)) {
      return false;
    }
    commitNowAndThen(/*is_kernel=*/true);
    left_ -= end - first;
    kernels_.addOpaque(Kind::EXECUTE, commands.get());
    made_.indirect.push_back(std::move(commands));
    after_kernel_ = true;
    return true;
  }

  // What the kernels cost without.
  size_t directCalls(const std::vector<MPSIndirectKernel>& kernels) const {
    MPSReplayCalls direct;
    direct.constants = made_.constants;
    KernelCalls calls(direct, constants_, refreshes_);
    for (const auto& indirect : kernels) {
      calls.add(*indirect.kernel);
    }
    return direct.calls.size();
  }

  // The GPU begins early in a long replay, and has more to do long before it is done with that: two commits, since each
  // costs time on CPU and GPU. Where a kernel follows another one its bindings would be lost, so that waits for a better
  // place, but not for ever.
  void commitNowAndThen(bool is_kernel) {
    constexpr size_t most_commits = 2;
    constexpr size_t growth = 8;
    constexpr size_t fewest_left = 64;
    const size_t calls = made_.calls.size() - committed_calls_;
    const size_t limit = is_kernel && after_kernel_ ? 2 * piece_ : piece_;
    if (calls < limit || commits_ == most_commits || left_ < fewest_left) {
      return;
    }
    commits_++;
    made_.add(Kind::COMMIT);
    kernels_.forgetBindings();
    committed_calls_ = made_.calls.size();
    piece_ *= growth;
    after_kernel_ = false;
  }

  // Off unless asked for, since no GPU has shown a gain.
  const bool indirect_commands_ = c10::utils::check_env("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS").value_or(false);
  MPSReplayCalls& made_;
  const Constants& constants_;
  const MPSReplayRefreshes& refreshes_;
  KernelCalls kernels_;
  // the end of kernels that gain nothing as indirect commands
  size_t refused_until_ = 0;
  size_t commits_ = 0;
  size_t committed_calls_ = 0;
  // steps that are not planned yet
  size_t left_;
  size_t piece_ = 32;
  bool after_kernel_ = false;
};

} // namespace

MPSReplayPlan::MPSReplayPlan(const MPSStepOrder& steps, const MPSReplayRefreshes& refreshes, id<MTLDevice> device) {
  Constants constants;
  for (const auto* step : steps) {
    if (const auto* kernel = std::get_if<MPSKernelStep>(step)) {
      for (const auto& binding : kernel->bindings) {
        if (binding.holds_bytes && !binding.bytes.empty() && !binding.refreshed) {
          constants.add(binding);
        }
      }
    }
  }
  made_.constants = [constants.newBuffer(device) autorelease];
  Planner planner(made_, constants, refreshes, steps.size());
  for (size_t next = 0; next < steps.size();) {
    next = planner.add(steps, next, device);
  }
}

} // namespace at::mps
