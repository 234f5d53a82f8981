#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSRecording.h>
#include <c10/util/irange.h>

#include <unordered_map>

namespace at::mps {

namespace {

using Step = MPSCommandGraphDump::Step;

std::vector<uint64_t> numbers(MTLSize size) {
  return {size.width, size.height, size.depth};
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
  explicit Describer(const MPSRecording& recording) : recording_(recording) {}

  Step operator()(const MPSKernelStep& kernel) {
    Step step;
    step.kind = "kernel";
    uint64_t bytes = 0;
    uint64_t refreshed_bytes = 0;
    for (const auto& binding : kernel.bindings) {
      (binding.refreshed ? refreshed_bytes : bytes) += binding.bytes.size();
      if (!binding.holds_bytes && binding.buffer.get()) {
        use(step, binding.buffer.get(), binding.offset, "bind");
      }
    }
    for (const auto& resource : kernel.resources) {
      if ([resource.resource.get() conformsToProtocol:@protocol(MTLBuffer)]) {
        use(step, (id<MTLBuffer>)resource.resource.get(), 0, "bind");
      }
    }
    if (kernel.size_kind == MPSKernelStep::Size::INDIRECT) {
      use(step, kernel.indirect_buffer.get(), kernel.indirect_offset, "read");
    } else {
      const bool whole = kernel.size_kind == MPSKernelStep::Size::THREADS;
      step.numbers.emplace_back(whole ? "threads" : "threadgroups", numbers(kernel.size));
    }
    step.numbers.emplace_back("threads_per_threadgroup", numbers(kernel.threadgroup));
    step.numbers.emplace_back("bytes", std::vector<uint64_t>{bytes});
    if (refreshed_bytes > 0) {
      step.numbers.emplace_back("refreshed_bytes", std::vector<uint64_t>{refreshed_bytes});
    }
    return step;
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
    // pools alone have placement heaps
    return buffer.heap && buffer.heap.type == MTLHeapTypePlacement ? "pool" : "own";
  }

  const MPSRecording& recording_;
  std::unordered_map<const void*, size_t> places_;
  std::vector<MPSCommandGraphDump::Buffer> buffers_;
};

} // namespace

MPSCommandGraphDump MPSCommandGraph::dump() const {
  std::lock_guard lock(mutex_);
  MPSCommandGraphDump dump;
  if (!recording_) {
    return dump;
  }
  Describer describer(*recording_);
  @autoreleasepool {
    for (const auto i : c10::irange(recording_->steps.size())) {
      auto step = std::visit(describer, recording_->steps[i]);
      step.op = recording_->operators[i];
      step.line = i < recording_->lines.size() ? recording_->lines[i] : "";
      dump.steps.push_back(std::move(step));
    }
  }
  dump.buffers = describer.takeBuffers();
  return dump;
}

} // namespace at::mps
