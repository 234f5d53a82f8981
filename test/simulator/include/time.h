// What Darwin's <time.h> has and glibc's does not.
#pragma once

#include_next <time.h>

#include <stdint.h>

#ifndef CLOCK_UPTIME_RAW
#define CLOCK_UPTIME_RAW CLOCK_MONOTONIC
#define CLOCK_MONOTONIC_RAW_APPROX CLOCK_MONOTONIC_RAW

static inline uint64_t clock_gettime_nsec_np(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) {
    return 0;
  }
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#endif
