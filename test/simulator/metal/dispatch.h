#pragma once

#import <Metal/Metal.h>

#include "metal/access_map.h"
#include "metal/command_list.h"
#include "metal/memory.h"
#include "metal/residency.h"
#include "shader/shader.h"

#include <cstring>
#include <string>

@class SimulatedBuffer;

namespace mps_simulator {

// One kernel's run, with what the checks need to know.
struct KernelRun {
  const shader::Function* function;
  shader::Size3 grid;
  shader::Size3 threadgroup;
  shader::BoundBuffer* buffers; // kBufferSlots of them
  const uint64_t* threadgroup_lengths;
  uint32_t bytes_mask; // the indices of -setBytes:
  Residency residency;
};

// With validation on, an access beyond what is bound or declared used raises a
// violation that names the kernel and the buffer.
void run_kernel(const KernelRun& run);

// What a kernel of an encoder is bound to at the moment.
struct ComputeBindings {
  shader::BoundBuffer buffers[kBufferSlots];
  uint64_t threadgroup_lengths[kBufferSlots] = {};
  // Indices in use, as bits.
  uint32_t buffer_mask = 0;
  uint32_t threadgroup_mask = 0;
  uint32_t bytes_mask = 0; // of those in buffer_mask

  void set_threadgroup_length(NSUInteger index, NSUInteger length) {
    threadgroup_lengths[index] = length;
    const uint32_t others = threadgroup_mask & ~(1u << index);
    threadgroup_mask = others | (length ? 1u << index : 0);
  }
};

inline unsigned slots_up_to(uint32_t mask) {
  return mask ? 32 - __builtin_clz(mask) : 0;
}

inline size_t snapshot_size(const ComputeBindings& bindings) {
  return slots_up_to(bindings.buffer_mask) * (sizeof(shader::BoundBuffer) + sizeof(SimulatedBuffer*)) +
      slots_up_to(bindings.threadgroup_mask) * sizeof(uint64_t);
}

// What a kernel touches through its arguments, by their types: `const` memory it
// reads, other memory it reads and writes, from the binding's offset to the end of
// the buffer.
template <class Visit>
void each_access(const shader::Function& function,
                 const shader::BoundBuffer* bound,
                 SimulatedBuffer* const* buffers,
                 unsigned slots,
                 Visit visit) {
  for (const auto& argument : function.arguments()) {
    if (argument.threadgroup || argument.index >= slots || !buffers[argument.index]) {
      continue;
    }
    const auto& slot = bound[argument.index];
    const auto* begin = static_cast<const char*>(slot.pointer);
    visit(GpuAccess{buffers[argument.index], begin, begin + slot.length, argument.writable}, argument);
  }
}

// A kernel with all that it runs with. `snapshot` is memory of the command's
// list, of snapshot_size().
class DispatchCommand : public GpuCommand {
 public:
  DispatchCommand(const shader::Function* function,
                  const ComputeBindings& bindings,
                  const Residency& residency,
                  SimulatedBuffer* const* buffers,
                  void* snapshot,
                  shader::Size3 grid,
                  shader::Size3 threadgroup)
      : function_(function),
        snapshot_(static_cast<char*>(snapshot)),
        grid_(grid),
        threadgroup_(threadgroup),
        residency_(residency),
        bytes_mask_(bindings.bytes_mask),
        buffers_(slots_up_to(bindings.buffer_mask)),
        threadgroups_(slots_up_to(bindings.threadgroup_mask)) {
    std::memcpy(snapshot_, bindings.buffers, buffers_ * sizeof(shader::BoundBuffer));
    std::memcpy(snapshot_ + buffers_ * sizeof(shader::BoundBuffer),
                bindings.threadgroup_lengths,
                threadgroups_ * sizeof(uint64_t));
    std::memcpy(objects(), buffers, buffers_ * sizeof(SimulatedBuffer*));
  }

  void run() override {
    run_grid(grid_);
  }

  void collect_accesses(std::vector<GpuAccess>& accesses, bool) const override {
    each_access(*function_,
                reinterpret_cast<const shader::BoundBuffer*>(snapshot_),
                objects(),
                buffers_,
                [&](const GpuAccess& access, const shader::Argument&) { accesses.push_back(access); });
  }

  std::string describe() const override {
    return "dispatch " + std::to_string(place) + " (kernel '" + function_->name() + "')";
  }

 protected:
  void run_grid(const shader::Size3& grid) {
    if (!grid.x || !grid.y || !grid.z) {
      return;
    }
    shader::BoundBuffer buffers[kBufferSlots];
    uint64_t lengths[kBufferSlots] = {};
    std::memcpy(buffers, snapshot_, buffers_ * sizeof(shader::BoundBuffer));
    std::memcpy(lengths, snapshot_ + buffers_ * sizeof(shader::BoundBuffer), threadgroups_ * sizeof(uint64_t));
    run_kernel({function_, grid, threadgroup_, buffers, lengths, bytes_mask_, residency_});
  }

  const shader::Size3& threadgroup() const {
    return threadgroup_;
  }

 private:
  // Behind what is bound; null where it is bytes.
  SimulatedBuffer** objects() const {
    return reinterpret_cast<SimulatedBuffer**>(snapshot_ + buffers_ * sizeof(shader::BoundBuffer) +
                                               threadgroups_ * sizeof(uint64_t));
  }

  const shader::Function* function_;
  char* snapshot_;
  shader::Size3 grid_;
  shader::Size3 threadgroup_;
  Residency residency_;
  uint32_t bytes_mask_;
  uint8_t buffers_;
  uint8_t threadgroups_;
};

// Reads its number of threadgroups when it runs.
class IndirectDispatchCommand final : public DispatchCommand {
 public:
  IndirectDispatchCommand(const shader::Function* function,
                          const ComputeBindings& bindings,
                          const Residency& residency,
                          SimulatedBuffer* const* buffers,
                          void* snapshot,
                          const SimulatedBuffer* arguments_buffer,
                          const char* arguments,
                          shader::Size3 threadgroup)
      : DispatchCommand(function, bindings, residency, buffers, snapshot, {0, 0, 0}, threadgroup),
        arguments_buffer_(arguments_buffer),
        arguments_(arguments) {}

  void collect_accesses(std::vector<GpuAccess>& accesses, bool about_to_run) const override {
    DispatchCommand::collect_accesses(accesses, about_to_run);
    accesses.push_back({arguments_buffer_, arguments_, arguments_ + 3 * sizeof(uint32_t), false});
  }

  void run() override {
    uint32_t groups[3];
    std::memcpy(groups, arguments_, sizeof(groups));
    run_grid({groups[0] * threadgroup().x, groups[1] * threadgroup().y, groups[2] * threadgroup().z});
  }

 private:
  const SimulatedBuffer* arguments_buffer_;
  const char* arguments_;
};

} // namespace mps_simulator

@class SimulatedComputePipelineState;

namespace mps_simulator {

// The conditions that a dispatch must meet, whether an encoder makes it or a
// command of an indirect command buffer. Each raises a violation that names
// `function`.

// Not subject to the validation setting: it keeps memory in bounds.
void check_buffer_index(NSUInteger index, const char* function);

void check_binding_offset(const SimulatedBuffer* buffer, NSUInteger offset, const char* function);

void check_threadgroup_memory_length(NSUInteger length, const char* function);

void check_threadgroup_size(const SimulatedComputePipelineState* pipeline, MTLSize threads, const char* function);

// `buffers` are the objects behind the bindings, kBufferSlots of them; null
// where bytes are bound.
void check_bindings(const SimulatedComputePipelineState* pipeline,
                    const ComputeBindings& bindings,
                    SimulatedBuffer* const* buffers,
                    const char* function);

} // namespace mps_simulator
