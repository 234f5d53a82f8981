#pragma once

// What calls of executables need of newer SDKs. Objective-C++ only.

#include <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#if !defined(__MAC_14_1)
// of macOS 14.1
@interface MPSGraphCompilationDescriptor ()
@property(readwrite, atomic, retain, nullable) NSDictionary<NSString*, MPSGraphExecutable*>* callables;
@end
#endif

#if !defined(__MAC_15_0)
@interface MPSGraph (SequoiaCallOps)
- (NSArray<MPSGraphTensor*>* _Nonnull)callSymbolName:(NSString* _Nonnull)symbolName
                                        inputTensors:(NSArray<MPSGraphTensor*>* _Nonnull)inputTensors
                                         outputTypes:(NSArray<MPSGraphType*>* _Nonnull)outputTypes
                                                name:(NSString* _Nullable)name;
@end
#endif
