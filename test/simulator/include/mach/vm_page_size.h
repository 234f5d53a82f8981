#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
// 16 KiB, as on Apple silicon: code that rounds to pages must not find the
// host's smaller ones.
extern size_t vm_page_size;
#ifdef __cplusplus
}
#endif
