#pragma once

#import <Foundation/Foundation.h>

#ifdef __cplusplus
#define MTL_EXTERN extern "C" __attribute__((visibility("default")))
#else
#define MTL_EXTERN extern __attribute__((visibility("default")))
#endif
#define MTL_EXPORT
#define MTL_INLINE static inline
