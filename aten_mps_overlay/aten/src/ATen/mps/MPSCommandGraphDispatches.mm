#include <ATen/mps/MPSCommandGraphDispatches.h>
#include <c10/util/irange.h>

namespace at::mps {

void MPSEncoderState::bind(NSUInteger index, id<MTLBuffer> buffer, NSUInteger offset) {
  arguments[index] = {buffer, offset};
}

void MPSEncoderState::use(id<MTLResource> resource, MTLResourceUsage usage) {
  new_resources.emplace_back(resource, usage);
}

void MPSEncoderState::apply(const MPSEncoderCall& call) {
  using Kind = MPSEncoderCall::Kind;
  if (std::exchange(is_after_dispatch_, call.isWork())) {
    new_resources.clear();
  }
  switch (call.kind) {
    case Kind::SET_PIPELINE:
      pipeline = call.object;
      break;
    case Kind::SET_BUFFER:
      bind(call.index, call.object, call.value);
      break;
    case Kind::SET_BUFFERS: {
      const auto* buffers = kernels_.at<id<MTLBuffer>>(call);
      const auto* offsets = reinterpret_cast<const NSUInteger*>(buffers + call.count);
      for (const auto i : c10::irange(call.count)) {
        bind(call.index + i, buffers[i], offsets[i]);
      }
      break;
    }
    case Kind::SET_BUFFER_OFFSET:
      arguments[call.index].offset = call.value;
      break;
    case Kind::SET_BYTES:
      arguments[call.index] = {nil, 0, kernels_.at<void>(call), call.count};
      break;
    case Kind::SET_REFRESHED_BYTES: {
      const auto* refreshed = kernels_.refreshed[call.value].get();
      arguments[call.index] = {nil, 0, nullptr, refreshed->length, refreshed};
      break;
    }
    case Kind::SET_THREADGROUP_MEMORY:
      threadgroup_memory[call.index] = call.value;
      break;
    case Kind::USE_RESOURCE:
      use(call.object, call.count);
      break;
    case Kind::USE_RESOURCES: {
      const auto* resources = kernels_.at<id<MTLResource>>(call);
      for (const auto i : c10::irange(call.count)) {
        use(resources[i], call.index);
      }
      break;
    }
    case Kind::BARRIER:
    case Kind::BARRIER_FOR_RESOURCES:
    case Kind::ENCODE_OBJECT:
    case Kind::DISPATCH_THREADS:
    case Kind::DISPATCH_THREADGROUPS:
    case Kind::DISPATCH_INDIRECT:
      break;
  }
}

} // namespace at::mps
