// Grand Central Dispatch as far as Metal code needs it. See foundation/dispatch*.mm
// for where the simulator is stricter than the original.
#pragma once

#include <Availability.h>
#include <os/object.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __OBJC__
#include <Foundation/NSObject.h>

@protocol OS_dispatch_object <NSObject>
@end
#define DISPATCH_DECLARE(name, base) \
  @protocol OS_                      \
  ##name<OS_##base> @end             \
  typedef NSObject<OS_##name>* name##_t
DISPATCH_DECLARE(dispatch_queue, dispatch_object);
DISPATCH_DECLARE(dispatch_data, dispatch_object);
DISPATCH_DECLARE(dispatch_queue_attr, dispatch_object);
#undef DISPATCH_DECLARE
typedef NSObject<OS_dispatch_object>* dispatch_object_t;
#else
typedef struct dispatch_queue_s* dispatch_queue_t;
typedef struct dispatch_data_s* dispatch_data_t;
typedef struct dispatch_queue_attr_s* dispatch_queue_attr_t;
typedef void* dispatch_object_t;
#endif

typedef void (^dispatch_block_t)(void);
typedef void (*dispatch_function_t)(void* context);

#define DISPATCH_QUEUE_SERIAL ((dispatch_queue_attr_t)0)

#ifdef __cplusplus
extern "C" {
#endif

extern dispatch_queue_t dispatch_queue_create(const char* label, dispatch_queue_attr_t attributes);
extern dispatch_queue_t dispatch_get_main_queue(void);

extern void dispatch_sync(dispatch_queue_t queue, dispatch_block_t block);
extern void dispatch_async(dispatch_queue_t queue, dispatch_block_t block);
extern void dispatch_queue_set_specific(dispatch_queue_t queue,
                                        const void* key,
                                        void* context,
                                        dispatch_function_t destructor);
extern void* dispatch_get_specific(const void* key);

extern dispatch_data_t dispatch_data_create(const void* buffer,
                                            size_t size,
                                            dispatch_queue_t queue,
                                            dispatch_block_t destructor);

extern void dispatch_release(dispatch_object_t object);

#ifdef __cplusplus
}
#endif
