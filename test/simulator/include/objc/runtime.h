#pragma once

#include <objc/objc.h>

#ifdef __cplusplus
extern "C" {
#endif

id class_createInstance(Class cls, size_t extra_bytes);

#ifdef __cplusplus
}
#endif
