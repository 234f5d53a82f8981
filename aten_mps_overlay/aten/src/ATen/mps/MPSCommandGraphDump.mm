#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSCommandGraphDispatches.h>
#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace at::mps {

namespace {

using Description = c10::impl::GenericDict;
using Numbers = std::vector<int64_t>;

// What a step does with a buffer.
struct Use {
  id<MTLBuffer> buffer = nil;
  size_t offset = 0;
  const char* access = "bind";
};

Description newDescription() {
  return Description(c10::StringType::get(), c10::AnyType::get());
}

Numbers numbers(const uint64_t* size) {
  return {size, size + 3};
}

Numbers number(size_t value) {
  return {static_cast<int64_t>(value)};
}

std::vector<std::string> tensors(NSArray<MPSGraphTensorData*>* all) {
  std::vector<std::string> result;
  for (MPSGraphTensorData* data in all) {
    std::string text = nameOf(data.dataType) + "[";
    for (NSNumber* size in data.shape) {
      text += (text.back() == '[' ? "" : ", ") + std::to_string(size.longLongValue);
    }
    result.push_back(text + "]");
  }
  return result;
}

// Describes the steps in their order. Numbers buffers in the order in which the steps use them, so that equal captures
// give equal dumps.
class Describer {
 public:
  explicit Describer(const MPSCommandGraphRecording& recording)
      : recording_(recording), origins_(recording.origins.size()) {
    std::iota(origins_.begin(), origins_.end(), 0);
    std::stable_sort(origins_.begin(), origins_.end(), [&](size_t one, size_t other) {
      return recording.origins[one].step < recording.origins[other].step;
    });
  }

  void operator()(const MPSKernelStep& kernels) {
    MPSEncoderState state(kernels);
    for (const auto& call : kernels.calls) {
      state.apply(call);
      if (call.kind == MPSEncoderCall::Kind::ENCODE_OBJECT) {
        (*this)(MPSEncodeStep{});
      } else if (call.isWork()) {
        describe(kernels, call, state);
      }
    }
  }

  void operator()(const MPSGraphRunStep& run) {
    auto step = begin("graph_run");
    step.insert("inputs", tensors(run.inputs.get()));
    step.insert("results", tensors(run.results.get()));
    end(step, {});
  }

  void operator()(const MPSCopyStep& copy) {
    auto step = begin("copy");
    step.insert("length", number(copy.length));
    end(step,
        {{copy.source.get(), copy.source_offset, "read"}, {copy.destination.get(), copy.destination_offset, "write"}});
  }

  void operator()(const MPSFillStep& fill) {
    auto step = begin("fill");
    step.insert("length", number(fill.length));
    step.insert("value", number(fill.value));
    end(step, {{fill.buffer.get(), fill.offset, "write"}});
  }

  void operator()(const MPSEncodeStep&) {
    end(begin("kernel_object"), {});
  }

  void operator()(const MPSHostRefreshStep& refresh) {
    auto step = begin("host_refresh");
    step.insert("length", number(refresh.length));
    end(step, {{refresh.destination.get(), refresh.offset, "write"}});
  }

  void operator()(const MPSStatusStep& status) {
    end(begin("status"), {{status.buffer.get(), status.offset, "read"}});
  }

  Description result() const {
    auto result = newDescription();
    result.insert("buffers", buffers_);
    result.insert("steps", steps_);
    return result;
  }

 private:
  // A dispatch that runs with the state.
  void describe(const MPSKernelStep& kernels, const MPSEncoderCall& call, const MPSEncoderState& state) {
    using Kind = MPSEncoderCall::Kind;
    auto step = begin("kernel");
    std::vector<Use> uses;
    size_t bytes = 0;
    size_t refreshed_bytes = 0;
    for (const auto& [index, argument] : state.arguments) {
      (argument.refreshed ? refreshed_bytes : bytes) += argument.length;
      if (argument.buffer) {
        uses.push_back({argument.buffer, argument.offset});
      }
    }
    for (const auto& [resource, usage] : state.new_resources) {
      if ([resource conformsToProtocol:@protocol(MTLBuffer)]) {
        uses.push_back({(id<MTLBuffer>)resource});
      }
    }
    const auto* sizes = kernels.at<uint64_t>(call);
    const bool is_indirect = call.kind == Kind::DISPATCH_INDIRECT;
    if (is_indirect) {
      uses.push_back({call.object, sizes[0], "read"});
    } else {
      step.insert(call.kind == Kind::DISPATCH_THREADS ? "threads" : "threadgroups", numbers(sizes));
    }
    step.insert("threads_per_threadgroup", numbers(sizes + (is_indirect ? 1 : 3)));
    step.insert("bytes", number(bytes));
    if (refreshed_bytes > 0) {
      step.insert("refreshed_bytes", number(refreshed_bytes));
    }
    end(step, uses);
  }

  Description begin(const char* kind) {
    const size_t origin = origins_[steps_.size()];
    const auto line = origin < recording_.lines.size() ? programLine(recording_.lines[origin]) : "";
    auto step = newDescription();
    step.insert("kind", kind);
    step.insert("op", recording_.origins[origin].op);
    if (!line.empty()) {
      step.insert("line", line);
    }
    return step;
  }

  void end(Description step, const std::vector<Use>& uses) {
    c10::impl::GenericList places(c10::AnyType::get());
    for (const auto& use : uses) {
      const auto [position, is_new] = positions_.try_emplace(use.buffer, buffers_.size());
      if (is_new) {
        auto buffer = newDescription();
        buffer.insert("bytes", static_cast<int64_t>(use.buffer.length));
        buffer.insert("memory", memoryOf(use.buffer));
        buffers_.push_back(buffer);
      }
      auto place = newDescription();
      place.insert("buffer", static_cast<int64_t>(position->second));
      place.insert("offset", static_cast<int64_t>(use.offset));
      place.insert("access", use.access);
      places.push_back(place);
    }
    step.insert("buffers", places);
    steps_.push_back(step);
  }

  const char* memoryOf(id<MTLBuffer> buffer) const {
    if (recording_.pinned.contains(buffer)) {
      return "kept";
    }
    // what the allocator has and a graph uses is kept or lies in its pool
    return getIMPSAllocator()->getUnalignedBufferSize(buffer) >= 0 ? "pool" : "own";
  }

  const MPSCommandGraphRecording& recording_;
  // positions of the origins in the order of the steps
  std::vector<size_t> origins_;
  std::unordered_map<const void*, size_t> positions_;
  c10::impl::GenericList buffers_{c10::AnyType::get()};
  c10::impl::GenericList steps_{c10::AnyType::get()};
};

} // namespace

c10::impl::GenericDict MPSCommandGraph::dump() const {
  auto recording = std::make_shared<const MPSCommandGraphRecording>();
  {
    // Not held longer: lines take the interpreter's lock.
    std::lock_guard lock(mutex_);
    recording = recording_ ? recording_ : recording;
  }
  Describer describer(*recording);
  @autoreleasepool {
    for (const auto& step : recording->steps) {
      std::visit(describer, step);
    }
  }
  return describer.result();
}

} // namespace at::mps
