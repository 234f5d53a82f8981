// What Python's headers ask about the machine, answered for macOS on arm64.
//
// A Python keeps these answers in a file that its build writes, and no package that can be fetched on Linux has the one
// of a Mac. The headers ask little of it: test/mac_wheel/library/test_python_headers.py lists all macros that they name, and
// each is here, in LEFT_OUT of that test, or defined by pymacconfig.h, which comes last as in a Mac's own file.
#ifndef Py_PYCONFIG_H
#define Py_PYCONFIG_H

#define ALIGNOF_MAX_ALIGN_T 8
#define DOUBLE_IS_LITTLE_ENDIAN_IEEE754 1
#define HAVE_CLOCK_GETTIME 1
#define HAVE_FORK 1
#define HAVE_KQUEUE 1
#define HAVE_LANGINFO_H 1
#define HAVE_PTHREAD_H 1
#define HAVE_SSIZE_T 1
#define HAVE_SYS_SELECT_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_WCHAR_H 1
#define PY_FORMAT_SIZE_T "z"
#define SIZEOF_INT 4
#define SIZEOF_LONG 8
#define SIZEOF_LONG_DOUBLE 8
#define SIZEOF_LONG_LONG 8
#define SIZEOF_PID_T 4
#define SIZEOF_PTHREAD_T 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_UINTPTR_T 8
#define SIZEOF_VOID_P 8
#define SIZEOF_WCHAR_T 4
#define SIZEOF__BOOL 1
#define WITH_DOC_STRINGS 1
#define WITH_PYMALLOC 1

#include "pymacconfig.h"

#endif
