// Signposts go to Instruments on a Mac. Here the last ones are kept, and
// mps_simulator.signposts() lists them.
#pragma once

#include <os/log.h>

typedef uint64_t os_signpost_id_t;
typedef uint8_t os_signpost_type_t;
enum {
  OS_SIGNPOST_EVENT = 0x00,
  OS_SIGNPOST_INTERVAL_BEGIN = 0x01,
  OS_SIGNPOST_INTERVAL_END = 0x02,
};

#define OS_SIGNPOST_ID_NULL ((os_signpost_id_t)0)
#define OS_SIGNPOST_ID_INVALID ((os_signpost_id_t)~0)
#define OS_SIGNPOST_ID_EXCLUSIVE ((os_signpost_id_t)0xEEEEB0B5B2B2EEEE)

#ifdef __cplusplus
extern "C" {
#endif
extern bool os_signpost_enabled(os_log_t log);
extern os_signpost_id_t os_signpost_id_generate(os_log_t log);
extern os_signpost_id_t os_signpost_id_make_with_pointer(os_log_t log, const void* pointer);
// After the name follow a format like printf's and its arguments, or a null.
extern void _os_signpost_record(os_log_t log, os_signpost_type_t type, os_signpost_id_t id, const char* name, ...);
#ifdef __cplusplus
}
#endif

#define os_signpost_event_emit(log, id, ...) \
  _os_signpost_record(log, OS_SIGNPOST_EVENT, id, __VA_ARGS__, (const char*)0)
#define os_signpost_interval_begin(log, id, ...) \
  _os_signpost_record(log, OS_SIGNPOST_INTERVAL_BEGIN, id, __VA_ARGS__, (const char*)0)
#define os_signpost_interval_end(log, id, ...) \
  _os_signpost_record(log, OS_SIGNPOST_INTERVAL_END, id, __VA_ARGS__, (const char*)0)
