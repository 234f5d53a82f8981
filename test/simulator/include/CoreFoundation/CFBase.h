#pragma once

#include <Availability.h>
#include <TargetConditionals.h>
#include <stdint.h>

typedef double CFTimeInterval;
typedef const void* CFTypeRef;

#ifdef __cplusplus
extern "C" {
#endif
extern void CFRelease(CFTypeRef object);
#ifdef __cplusplus
}
#endif
