// Vector types that appear in signatures of MetalPerformanceShaders.
#pragma once

typedef __attribute__((__ext_vector_type__(16))) unsigned char vector_uchar16;
typedef vector_uchar16 simd_uchar16;

// Three components take the room of four, as in Metal.
typedef __attribute__((__ext_vector_type__(3))) unsigned int simd_uint3;
typedef __attribute__((__ext_vector_type__(3))) unsigned long simd_ulong3;
