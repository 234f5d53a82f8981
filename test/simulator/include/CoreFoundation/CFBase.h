#pragma once

#include <Availability.h>
#include <TargetConditionals.h>
#include <stdint.h>

typedef double CFTimeInterval;
