#pragma once

#include <MetalPerformanceShaders/MPSKernel.h>
#include <MetalPerformanceShaders/MPSMatrix.h>

NS_ASSUME_NONNULL_BEGIN

typedef NS_ENUM(int, MPSMatrixDecompositionStatus) {
  MPSMatrixDecompositionStatusSuccess = 0,
  MPSMatrixDecompositionStatusFailure = -1,
  MPSMatrixDecompositionStatusSingular = -2,
  MPSMatrixDecompositionStatusNonPositiveDefinite = -3,
};

@interface MPSMatrixUnaryKernel : MPSKernel
@property(readwrite, nonatomic) MTLOrigin sourceMatrixOrigin;
@property(readwrite, nonatomic) MTLOrigin resultMatrixOrigin;
@property(readwrite, nonatomic) NSUInteger batchStart;
@property(readwrite, nonatomic) NSUInteger batchSize;
@end

@interface MPSMatrixBinaryKernel : MPSKernel
@property(readwrite, nonatomic) MTLOrigin primarySourceMatrixOrigin;
@property(readwrite, nonatomic) MTLOrigin secondarySourceMatrixOrigin;
@property(readwrite, nonatomic) MTLOrigin resultMatrixOrigin;
@property(readwrite, nonatomic) NSUInteger batchStart;
@property(readwrite, nonatomic) NSUInteger batchSize;
@end

@interface MPSMatrixDecompositionLU : MPSMatrixUnaryKernel
- (instancetype)initWithDevice:(id<MTLDevice>)device rows:(NSUInteger)rows columns:(NSUInteger)columns;
- (instancetype)initWithDevice:(id<MTLDevice>)device NS_UNAVAILABLE;
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 sourceMatrix:(MPSMatrix*)sourceMatrix
                 resultMatrix:(MPSMatrix*)resultMatrix
                 pivotIndices:(MPSMatrix*)pivotIndices
                       status:(nullable id<MTLBuffer>)status;
@end

@interface MPSMatrixSolveTriangular : MPSMatrixBinaryKernel
- (instancetype)initWithDevice:(id<MTLDevice>)device
                         right:(BOOL)right
                         upper:(BOOL)upper
                     transpose:(BOOL)transpose
                          unit:(BOOL)unit
                         order:(NSUInteger)order
        numberOfRightHandSides:(NSUInteger)numberOfRightHandSides
                         alpha:(double)alpha;
- (instancetype)initWithDevice:(id<MTLDevice>)device NS_UNAVAILABLE;
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 sourceMatrix:(MPSMatrix*)sourceMatrix
          rightHandSideMatrix:(MPSMatrix*)rightHandSideMatrix
               solutionMatrix:(MPSMatrix*)solutionMatrix;
@end

NS_ASSUME_NONNULL_END
