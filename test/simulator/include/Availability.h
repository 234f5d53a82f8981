// Version names of macOS, up to that of the SDK. With MPS_SIMULATOR_SDK=130300
// the headers lack what the SDK of macOS 13.3 does, and code has to bring its
// stand-in declarations: for looking at sources, not for running them.
#pragma once

#include <AvailabilityMacros.h>

#define __MAC_10_15 101500
#define __MAC_11_0 110000
#define __MAC_11_3 110300
#define __MAC_12_0 120000
#define __MAC_12_3 120300
#define __MAC_13_0 130000
#define __MAC_13_1 130100
#define __MAC_13_2 130200
#define __MAC_13_3 130300
#define __MAC_13_4 130400
#define __MAC_13_5 130500
#if MPS_SIMULATOR_SDK >= 140000
#define __MAC_14_0 140000
#define __MAC_14_1 140100
#define __MAC_14_2 140200
#define __MAC_14_3 140300
#define __MAC_14_4 140400
#define __MAC_14_5 140500
#endif
#if MPS_SIMULATOR_SDK >= 150000
#define __MAC_15_0 150000
#define __MAC_15_1 150100
#endif

#define __MAC_OS_X_VERSION_MAX_ALLOWED MPS_SIMULATOR_SDK
#define __MAC_OS_X_VERSION_MIN_REQUIRED __MAC_13_0

// Every API exists in the simulator. NSProcessInfo and -respondsToSelector: say
// which of them the simulated system offers; the compiler answers `@available`
// with yes because its target is not a Mac.
#define API_AVAILABLE(...)
#define API_UNAVAILABLE(...)
#define API_DEPRECATED(...)
#define API_DEPRECATED_WITH_REPLACEMENT(...)
#define NS_AVAILABLE(...)
#define NS_AVAILABLE_MAC(...)
#define NS_DEPRECATED(...)
#define NS_DEPRECATED_MAC(...)
#define NS_ENUM_AVAILABLE(...)
#define NS_ENUM_AVAILABLE_MAC(...)
#define NS_ENUM_DEPRECATED(...)
#define NS_CLASS_AVAILABLE(...)
#define NS_CLASS_AVAILABLE_MAC(...)
#define MPS_AVAILABLE_STARTING(...)
#define MPS_AVAILABLE_STARTING_BUT_DEPRECATED(...)
#define MPS_ENUM_AVAILABLE_STARTING(...)
#define MPS_ENUM_AVAILABLE_STARTING_BUT_DEPRECATED(...)
#define MPS_CLASS_AVAILABLE_STARTING(...)
