#pragma once

namespace mps_simulator {

// torch.Generator(device="mps") and torch.UntypedStorage(…, device="mps") are
// refused by the wheel's constructors; this puts others in front of them.
void replace_constructors();

} // namespace mps_simulator
