// Calls of executables from within a graph; macOS 15.0.
#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>

#pragma clang assume_nonnull begin

#ifdef __MAC_15_0

@interface MPSGraph (CallOp)

- (NSArray<MPSGraphTensor*>*)callSymbolName:(NSString*)symbolName
                               inputTensors:(NSArray<MPSGraphTensor*>*)inputTensors
                                outputTypes:(NSArray<MPSGraphType*>*)outputTypes
                                       name:(NSString* _Nullable)name;

@end

#endif

#pragma clang assume_nonnull end
