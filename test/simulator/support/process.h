#pragma once

namespace mps_simulator {

// A child of fork() inherits the device but neither its threads nor the state
// of its locks. The device notes its first use here; afterwards a child must
// not touch it.
void note_device_in_use();
bool device_lost_by_fork();
// True while such a child exits: the destructors of the backend's statics wait
// for the GPU then, and may not throw.
bool lost_and_exiting();

} // namespace mps_simulator
