// Vectors of three components, which take the room of four, as in Metal.
#pragma once

typedef __attribute__((__ext_vector_type__(3))) unsigned int simd_uint3;
typedef __attribute__((__ext_vector_type__(3))) unsigned long simd_ulong3;
