#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSCommandGraphDispatches.h>
#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <c10/util/irange.h>

#include <deque>
#include <unordered_map>

namespace at::mps {

namespace {

using Step = MPSCommandGraphDump::Step;

std::vector<uint64_t> numbers(const uint64_t* size) {
  return {size, size + 3};
}

std::string nameOf(MPSDataType type) {
  const auto dtype = scalarTypeOf(type);
  return dtype == c10::ScalarType::Undefined ? "type " + std::to_string(static_cast<uint32_t>(type))
                                             : std::string(c10::getDtypeNames(dtype).first);
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

// Numbers buffers in the order in which the steps use them, so that equal captures give equal dumps.
class Describer {
 public:
  explicit Describer(const MPSCommandGraphRecording& recording) : recording_(recording) {}

  /// Describes a dispatch that runs with the state.
  Step describe(const MPSKernelStep& kernels, const MPSEncoderCall& call, const MPSEncoderState& state) {
    using Kind = MPSEncoderCall::Kind;
    Step step;
    step.kind = "kernel";
    uint64_t bytes = 0;
    uint64_t refreshed_bytes = 0;
    for (const auto& [index, argument] : state.arguments) {
      (argument.refreshed ? refreshed_bytes : bytes) += argument.length;
      if (argument.buffer) {
        use(step, argument.buffer, argument.offset, "bind");
      }
    }
    for (const auto& [resource, usage] : state.new_resources) {
      if ([resource conformsToProtocol:@protocol(MTLBuffer)]) {
        use(step, (id<MTLBuffer>)resource, 0, "bind");
      }
    }
    const auto* sizes = kernels.at<uint64_t>(call);
    if (call.kind == Kind::DISPATCH_INDIRECT) {
      use(step, call.object, sizes[0], "read");
    } else {
      step.numbers.emplace_back(call.kind == Kind::DISPATCH_THREADS ? "threads" : "threadgroups", numbers(sizes));
    }
    const auto* threadgroup = sizes + (call.kind == Kind::DISPATCH_INDIRECT ? 1 : 3);
    step.numbers.emplace_back("threads_per_threadgroup", numbers(threadgroup));
    step.numbers.emplace_back("bytes", std::vector<uint64_t>{bytes});
    if (refreshed_bytes > 0) {
      step.numbers.emplace_back("refreshed_bytes", std::vector<uint64_t>{refreshed_bytes});
    }
    return step;
  }

  Step operator()(const MPSKernelStep&) {
    return {}; // its dispatches are described one by one
  }

  Step operator()(const MPSGraphRunStep& run) {
    Step step;
    step.kind = "graph_run";
    step.tensors.emplace_back("inputs", tensors(run.inputs.get()));
    step.tensors.emplace_back("results", tensors(run.results.get()));
    return step;
  }

  Step operator()(const MPSCopyStep& copy) {
    Step step;
    step.kind = "copy";
    step.numbers.emplace_back("length", std::vector<uint64_t>{copy.length});
    use(step, copy.source.get(), copy.source_offset, "read");
    use(step, copy.destination.get(), copy.destination_offset, "write");
    return step;
  }

  Step operator()(const MPSFillStep& fill) {
    Step step;
    step.kind = "fill";
    step.numbers.emplace_back("length", std::vector<uint64_t>{fill.length});
    step.numbers.emplace_back("value", std::vector<uint64_t>{fill.value});
    use(step, fill.buffer.get(), fill.offset, "write");
    return step;
  }

  Step operator()(const MPSEncodeStep&) {
    Step step;
    step.kind = "kernel_object";
    return step;
  }

  Step operator()(const MPSHostRefreshStep& refresh) {
    Step step;
    step.kind = "host_refresh";
    step.numbers.emplace_back("length", std::vector<uint64_t>{refresh.length});
    use(step, refresh.destination.get(), refresh.offset, "write");
    return step;
  }

  Step operator()(const MPSStatusStep& status) {
    Step step;
    step.kind = "status";
    use(step, status.buffer.get(), status.offset, "read");
    return step;
  }

  std::vector<MPSCommandGraphDump::Buffer> takeBuffers() {
    return std::move(buffers_);
  }

 private:
  void use(Step& step, id<MTLBuffer> buffer, size_t offset, const char* access) {
    const auto [position, is_new] = places_.try_emplace(buffer, buffers_.size());
    if (is_new) {
      buffers_.push_back({buffer.length, memoryOf(buffer)});
    }
    step.uses.push_back({position->second, offset, access});
  }

  const char* memoryOf(id<MTLBuffer> buffer) const {
    if (recording_.pinned.contains(buffer)) {
      return "kept";
    }
    // what the allocator has and a graph uses is kept or lies in its pool
    return getIMPSAllocator()->getUnalignedBufferSize(buffer) >= 0 ? "pool" : "own";
  }

  const MPSCommandGraphRecording& recording_;
  std::unordered_map<const void*, size_t> places_;
  std::vector<MPSCommandGraphDump::Buffer> buffers_;
};

} // namespace

MPSCommandGraphDump MPSCommandGraph::dump() const {
  std::shared_ptr<const MPSCommandGraphRecording> recording;
  {
    // Not held longer: lines take the interpreter's lock.
    std::lock_guard lock(mutex_);
    recording = recording_;
  }
  MPSCommandGraphDump dump;
  if (!recording) {
    return dump;
  }
  Describer describer(*recording);
  // by step, the positions of its origins
  std::vector<std::deque<size_t>> origins(recording->steps.size());
  for (const auto i : c10::irange(recording->origins.size())) {
    origins[recording->origins[i].step].push_back(i);
  }
  const auto add = [&](Step step, std::deque<size_t>& left) {
    const size_t origin = left.front();
    left.pop_front();
    step.op = recording->origins[origin].op;
    step.line = origin < recording->lines.size() ? programLine(recording->lines[origin]) : "";
    dump.steps.push_back(std::move(step));
  };
  @autoreleasepool {
    for (const auto i : c10::irange(recording->steps.size())) {
      const auto& step = recording->steps[i];
      const auto* kernels = std::get_if<MPSKernelStep>(&step);
      if (!kernels) {
        add(std::visit(describer, step), origins[i]);
        continue;
      }
      MPSEncoderState state(*kernels);
      for (const auto& call : kernels->calls) {
        state.apply(call);
        if (call.kind == MPSEncoderCall::Kind::ENCODE_OBJECT) {
          add(describer(MPSEncodeStep{}), origins[i]);
        } else if (call.isWork()) {
          add(describer.describe(*kernels, call, state), origins[i]);
        }
      }
    }
  }
  dump.buffers = describer.takeBuffers();
  return dump;
}

} // namespace at::mps
