#pragma once

#include <MetalPerformanceShadersGraph/MPSGraph.h>
#include <MetalPerformanceShadersGraph/MPSGraphArithmeticOps.h>
#include <MetalPerformanceShadersGraph/MPSGraphConvolutionOps.h>
#include <MetalPerformanceShadersGraph/MPSGraphRNNOps.h>
#include <MetalPerformanceShadersGraph/MPSGraphTensorShapeOps.h>
