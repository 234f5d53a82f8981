#pragma once

#include <mach-o/loader.h>

#ifdef __cplusplus
extern "C" {
#endif
extern uint8_t* getsectiondata(
    const struct mach_header_64* header,
    const char* segment_name,
    const char* section_name,
    unsigned long* size);
#ifdef __cplusplus
}
#endif
