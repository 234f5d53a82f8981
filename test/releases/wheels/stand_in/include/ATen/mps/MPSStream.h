#pragma once

// The backend's header wants libdispatch, which is not here; MPSGuardImpl.h needs none of it.
