// All of the Metal standard library that the simulator has, in one header: it is
// precompiled once and every shader is compiled on top of it.
#pragma once
#include "metal_simulator/scalars.h"
#include "metal_simulator/vectors.h"
#include "metal_simulator/math.h"
#include "metal_simulator/atomics.h"
#include "metal_simulator/lanes.h"
#include "metal_simulator/kernels.h"

namespace metal {
using ::as_type;
using ::bfloat, ::half, ::uchar, ::ushort, ::uint, ::ulong, ::size_t, ::ptrdiff_t;
using ::int8_t, ::int16_t, ::int32_t, ::int64_t, ::uint8_t, ::uint16_t, ::uint32_t, ::uint64_t;
#define MPS_SIMULATOR_NAMES(type)        \
  using ::type##2, ::type##3, ::type##4; \
  using ::packed_##type##2, ::packed_##type##3, ::packed_##type##4;
MPS_SIMULATOR_NAMES(bool)
MPS_SIMULATOR_NAMES(char)
MPS_SIMULATOR_NAMES(uchar)
MPS_SIMULATOR_NAMES(short)
MPS_SIMULATOR_NAMES(ushort)
MPS_SIMULATOR_NAMES(int)
MPS_SIMULATOR_NAMES(uint)
MPS_SIMULATOR_NAMES(long)
MPS_SIMULATOR_NAMES(ulong)
MPS_SIMULATOR_NAMES(half)
MPS_SIMULATOR_NAMES(bfloat)
MPS_SIMULATOR_NAMES(float)
#undef MPS_SIMULATOR_NAMES
using ::float2x2, ::float2x4, ::float3x3, ::float4x4;
} // namespace metal
