// The part of MetalPerformanceShaders that the MPS backend of PyTorch uses.
#pragma once

#include <MetalPerformanceShaders/MPSCoreTypes.h>
#include <MetalPerformanceShaders/MPSMatrix.h>
#include <MetalPerformanceShaders/MPSNDArray.h>
