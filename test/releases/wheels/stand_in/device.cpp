// A device "mps" whose memory is the host's and whose operators are the CPU's, for a build of torch that has no MPS:
// enough for the series' Python and for torch.accelerator to run as they are.

#include "recorder.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/mps/MPSGuardImpl.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/library.h>

#include <cstdlib>

#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>

namespace at::mps {

void MPSGuardImpl::createEvent(mpsEvent_t*, const EventFlag) const {}
void MPSGuardImpl::destroyEvent(void*, const DeviceIndex) const noexcept {}
void MPSGuardImpl::record(void**, const Stream&, const DeviceIndex, const EventFlag) const {}
void MPSGuardImpl::block(void*, const Stream&) const {}
bool MPSGuardImpl::queryEvent(void*) const {
  return true;
}
void MPSGuardImpl::synchronizeEvent(void*) const {}
double MPSGuardImpl::elapsedTime(void*, void*, const DeviceIndex) const {
  return 0;
}
void MPSGuardImpl::synchronizeDevice(const DeviceIndex) const {
  stand_in::note("synchronize");
}

} // namespace at::mps

namespace stand_in {

namespace {

const at::Device kDevice(at::kMPS, 0);
thread_local bool inside = false;

struct Inside {
  bool before = std::exchange(inside, true);
  ~Inside() {
    inside = before;
  }
};

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  at::DataPtr allocate(size_t size) override {
    void* data = size == 0 ? nullptr : std::malloc(size);
    return {data, data, &std::free, kDevice};
  }
  at::DeleterFnPtr raw_deleter() const override {
    return &std::free;
  }
  void copy_data(void* target, const void* source, size_t size) const override {
    default_copy_data(target, source, size);
  }
  bool initialized() override {
    return true;
  }
  void emptyCache(c10::MempoolId_t) override {
    note("empty_cache");
  }
  void recordStream(const at::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    return {};
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    return {0, 0};
  }
};

DeviceMemory memory;
const bool memory_is_set = [] {
  c10::SetAllocator(at::kMPS, &memory);
  return true;
}();

struct HostHooks final : at::MPSHooksInterface {
  void init() const override {}
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasMPS() const override {
    return true;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return 1;
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  bool isOnMacOSorNewer(unsigned, unsigned) const override {
    return true;
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    // that from which the CPU's operators draw
    return at::detail::getDefaultCPUGenerator();
  }
  at::Allocator* getMPSDeviceAllocator() const override {
    return &memory;
  }
  void deviceSynchronize() const override {
    note("synchronize");
  }
  void emptyCache() const override {
    note("empty_cache");
  }
  size_t getCurrentAllocatedMemory() const override {
    return 0;
  }
};

at::Tensor onHost(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_mps()) {
    return tensor;
  }
  return at::from_blob(
      tensor.storage().mutable_data(),
      tensor.sizes(),
      tensor.strides(),
      tensor.storage_offset(),
      [tensor](void*) {},
      tensor.options().device(at::kCPU));
}

void copyOf(const at::Tensor& target, const at::Tensor& source) {
  Inside here;
  if (target.numel() != 0) {
    onHost(target).copy_(onHost(source));
  }
}

at::Tensor emptyOnDevice(
    at::IntArrayRef size,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>,
    std::optional<at::MemoryFormat> format) {
  const auto type = dtype.value_or(at::get_default_dtype_as_scalartype());
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::MPS), type, format);
}

at::Tensor emptyStrided(
    at::IntArrayRef size,
    at::IntArrayRef stride,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>) {
  const auto type = dtype.value_or(at::get_default_dtype_as_scalartype());
  return at::detail::empty_strided_generic(size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::MPS), type);
}

// The memory is kept, and not the tensor, whose owner may want to see it go.
c10::IValue withoutOwner(const c10::IValue& value) {
  const auto one = [](const at::Tensor& tensor) {
    return tensor.defined() ? at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(), true))
                            : tensor;
  };
  if (value.isTensor()) {
    return one(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorList()) {
      list.push_back(one(tensor));
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      list.push_back(tensor ? std::make_optional(one(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

void record(
    std::vector<Call>& calls,
    const c10::OperatorHandle& op,
    c10::ArrayRef<c10::IValue> inputs,
    c10::ArrayRef<c10::IValue> outputs) {
  Call call{op, {}, {}};
  for (const auto& value : inputs) {
    call.inputs.push_back(withoutOwner(value));
  }
  for (const auto& value : outputs) {
    call.outputs.push_back(withoutOwner(value));
  }
  calls.push_back(std::move(call));
}

const c10::OperatorHandle& copyOperator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  return op;
}

at::Tensor& copyInto(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (!inside && source.is_mps() && !self.is_mps()) {
    hostReads();
  }
  if (auto* calls = inside ? nullptr : recording(); calls && self.is_mps()) {
    record(*calls, copyOperator(), {self, source, non_blocking}, {self});
  }
  copyOf(self, source);
  return self;
}

at::Tensor copyFrom(const at::Tensor& self, const at::Tensor& target, bool) {
  copyOf(target, self);
  return target;
}

at::Tensor copyFromAndResize(const at::Tensor& self, const at::Tensor& target) {
  if (self.sizes() != target.sizes()) {
    at::native::resize_(target, self.sizes(), std::nullopt);
  }
  copyOf(target, self);
  return target;
}

at::Scalar localScalar(const at::Tensor& self) {
  if (!inside) {
    hostReads();
  }
  Inside here;
  return onHost(self).item();
}

void runOnHost(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto* calls = inside ? nullptr : recording();
  const size_t arguments = op.schema().arguments().size();
  std::vector<c10::IValue> inputs(stack->end() - static_cast<int64_t>(arguments), stack->end());
  {
    Inside here;
    at::native::cpu_fallback(op, stack);
  }
  if (calls) {
    const size_t results = op.schema().returns().size();
    std::vector<c10::IValue> outputs(stack->end() - static_cast<int64_t>(results), stack->end());
    record(*calls, op, inputs, outputs);
  }
}

} // namespace

void repeat(const Call& call) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  torch::jit::Stack stack(call.inputs.begin(), call.inputs.end());
  call.op.callBoxed(stack);
  for (size_t i = 0; i < call.outputs.size(); i++) {
    if (call.outputs[i].isTensor() && call.outputs[i].toTensor().defined()) {
      copyOf(call.outputs[i].toTensor(), stack[i].toTensor());
    }
  }
}

} // namespace stand_in

namespace at {
// by the name that torch looks for
using MPSHooks = stand_in::HostHooks;
REGISTER_MPS_HOOKS(MPSHooks)
} // namespace at

namespace stand_in {

TORCH_LIBRARY_IMPL(_, MPS, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&runOnHost>());
}

TORCH_LIBRARY_IMPL(aten, MPS, m) {
  m.impl("empty.memory_format", &emptyOnDevice);
  m.impl("empty_strided", &emptyStrided);
  m.impl("copy_", &copyInto);
  m.impl("_copy_from", &copyFrom);
  m.impl("_copy_from_and_resize", &copyFromAndResize);
  m.impl("_local_scalar_dense", &localScalar);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("resize_", &at::native::resize_);
  m.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
}

} // namespace stand_in
