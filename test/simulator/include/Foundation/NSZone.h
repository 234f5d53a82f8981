#pragma once

#include <Foundation/NSObjCRuntime.h>

typedef struct _NSZone NSZone;
