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
DISPATCH_DECLARE(dispatch_group, dispatch_object);
DISPATCH_DECLARE(dispatch_semaphore, dispatch_object);
DISPATCH_DECLARE(dispatch_data, dispatch_object);
DISPATCH_DECLARE(dispatch_queue_attr, dispatch_object);
#undef DISPATCH_DECLARE
typedef NSObject<OS_dispatch_object>* dispatch_object_t;
typedef NSObject<OS_dispatch_queue>* dispatch_queue_global_t;
typedef NSObject<OS_dispatch_queue>* dispatch_queue_main_t;
typedef NSObject<OS_dispatch_queue>* dispatch_queue_serial_t;
#else
typedef struct dispatch_queue_s* dispatch_queue_t;
typedef struct dispatch_group_s* dispatch_group_t;
typedef struct dispatch_semaphore_s* dispatch_semaphore_t;
typedef struct dispatch_data_s* dispatch_data_t;
typedef struct dispatch_queue_attr_s* dispatch_queue_attr_t;
typedef void* dispatch_object_t;
#endif

typedef void (^dispatch_block_t)(void);
typedef void (*dispatch_function_t)(void* context);
typedef uint64_t dispatch_time_t;
typedef long dispatch_once_t;
typedef intptr_t dispatch_queue_priority_t;
typedef unsigned int qos_class_t;
typedef unsigned int dispatch_qos_class_t;

enum : dispatch_time_t {
  DISPATCH_TIME_NOW = 0ull,
  DISPATCH_TIME_FOREVER = ~0ull,
};
enum {
  QOS_CLASS_USER_INTERACTIVE = 0x21,
  QOS_CLASS_USER_INITIATED = 0x19,
  QOS_CLASS_DEFAULT = 0x15,
  QOS_CLASS_UTILITY = 0x11,
  QOS_CLASS_BACKGROUND = 0x09,
};

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull
#define USEC_PER_SEC 1000000ull

#define DISPATCH_QUEUE_PRIORITY_HIGH 2
#define DISPATCH_QUEUE_PRIORITY_DEFAULT 0
#define DISPATCH_QUEUE_PRIORITY_LOW (-2)
#define DISPATCH_QUEUE_PRIORITY_BACKGROUND INT16_MIN

#define DISPATCH_QUEUE_SERIAL ((dispatch_queue_attr_t)0)
#define DISPATCH_TARGET_QUEUE_DEFAULT ((dispatch_queue_t)0)
#define DISPATCH_DATA_DESTRUCTOR_DEFAULT ((dispatch_block_t)0)

#ifdef __cplusplus
extern "C" {
#endif

extern dispatch_queue_attr_t _dispatch_queue_attr_concurrent(void);
#define DISPATCH_QUEUE_CONCURRENT (_dispatch_queue_attr_concurrent())
extern dispatch_block_t _dispatch_data_destructor_free(void);
#define DISPATCH_DATA_DESTRUCTOR_FREE (_dispatch_data_destructor_free())

extern dispatch_queue_t dispatch_queue_create(const char* label, dispatch_queue_attr_t attributes);
extern dispatch_queue_t dispatch_queue_create_with_target(const char* label,
                                                          dispatch_queue_attr_t attributes,
                                                          dispatch_queue_t target);
extern dispatch_queue_attr_t dispatch_queue_attr_make_with_qos_class(dispatch_queue_attr_t attributes,
                                                                     dispatch_qos_class_t qos_class,
                                                                     int relative_priority);
extern const char* dispatch_queue_get_label(dispatch_queue_t queue);
#define DISPATCH_CURRENT_QUEUE_LABEL ((dispatch_queue_t)0)
extern dispatch_queue_t dispatch_get_main_queue(void);
extern dispatch_queue_t dispatch_get_global_queue(intptr_t identifier, uintptr_t flags);

extern void dispatch_sync(dispatch_queue_t queue, dispatch_block_t block);
extern void dispatch_sync_f(dispatch_queue_t queue, void* context, dispatch_function_t work);
extern void dispatch_async(dispatch_queue_t queue, dispatch_block_t block);
extern void dispatch_async_f(dispatch_queue_t queue, void* context, dispatch_function_t work);
extern void dispatch_barrier_sync(dispatch_queue_t queue, dispatch_block_t block);
extern void dispatch_barrier_async(dispatch_queue_t queue, dispatch_block_t block);
extern void dispatch_async_and_wait(dispatch_queue_t queue, dispatch_block_t block);
extern void dispatch_after(dispatch_time_t when, dispatch_queue_t queue, dispatch_block_t block);
extern void dispatch_apply(size_t iterations, dispatch_queue_t queue, void (^block)(size_t iteration));
extern void dispatch_assert_queue(dispatch_queue_t queue);
extern void dispatch_assert_queue_not(dispatch_queue_t queue);
extern void dispatch_queue_set_specific(dispatch_queue_t queue,
                                        const void* key,
                                        void* context,
                                        dispatch_function_t destructor);
extern void* dispatch_queue_get_specific(dispatch_queue_t queue, const void* key);
extern void* dispatch_get_specific(const void* key);

extern void dispatch_once(dispatch_once_t* predicate, dispatch_block_t block);
extern void dispatch_once_f(dispatch_once_t* predicate, void* context, dispatch_function_t function);

extern dispatch_group_t dispatch_group_create(void);
extern void dispatch_group_enter(dispatch_group_t group);
extern void dispatch_group_leave(dispatch_group_t group);
extern intptr_t dispatch_group_wait(dispatch_group_t group, dispatch_time_t timeout);
extern void dispatch_group_async(dispatch_group_t group, dispatch_queue_t queue, dispatch_block_t block);
extern void dispatch_group_notify(dispatch_group_t group, dispatch_queue_t queue, dispatch_block_t block);

extern dispatch_semaphore_t dispatch_semaphore_create(intptr_t value);
extern intptr_t dispatch_semaphore_wait(dispatch_semaphore_t semaphore, dispatch_time_t timeout);
extern intptr_t dispatch_semaphore_signal(dispatch_semaphore_t semaphore);

extern dispatch_time_t dispatch_time(dispatch_time_t when, int64_t delta);

extern dispatch_data_t dispatch_data_create(const void* buffer,
                                            size_t size,
                                            dispatch_queue_t queue,
                                            dispatch_block_t destructor);
extern size_t dispatch_data_get_size(dispatch_data_t data);
extern dispatch_data_t dispatch_data_create_map(dispatch_data_t data, const void** buffer, size_t* size);

extern void dispatch_retain(dispatch_object_t object);
extern void dispatch_release(dispatch_object_t object);

#ifdef __cplusplus
}
#endif
