#pragma once

// A header of macOS that MPSGuardImpl.h includes.
#include <cstddef>
