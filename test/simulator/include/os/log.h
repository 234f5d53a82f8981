// Logs for a console that does not exist here: they can be made and released,
// and report themselves as disabled.
#pragma once

#include <os/object.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct os_log_s* os_log_t;
typedef uint8_t os_log_type_t;
enum {
  OS_LOG_TYPE_DEFAULT = 0x00,
  OS_LOG_TYPE_INFO = 0x01,
  OS_LOG_TYPE_DEBUG = 0x02,
  OS_LOG_TYPE_ERROR = 0x10,
  OS_LOG_TYPE_FAULT = 0x11,
};

#ifdef __cplusplus
extern "C" {
#endif
extern os_log_t os_log_create(const char* subsystem, const char* category);
extern bool os_log_type_enabled(os_log_t log, os_log_type_t type);
#ifdef __cplusplus
}
#endif

static inline void _os_log_discard(const char* format, ...) {
  (void)format;
}

#define OS_LOG_DEFAULT ((os_log_t)0)
#define os_log_with_type(log, type, ...) ((void)(log), _os_log_discard(__VA_ARGS__))
#define os_log(log, ...) ((void)(log), _os_log_discard(__VA_ARGS__))
#define os_log_info(log, ...) ((void)(log), _os_log_discard(__VA_ARGS__))
#define os_log_debug(log, ...) ((void)(log), _os_log_discard(__VA_ARGS__))
#define os_log_error(log, ...) ((void)(log), _os_log_discard(__VA_ARGS__))
#define os_log_fault(log, ...) ((void)(log), _os_log_discard(__VA_ARGS__))
