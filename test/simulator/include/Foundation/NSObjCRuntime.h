#pragma once

#include <Availability.h>
#include <CoreFoundation/CFBase.h>
#include <TargetConditionals.h>
#include <limits.h>
#include <objc/objc.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef long NSInteger;
typedef unsigned long NSUInteger;
typedef double NSTimeInterval;

#define NSIntegerMax LONG_MAX
#define NSIntegerMin LONG_MIN
#define NSUIntegerMax ULONG_MAX
static const NSInteger NSNotFound = NSIntegerMax;

#ifdef __cplusplus
#define FOUNDATION_EXTERN extern "C"
#else
#define FOUNDATION_EXTERN extern
#endif
#define FOUNDATION_EXPORT FOUNDATION_EXTERN

#define NS_ENUM(_type, _name) \
  enum _name : _type _name;   \
  enum _name : _type
#define NS_CLOSED_ENUM NS_ENUM
// In C++ a set of flags is a plain integer, so that `A | B` keeps its type.
#define NS_OPTIONS(_type, _name) \
  _type _name;                   \
  enum : _type
#define NS_ERROR_ENUM(_domain, _name) NS_ENUM(NSInteger, _name)
#define NS_TYPED_ENUM
#define NS_STRING_ENUM

#define NS_ASSUME_NONNULL_BEGIN _Pragma("clang assume_nonnull begin")
#define NS_ASSUME_NONNULL_END _Pragma("clang assume_nonnull end")
#define NS_RETURNS_RETAINED __attribute__((ns_returns_retained))
#define NS_RETURNS_NOT_RETAINED __attribute__((ns_returns_not_retained))
#define NS_RETURNS_INNER_POINTER
#define NS_DESIGNATED_INITIALIZER
#define NS_UNAVAILABLE __attribute__((unavailable))
#define NS_REQUIRES_NIL_TERMINATION __attribute__((sentinel))
#define NS_FORMAT_FUNCTION(F, A)
#define NS_NOESCAPE __attribute__((noescape))
#define NS_INLINE static inline
#define NS_SWIFT_NAME(...)
#define NS_SWIFT_UNAVAILABLE(...)
#define NS_REFINED_FOR_SWIFT
#define NS_SWIFT_SENDABLE
#define NS_SWIFT_ASYNC(...)
#define NS_SWIFT_DISABLE_ASYNC
#define NS_UNSAFE_UNRETAINED
#define NS_ROOT_CLASS __attribute__((objc_root_class))
#define NS_BLOCK_ASSERTIONS 1

#ifndef MIN
#define MIN(A, B) ((A) < (B) ? (A) : (B))
#endif
#ifndef MAX
#define MAX(A, B) ((A) < (B) ? (B) : (A))
#endif

#ifdef __OBJC__
@class NSString;

FOUNDATION_EXPORT Class NSClassFromString(NSString* name);
FOUNDATION_EXPORT void NSLog(NSString* format, ...);
#endif
