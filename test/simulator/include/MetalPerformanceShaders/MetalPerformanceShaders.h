// The part of MetalPerformanceShaders that the MPS backend of PyTorch uses.
#pragma once

#include <MetalPerformanceShaders/MPSCommandBuffer.h>
#include <MetalPerformanceShaders/MPSCoreTypes.h>
#include <MetalPerformanceShaders/MPSKernel.h>
#include <MetalPerformanceShaders/MPSMatrix.h>
#include <MetalPerformanceShaders/MPSMatrixKernel.h>
#include <MetalPerformanceShaders/MPSNDArray.h>
#include <MetalPerformanceShaders/MPSNDArrayKernel.h>
