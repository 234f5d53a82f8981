#pragma once

#include <MetalPerformanceShaders/MPSCoreTypes.h>

@interface MPSMatrixDescriptor : NSObject
@property(readonly, nonatomic) NSUInteger rows, columns, matrices, rowBytes, matrixBytes;
@property(readonly, nonatomic) MPSDataType dataType;
+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                rowBytes:(NSUInteger)rowBytes
                                dataType:(MPSDataType)dataType;
+ (instancetype)matrixDescriptorWithRows:(NSUInteger)rows
                                 columns:(NSUInteger)columns
                                matrices:(NSUInteger)matrices
                                rowBytes:(NSUInteger)rowBytes
                             matrixBytes:(NSUInteger)matrixBytes
                                dataType:(MPSDataType)dataType;
@end

@interface MPSMatrix : NSObject
@property(readonly, retain, nonatomic) id<MTLDevice> device;
@property(readonly, nonatomic) NSUInteger rows, columns, matrices;
@property(readonly, nonatomic) MPSDataType dataType;
@property(readonly, nonatomic) NSUInteger rowBytes, matrixBytes, offset;
@property(readonly, nonatomic) id<MTLBuffer> data;
- (instancetype)initWithBuffer:(id<MTLBuffer>)buffer
                        offset:(NSUInteger)offset
                    descriptor:(MPSMatrixDescriptor*)descriptor;
@end

typedef NS_ENUM(int, MPSMatrixDecompositionStatus) {
  MPSMatrixDecompositionStatusSuccess = 0,
  MPSMatrixDecompositionStatusSingular = -2,
};

@interface MPSMatrixUnaryKernel : MPSKernel
@end

@interface MPSMatrixBinaryKernel : MPSKernel
@end

@interface MPSMatrixDecompositionLU : MPSMatrixUnaryKernel
- (instancetype)initWithDevice:(id<MTLDevice>)device rows:(NSUInteger)rows columns:(NSUInteger)columns;
- (instancetype)initWithDevice:(id<MTLDevice>)device NS_UNAVAILABLE;
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 sourceMatrix:(MPSMatrix*)sourceMatrix
                 resultMatrix:(MPSMatrix*)resultMatrix
                 pivotIndices:(MPSMatrix*)pivotIndices
                       status:(id<MTLBuffer>)status;
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
