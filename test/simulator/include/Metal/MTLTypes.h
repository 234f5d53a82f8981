// Sizes and what else every part of Metal uses.
#pragma once

#include <Foundation/Foundation.h>

#pragma clang assume_nonnull begin

#ifdef __cplusplus
#define MTL_EXTERN extern "C" __attribute__((visibility("default")))
#else
#define MTL_EXTERN extern __attribute__((visibility("default")))
#endif
#define MTL_INLINE static inline

typedef struct {
  NSUInteger width, height, depth;
} MTLSize;

typedef struct {
  uint64_t _impl;
} MTLResourceID;

typedef struct {
  NSUInteger size;
  NSUInteger align;
} MTLSizeAndAlign;

MTL_INLINE MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) {
  MTLSize size = {width, height, depth};
  return size;
}

#pragma clang assume_nonnull end
