#pragma once

#ifdef __cplusplus
extern "C" {
#endif
extern void os_release(void* object);
#ifdef __cplusplus
}
#endif
