// Version names of macOS, up to that of the SDK. With MPS_SIMULATOR_SDK=130300
// the headers lack what the SDK of macOS 13.3 does, and code has to bring its
// stand-in declarations: for looking at sources, not for running them.
#pragma once

#include <AvailabilityMacros.h>

#define __MAC_13_0 130000
#define __MAC_13_2 130200
#if MPS_SIMULATOR_SDK >= 140000
#define __MAC_14_0 140000
#define __MAC_14_1 140100
#endif
#if MPS_SIMULATOR_SDK >= 150000
#define __MAC_15_0 150000
#endif

#define __MAC_OS_X_VERSION_MIN_REQUIRED __MAC_13_0

// Every API exists in the simulator. NSProcessInfo and -respondsToSelector: say
// which of them the simulated system offers; the compiler answers `@available`
// with yes because its target is not a Mac.
#define API_AVAILABLE(...)
