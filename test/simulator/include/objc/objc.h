// Basic types of the language, taken from the ObjFW runtime.
#pragma once

#define OBJC_NO_PERSONALITY_DECLARATION 1
#include <ObjFWRT/ObjFWRT.h>

// ObjFW casts nil to `id`, which would not convert to C++ pointers and
// would pick other overloads than on a Mac.
#undef nil
#undef Nil
#undef YES
#undef NO
#ifdef __cplusplus
#define nil nullptr
#define Nil nullptr
#else
#define nil ((void*)0)
#define Nil ((void*)0)
#endif
#define YES __objc_yes
#define NO __objc_no

#define OBJC_BOOL_IS_BOOL 1
#define OBJC_EXTERN extern "C"
#define OBJC_EXPORT extern "C"
