// Signposts go to Instruments on a Mac. Here nobody listens, so
// os_signpost_enabled() says no and the emitting macros only use their
// arguments.
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
#ifdef __cplusplus
}
#endif

#define os_signpost_event_emit(log, id, ...) \
  ((void)(log), (void)(id), _os_log_discard(__VA_ARGS__))
#define os_signpost_interval_begin(log, id, ...) \
  ((void)(log), (void)(id), _os_log_discard(__VA_ARGS__))
#define os_signpost_interval_end(log, id, ...) \
  ((void)(log), (void)(id), _os_log_discard(__VA_ARGS__))
