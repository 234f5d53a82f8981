#include <ATen/mps/MPSReplayPlanner.h>
#include <c10/util/Exception.h>
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

// Lays down the calls, and knows what the encoder holds at each point, to leave out those that would change nothing.
class Planner {
 public:
  Planner(MPSReplayCalls& made,
          const std::vector<MPSLinkedRun>& linked,
          const MPSReplayMechanisms& mechanisms,
          const Constants& constants)
      : made_(made), mechanisms_(mechanisms), constants_(constants) {
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
             (canBeIndirect(steps[end]) || made_.refreshes.isEarly(steps[end]))) {
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
    if (made_.refreshes.isEarly(step)) {
      return;
    }
    const auto* kernel = std::get_if<MPSKernelStep>(&step);
    const auto* encode = std::get_if<MPSEncodeStep>(&step);
    // dispatches of one object may depend on each other: it gets an encoder of its own where they could run at once
    const bool uses_encoder = kernel || (encode && encode->takes_encoder && !mechanisms_.concurrent_kernels);
    commitNowAndThen(uses_encoder);
    if (kernel) {
      endBlits();
      addKernel(*kernel);
    } else if (uses_encoder) {
      endBlits();
      addOpaque(Kind::ENCODE_WITH_ENCODER, encode);
    } else {
      // everything else ends the compute encoder, and the next one starts with nothing bound
      endKernels();
      addOther(step);
    }
    after_kernel_ = uses_encoder;
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
    addOpaque(Kind::EXECUTE, commands.get());
    made_.indirect.push_back(std::move(commands));
    after_kernel_ = true;
    return true;
  }

  // What goes on in the open encoder with bindings and memory of its own.
  void addOpaque(Kind kind, const void* data) {
    if (!threadgroup_memory_.empty()) {
      // lengths of one encoder add up against the device's limit
      endEncoder();
    }
    if (mechanisms_.concurrent_kernels && hazards_.addUnknown()) {
      call(Kind::MEMORY_BARRIER).value = MTLBarrierScopeBuffers;
    }
    call(kind).data = data;
    forgetBindings();
  }

  // What the kernels cost without.
  size_t directCalls(const std::vector<MPSIndirectKernel>& kernels) const {
    auto mechanisms = mechanisms_;
    mechanisms.early_commits = false;
    MPSReplayCalls direct;
    direct.constants = made_.constants;
    Planner planner(direct, {}, mechanisms, constants_);
    for (const auto& indirect : kernels) {
      planner.addKernel(*indirect.kernel);
    }
    return direct.calls.size();
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
    made_.calls.emplace_back().kind = kind;
    return made_.calls.back();
  }

  // After 32 calls for the first time, then in pieces that grow: a commit costs, too. Where a kernel follows another
  // one its bindings would be lost, so that waits for a better place, but not for ever.
  void commitNowAndThen(bool is_kernel) {
    constexpr size_t largest_piece = 1024;
    const size_t calls = made_.calls.size() - committed_calls_;
    const size_t limit = is_kernel && after_kernel_ ? 2 * piece_ : piece_;
    if (!mechanisms_.early_commits || calls < limit) {
      return;
    }
    endKernels();
    endBlits();
    call(Kind::COMMIT);
    committed_calls_ = made_.calls.size();
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
      return {made_.constants.get(), *offset};
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
        added.value = made_.refreshes.offsetOf(*argument.refreshed);
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

  MPSReplayCalls& made_;
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

} // namespace

MPSReplayPlan planReplay(const std::vector<MPSCommandStep>& steps,
                         const std::vector<MPSLinkedRun>& linked,
                         const MPSReplayMechanisms& mechanisms,
                         id<MTLDevice> device) {
  MPSReplayCalls made;
  made.has_concurrent_kernels = mechanisms.concurrent_kernels;
  made.refreshes = MPSReplayRefreshes(steps, mechanisms.staging_ring);
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
    made.constants = [constants.newBuffer(device) autorelease];
  }
  Planner planner(made, linked, mechanisms, constants);
  for (size_t next = 0; next < steps.size();) {
    next = planner.add(steps, next, device);
  }
  return MPSReplayPlan(std::move(made));
}

} // namespace at::mps
