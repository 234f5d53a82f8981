#pragma once

// The backend's header wants Metal, which is not here; MPSGuardImpl.h needs the name.
namespace at::mps {
class MPSEvent;
} // namespace at::mps
