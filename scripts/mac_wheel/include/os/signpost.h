// Signposts for Instruments. The functions are libSystem's; the macros do what Apple's do: name and format lie in the
// section where Instruments looks for the strings of logs, and the arguments are packed by the compiler.
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
extern void _os_signpost_emit_with_name_impl(
    void* image,
    os_log_t log,
    os_signpost_type_t type,
    os_signpost_id_t id,
    const char* name,
    const char* format,
    uint8_t* packed,
    uint32_t packed_bytes);
// The image that a call is in; the linker defines it.
extern struct mach_header __dso_handle;
#ifdef __cplusplus
}
#endif

// The arguments after the name are a format and what it prints, or nothing.
#define _MPS_GRAPH_SIGNPOST(log, type, id, name, ...) _MPS_GRAPH_SIGNPOST_WITH(log, type, id, name, "" __VA_ARGS__)
#define _MPS_GRAPH_FORMAT_OF(format, ...) format
#define _MPS_GRAPH_SIGNPOST_WITH(log, type, id, name, ...)                                                 \
  __extension__({                                                                                         \
    __attribute__((section("__TEXT,__oslogstring,cstring_literals"))) static const char name_kept[] = name; \
    __attribute__((section("__TEXT,__oslogstring,cstring_literals"))) static const char format_kept[] =   \
        _MPS_GRAPH_FORMAT_OF(__VA_ARGS__, 0);                                                             \
    alignas(16) uint8_t packed[__builtin_os_log_format_buffer_size(__VA_ARGS__)];                         \
    __builtin_os_log_format(packed, __VA_ARGS__);                                                         \
    _os_signpost_emit_with_name_impl(                                                                     \
        &__dso_handle, log, type, id, name_kept, format_kept, packed, (uint32_t)sizeof(packed));          \
  })

#define os_signpost_event_emit(log, id, ...) _MPS_GRAPH_SIGNPOST(log, OS_SIGNPOST_EVENT, id, __VA_ARGS__)
#define os_signpost_interval_begin(log, id, ...) _MPS_GRAPH_SIGNPOST(log, OS_SIGNPOST_INTERVAL_BEGIN, id, __VA_ARGS__)
#define os_signpost_interval_end(log, id, ...) _MPS_GRAPH_SIGNPOST(log, OS_SIGNPOST_INTERVAL_END, id, __VA_ARGS__)
