#pragma once

#import <Metal/Metal.h>

#include "metal/dispatch.h"

@class SimulatedBuffer;
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
