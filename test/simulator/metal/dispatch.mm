#import "metal/dispatch.h"

#include "foundation/object_memory.h"
#include "metal/buffer.h"
#include "metal/kernel_checks.h"
#include "metal/library.h"
#include "metal/memory.h"
#include "support/error.h"
#include "support/settings.h"

namespace mps_simulator {

void run_kernel(const KernelRun& run) {
  const auto start = [&] {
    run.function->run({run.grid, run.threadgroup, run.buffers, run.threadgroup_lengths, next_thread_order()});
  };
  if (!settings().validation) {
    start();
    return;
  }
  KernelChecks checks(run);
  try {
    start();
  } catch (const shader::KernelFault& fault) {
    checks.explain(fault);
    throw;
  }
  checks.finish();
}

void check_buffer_index(NSUInteger index, const char* function) {
  if (__builtin_expect(index >= kBufferSlots, 0)) {
    violation("%s: index %lu is not one of 0 to %zu", function, index, kBufferSlots - 1);
  }
}

void check_binding_offset(const SimulatedBuffer* buffer, NSUInteger offset, const char* function) {
  if (settings().validation && offset >= buffer->_length) {
    violation("%s: offset %lu is beyond the buffer's %lu bytes", function, offset, buffer->_length);
  }
}

void check_threadgroup_memory_length(NSUInteger length, const char* function) {
  if (!settings().validation) {
    return;
  }
  if (length % kThreadgroupMemoryAlignment) {
    violation("%s: length %lu is not a multiple of %zu", function, length, kThreadgroupMemoryAlignment);
  }
  if (length > kMaximumThreadgroupMemory) {
    violation("%s: length %lu exceeds the device's %zu bytes of threadgroup memory",
              function,
              length,
              kMaximumThreadgroupMemory);
  }
}

void check_threadgroup_size(const SimulatedComputePipelineState* pipeline, MTLSize threads, const char* function) {
  const char* name = pipeline->_function->name().c_str();
  if (!threads.width || !threads.height || !threads.depth) {
    violation(
        "%s: threadsPerThreadgroup {%lu, %lu, %lu} has a zero", function, threads.width, threads.height, threads.depth);
  }
  const NSUInteger limit = pipeline->_maxTotalThreadsPerThreadgroup;
  const auto product = static_cast<unsigned __int128>(threads.width) * threads.height * threads.depth;
  if (threads.width > limit || threads.height > limit || threads.depth > limit || product > limit) {
    violation(
        "%s: threadsPerThreadgroup {%lu, %lu, %lu} exceeds the %lu threads that "
        "the pipeline of %s allows",
        function,
        threads.width,
        threads.height,
        threads.depth,
        limit,
        name);
  }
}

void check_bindings(const SimulatedComputePipelineState* pipeline,
                    const ComputeBindings& bindings,
                    SimulatedBuffer* const* buffers,
                    const char* function) {
  const char* name = pipeline->_function->name().c_str();
  for (const auto& argument : pipeline->_function->arguments()) {
    const uint32_t bit = 1u << argument.index;
    if (argument.threadgroup) {
      if (!(bindings.threadgroup_mask & bit)) {
        violation(
            "%s: no threadgroup memory length is set at index %u for argument "
            "%s of %s",
            function,
            argument.index,
            argument.name.c_str(),
            name);
      }
      continue;
    }
    if (!(bindings.buffer_mask & bit)) {
      violation("%s: no buffer is bound at index %u for argument %s of %s",
                function,
                argument.index,
                argument.name.c_str(),
                name);
    }
    const auto length = bindings.buffers[argument.index].length;
    if (length < argument.minimum_length) {
      violation("%s: %lu bytes are bound at index %u, but argument %s of %s needs %lu",
                function,
                length,
                argument.index,
                argument.name.c_str(),
                name,
                argument.minimum_length);
    }
    if (buffers[argument.index] && destroyed_object_class(buffers[argument.index])) {
      violation(
          "%s: the buffer bound at index %u for argument %s of %s has been "
          "released",
          function,
          argument.index,
          argument.name.c_str(),
          name);
    }
    if (argument.in_words && buffers[argument.index]) {
      const auto* pointer = static_cast<const char*>(bindings.buffers[argument.index].pointer);
      const auto offset = static_cast<size_t>(pointer - buffers[argument.index]->_pointer);
      if (offset % kConstantOffsetAlignment) {
        violation(
            "%s: the offset %zu at index %u for argument %s of %s, in the constant address space, is not a multiple "
            "of %zu",
            function,
            offset,
            argument.index,
            argument.name.c_str(),
            name,
            kConstantOffsetAlignment);
      }
    }
  }
  NSUInteger memory = pipeline->_staticThreadgroupMemoryLength;
  for (unsigned i = 0; i < slots_up_to(bindings.threadgroup_mask); ++i) {
    memory += bindings.threadgroup_lengths[i];
  }
  if (memory > kMaximumThreadgroupMemory) {
    violation("%s: %s uses %lu bytes of threadgroup memory and the device has %zu",
              function,
              name,
              memory,
              kMaximumThreadgroupMemory);
  }
}

} // namespace mps_simulator
