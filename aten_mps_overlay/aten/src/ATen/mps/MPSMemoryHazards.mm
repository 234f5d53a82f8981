#include <ATen/mps/MPSKernelPipelines.h>
#include <ATen/mps/MPSMemoryHazards.h>
#include <c10/util/irange.h>

#include <algorithm>

namespace at::mps {

bool MPSMemoryHazards::conflicts(const std::vector<Access>& accesses) const {
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return std::any_of(
        accesses_.begin(), accesses_.end(), [&](const Access& earlier) { return access.conflictsWith(earlier); });
  });
}

bool MPSMemoryHazards::add(const std::vector<Access>& accesses, bool must_wait) {
  // looking through all of them must stay cheap
  constexpr size_t most = 1024;
  const bool waits = must_wait || has_unknown_ || accesses_.size() >= most || conflicts(accesses);
  if (waits) {
    clear();
  }
  accesses_.insert(accesses_.end(), accesses.begin(), accesses.end());
  return waits;
}

bool MPSMemoryHazards::add(const MPSKernelStep& kernel, const Arguments& arguments) {
  if (!kernel.resources.empty()) {
    // what lies behind an argument buffer may be anywhere in a resource
    return addUnknown();
  }
  std::vector<Access> accesses;
  const auto add_access = [&](id<MTLBuffer> buffer, NSUInteger offset, bool writes) {
    // how far a kernel goes is not known
    accesses.push_back({rangeOf(buffer, offset, buffer.length), writes});
  };
  const auto access = kernelAccess(kernel.pipeline.get());
  for (const auto i : c10::irange(arguments.size())) {
    const auto& [buffer, offset] = arguments[i];
    const uint64_t bit = uint64_t(1) << kernel.bindings[i].index;
    if (buffer && ((access.reads | access.writes) & bit)) {
      add_access(buffer, offset, access.writes & bit);
    }
  }
  if (kernel.size_kind == MPSKernelStep::Size::INDIRECT) {
    add_access(kernel.indirect_buffer.get(), kernel.indirect_offset, /*writes=*/false);
  }
  return add(accesses, kernel.barrier != 0);
}

bool MPSMemoryHazards::addUnknown() {
  const bool waits = has_unknown_ || !accesses_.empty();
  clear();
  has_unknown_ = true;
  return waits;
}

void MPSMemoryHazards::clear() {
  accesses_.clear();
  has_unknown_ = false;
}

} // namespace at::mps
