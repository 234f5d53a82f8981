#pragma once

#include "support/counters.h"
#include "support/error.h"

// A method that is there only to say that it is not simulated, from its signature.
#define NOT_SIMULATED(...) \
  __VA_ARGS__ {            \
    COUNT_CALL();          \
    UNSUPPORTED_CALL();    \
  }
