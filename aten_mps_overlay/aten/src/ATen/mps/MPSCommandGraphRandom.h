#pragma once

// Random numbers in a graph capture: each replay draws from the generator
// again. Objective-C++ only.

#include <ATen/mps/MPSGeneratorImpl.h>

#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

namespace at::mps {

/// The number of the calling thread's capture, or 0.
uint64_t captureNumber();

/// Raises if a replay could not draw from the generator as the block does. Put
/// before its state advances.
void checkDrawInCapture(const MPSGeneratorImpl& generator);

/// Raises during a capture, unless its block made the generator: `what` gives
/// it a state that a replay would not.
void assertNotDrawnInCapture(
    const MPSGeneratorImpl& generator,
    const char* what);

/// Put after the state advanced, with the generator's mutex held. During a
/// capture returns the data that a graph has to read the state from, which each
/// replay advances and fills in again; otherwise nil.
MPSGraphTensorData* recordDraw(MPSGeneratorImpl* generator);

/// Put before the offset of a generator moves on. During a capture it is taken
/// for a draw by a kernel that computes its numbers from the seed and the
/// offset: the kernel must take both, two 64-bit integers, by one setBytes:.
/// Each replay moves the offset on by as much. Raises if the offset goes back.
void recordOffsetDraw(MPSGeneratorImpl& generator, uint64_t next_offset);

} // namespace at::mps
