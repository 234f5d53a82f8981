#import "metal/indirect_command_buffer.h"

#include "foundation/object_memory.h"
#include "metal/buffer.h"
#include "metal/dispatch.h"
#include "metal/library.h"
#include "support/error.h"
#include "support/random.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

namespace mps_simulator {

namespace {

// A command with what it inherits.
struct Resolved {
  NSUInteger index;
  const IndirectCommand* command;
  const SimulatedComputePipelineState* pipeline;
  const ComputeBindings* bindings;
  SimulatedBuffer* const* buffers;
};

std::string describe_command(NSUInteger index, const SimulatedComputePipelineState* pipeline) {
  return "command " + std::to_string(index) + " (" + pipeline->_function->name() + ")";
}

Resolved resolve(const SimulatedIndirectCommandBuffer* commands,
                 NSUInteger index,
                 const IndirectContext& context,
                 const char* function) {
  const auto& command = commands->_commands[index];
  const auto* pipeline = commands->_inheritPipelineState ? context.pipeline : command.pipeline;
  if (!pipeline) {
    violation("%s: command %lu has no pipeline state", function, index);
  }
  if (destroyed_object_class((id)pipeline)) {
    violation("%s: the pipeline of command %lu has been released", function, index);
  }
  const bool inherits = commands->_inheritBuffers;
  return {index,
          &command,
          pipeline,
          inherits ? &context.bindings : &command.bindings,
          inherits ? context.buffers : command.buffers};
}

// Inherited buffers, but threadgroup memory that the command itself sets.
ComputeBindings merged_bindings(const Resolved& resolved) {
  ComputeBindings bindings = *resolved.bindings;
  const auto& own = resolved.command->bindings;
  for (unsigned i = 0; i < slots_up_to(own.threadgroup_mask); ++i) {
    if (own.threadgroup_mask >> i & 1) {
      bindings.threadgroup_lengths[i] = own.threadgroup_lengths[i];
    }
  }
  bindings.threadgroup_mask |= own.threadgroup_mask;
  return bindings;
}

void check_residency(const Resolved& resolved, const IndirectContext& context, const char* function) {
  for (const auto& argument : resolved.pipeline->_function->arguments()) {
    const auto* buffer = argument.threadgroup ? nullptr : resolved.buffers[argument.index];
    if (!buffer) {
      continue;
    }
    const auto* use = context.residency.find(buffer, buffer->_heap);
    if (use && (use->writes || !argument.writable)) {
      continue;
    }
    violation("%s: %s %s the buffer %s, argument %s, but %s",
              function,
              describe_command(resolved.index, resolved.pipeline).c_str(),
              argument.writable ? "writes" : "reads",
              describe_buffer(buffer).c_str(),
              argument.name.c_str(),
              use ? "it was declared to be only read, as -useHeap: does for all of a heap"
                  : "-useResource:usage: was not called for it");
  }
}

// The commands since the last barrier, by their index.
class Segment {
 public:
  explicit Segment(const char* function) : function_(function) {}

  void barrier() {
    memory_.clear();
  }

  void add(const Resolved& resolved) {
    const auto name = std::make_shared<const std::string>(describe_command(resolved.index, resolved.pipeline));
    each_access(*resolved.pipeline->_function,
                resolved.bindings->buffers,
                resolved.buffers,
                kBufferSlots,
                [&](const GpuAccess& access, const shader::Argument&) {
                  memory_.add(
                      access,
                      {resolved.index, access.buffer, name},
                      [&](const Accessor& earlier) { return earlier.id == resolved.index; },
                      [&](const Accessor& earlier, bool wrote) {
                        violation(
                            "%s: %s and %s conflict: one writes the buffer %s, which the "
                            "other %s, and there is no barrier between them",
                            function_,
                            earlier.name->c_str(),
                            name->c_str(),
                            describe_buffer(access.buffer).c_str(),
                            wrote && access.writes ? "writes too" : "reads");
                      });
                });
  }

 private:
  const char* function_;
  AccessMap memory_;
};

bool is_empty(const IndirectCommand& command) {
  return command.kind == IndirectCommand::Grid::none;
}

void run_command(const Resolved& resolved, const IndirectContext& context) {
  const auto& command = *resolved.command;
  ComputeBindings bindings = merged_bindings(resolved);
  shader::Size3 grid{command.grid.width, command.grid.height, command.grid.depth};
  const shader::Size3 threadgroup{command.threadgroup.width, command.threadgroup.height, command.threadgroup.depth};
  if (command.kind == IndirectCommand::Grid::threadgroups) {
    grid.x *= threadgroup.x;
    grid.y *= threadgroup.y;
    grid.z *= threadgroup.z;
  }
  if (grid.x && grid.y && grid.z) {
    run_kernel({resolved.pipeline->_function.get(),
                grid,
                threadgroup,
                bindings.buffers,
                bindings.threadgroup_lengths,
                bindings.bytes_mask,
                context.residency});
  }
}

} // namespace

void check_indirect_commands(const SimulatedIndirectCommandBuffer* commands,
                             NSRange range,
                             const IndirectContext& context,
                             const char* function) {
  Segment segment(function);
  for (NSUInteger i = range.location; i < NSMaxRange(range); ++i) {
    const auto& command = commands->_commands[i];
    if (command.barrier) {
      segment.barrier();
    }
    if (is_empty(command)) {
      continue;
    }
    const auto resolved = resolve(commands, i, context, function);
    if (context.dispatched && !commands->_inheritPipelineState && !context.dispatched->count(resolved.pipeline)) {
      violation(
          "%s: the encoder has not dispatched the pipeline of %s before, and a GPU before the family Apple9 does not "
          "load it by itself",
          function,
          describe_command(i, resolved.pipeline).c_str());
    }
    check_threadgroup_size(resolved.pipeline, command.threadgroup, function);
    check_bindings(resolved.pipeline, merged_bindings(resolved), resolved.buffers, function);
    if (!commands->_inheritBuffers) {
      check_residency(resolved, context, function);
    }
    segment.add(resolved);
  }
}

void collect_indirect_accesses(const SimulatedIndirectCommandBuffer* commands,
                               NSRange range,
                               const IndirectContext& context,
                               std::vector<GpuAccess>& accesses) {
  const auto end = std::min<NSUInteger>(NSMaxRange(range), commands->_commands.size());
  for (NSUInteger i = range.location; i < end; ++i) {
    const auto& command = commands->_commands[i];
    const auto* pipeline = commands->_inheritPipelineState ? context.pipeline : command.pipeline;
    if (is_empty(command) || !pipeline || destroyed_object_class((id)pipeline)) {
      continue;
    }
    const auto resolved = resolve(commands, i, context, __func__);
    each_access(*pipeline->_function,
                resolved.bindings->buffers,
                resolved.buffers,
                kBufferSlots,
                [&](const GpuAccess& access, const shader::Argument&) {
                  if (!destroyed_object_class((id)access.buffer)) {
                    accesses.push_back(access);
                  }
                });
  }
}

void run_indirect_commands(const SimulatedIndirectCommandBuffer* commands,
                           NSRange range,
                           const IndirectContext& context,
                           const char* function) {
  if (settings().validation) {
    check_indirect_commands(commands, range, context, function);
  }
  std::vector<Resolved> segment;
  const auto run_segment = [&] {
    static SeededGenerator order; // Only the GPU's thread comes here.
    std::shuffle(segment.begin(), segment.end(), order.get());
    for (const auto& resolved : segment) {
      run_command(resolved, context);
    }
    segment.clear();
  };
  for (NSUInteger i = range.location; i < NSMaxRange(range); ++i) {
    const auto& command = commands->_commands[i];
    if (command.barrier) {
      run_segment();
    }
    if (!is_empty(command)) {
      segment.push_back(resolve(commands, i, context, function));
    }
  }
  run_segment();
}

} // namespace mps_simulator
