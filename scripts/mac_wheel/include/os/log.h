// What the backend uses of Apple's unified logging: all of it is in libSystem.
#pragma once

#include <os/object.h>
#include <stdbool.h>
#include <stdint.h>

#if OS_OBJECT_USE_OBJC
OS_OBJECT_DECL(os_log);
#else
typedef struct os_log_s* os_log_t;
#endif

#ifdef __cplusplus
extern "C" {
#endif
extern os_log_t os_log_create(const char* subsystem, const char* category);
#ifdef __cplusplus
}
#endif
