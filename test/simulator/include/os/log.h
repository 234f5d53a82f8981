// Logs can be made and released: signposts go to one.
#pragma once

#include <os/object.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct os_log_s* os_log_t;

#ifdef __cplusplus
extern "C" {
#endif
extern os_log_t os_log_create(const char* subsystem, const char* category);
#ifdef __cplusplus
}
#endif
