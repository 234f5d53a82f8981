// The part of Foundation that the MPS backend of PyTorch and its neighbours use,
// on the ObjFW runtime.
#pragma once

// The original brings these along, and code relies on it.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <Foundation/NSObjCRuntime.h>

#ifdef __OBJC__
#include <Foundation/NSArray.h>
#include <Foundation/NSError.h>
#include <Foundation/NSObject.h>
#include <Foundation/NSProcessInfo.h>
#include <Foundation/NSString.h>
#include <Foundation/NSValue.h>
#include <dispatch/dispatch.h>
#endif
