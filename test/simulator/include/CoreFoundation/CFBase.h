#pragma once

#include <Availability.h>
#include <TargetConditionals.h>
#include <stdint.h>

typedef double CFTimeInterval;
typedef CFTimeInterval CFAbsoluteTime;
typedef signed long CFIndex;
typedef unsigned long CFTypeID;
typedef const void* CFTypeRef;

#ifdef __cplusplus
extern "C" {
#endif
extern CFTypeRef CFRetain(CFTypeRef object);
extern void CFRelease(CFTypeRef object);
extern CFIndex CFGetRetainCount(CFTypeRef object);
extern CFAbsoluteTime CFAbsoluteTimeGetCurrent(void);
#ifdef __cplusplus
}
#endif
