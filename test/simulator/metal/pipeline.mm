#import "metal/library.h"

#include "foundation/copying.h"
#include "foundation/object_memory.h"
#include "metal/device.h"
#include "metal/memory.h"
#include "support/counters.h"
#include "support/error.h"

#include <algorithm>

using namespace mps_simulator;

@interface SimulatedBinding : NSObject <MTLBufferBinding, MTLThreadgroupBinding> {
 @public
  mps_simulator::shader::Argument _argument;
}
@end

@implementation SimulatedBinding

- (NSString*)name {
  return [NSString stringWithUTF8String:_argument.name.c_str()];
}

- (MTLBindingType)type {
  return _argument.threadgroup ? MTLBindingTypeThreadgroupMemory : MTLBindingTypeBuffer;
}

- (MTLBindingAccess)access {
  return _argument.writable ? MTLBindingAccessReadWrite : MTLBindingAccessReadOnly;
}

- (NSUInteger)index {
  return _argument.index;
}

- (BOOL)isUsed {
  return YES;
}

- (BOOL)isArgument {
  return YES;
}

NOT_SIMULATED(- (NSUInteger)bufferAlignment)

- (NSUInteger)bufferDataSize {
  return _argument.minimum_length;
}

NOT_SIMULATED(- (MTLDataType)bufferDataType)

- (NSUInteger)threadgroupMemoryAlignment {
  return kThreadgroupMemoryAlignment;
}

- (NSUInteger)threadgroupMemoryDataSize {
  return _argument.minimum_length;
}

@end

@interface MTLComputePipelineReflection ()
@property(nonatomic, readwrite, retain) NSArray<id<MTLBinding>>* bindings;
@end

@implementation MTLComputePipelineReflection

- (void)dealloc {
  [_bindings release];
  [super dealloc];
}

@end

@implementation MTLPipelineBufferDescriptor

COPIES_PROPERTIES

@end

@implementation MTLPipelineBufferDescriptorArray {
  NSMutableDictionary<NSNumber*, MTLPipelineBufferDescriptor*>* _descriptors;
}

- (instancetype)init {
  if ((self = [super init])) {
    _descriptors = [[NSMutableDictionary alloc] init];
  }
  return self;
}

- (void)dealloc {
  [_descriptors release];
  [super dealloc];
}

- (MTLPipelineBufferDescriptor*)objectAtIndexedSubscript:(NSUInteger)index {
  NSNumber* key = [NSNumber numberWithUnsignedInteger:index];
  MTLPipelineBufferDescriptor* found = [_descriptors objectForKey:key];
  if (!found) {
    found = [[[MTLPipelineBufferDescriptor alloc] init] autorelease];
    [_descriptors setObject:found forKey:key];
  }
  return found;
}

- (void)setObject:(MTLPipelineBufferDescriptor*)buffer atIndexedSubscript:(NSUInteger)index {
  NSNumber* key = [NSNumber numberWithUnsignedInteger:index];
  if (buffer) {
    [_descriptors setObject:[[buffer copy] autorelease] forKey:key];
  } else {
    [_descriptors removeObjectForKey:key];
  }
}

@end

@implementation MTLComputePipelineDescriptor

@synthesize buffers = _buffers;

- (instancetype)init {
  if ((self = [super init])) {
    _buffers = [[MTLPipelineBufferDescriptorArray alloc] init];
    [self reset];
  }
  return self;
}

- (void)dealloc {
  [_label release];
  [_computeFunction release];
  [_buffers release];
  [super dealloc];
}

- (void)reset {
  self.label = nil;
  self.computeFunction = nil;
  _threadGroupSizeIsMultipleOfThreadExecutionWidth = NO;
  _maxTotalThreadsPerThreadgroup = 0;
  _supportIndirectCommandBuffers = NO;
  _maxCallStackDepth = 1;
  _supportAddingBinaryFunctions = NO;
  _shaderValidation = MTLShaderValidationDefault;
  [_buffers release];
  _buffers = [[MTLPipelineBufferDescriptorArray alloc] init];
}

- (id)copyWithZone:(NSZone*)zone {
  MTLComputePipelineDescriptor* copy = copy_with_properties(self);
  for (NSUInteger i = 0; i < kBufferSlots; ++i) {
    copy.buffers[i] = _buffers[i];
  }
  return copy;
}

@end

@implementation SimulatedComputePipelineState

@synthesize label = _label;

- (instancetype)initWithFunction:(id<MTLFunction>)function descriptor:(MTLComputePipelineDescriptor*)descriptor {
  if ((self = [super init])) {
    _function = checked_function(function, __func__)->_function;
    _label = [descriptor.label copy];
    _maxTotalThreadsPerThreadgroup = _function->max_total_threads_per_threadgroup();
    if (descriptor.maxTotalThreadsPerThreadgroup) {
      _maxTotalThreadsPerThreadgroup =
          std::min(_maxTotalThreadsPerThreadgroup, descriptor.maxTotalThreadsPerThreadgroup);
    }
    _staticThreadgroupMemoryLength = _function->static_threadgroup_memory_length();
    _supportsIndirectCommandBuffers = descriptor.supportIndirectCommandBuffers;
    _threadgroupMultiple =
        descriptor.threadGroupSizeIsMultipleOfThreadExecutionWidth ? _function->thread_execution_width() : 1;
    for (const auto& argument : _function->arguments()) {
      (argument.threadgroup ? _threadgroupIndices : _bufferIndices) |= 1u << argument.index;
    }
  }
  return self;
}

- (void)dealloc {
  [_label release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return mps_simulator::device();
}

- (NSUInteger)maxTotalThreadsPerThreadgroup {
  COUNT_CALL();
  return _maxTotalThreadsPerThreadgroup;
}

- (NSUInteger)threadExecutionWidth {
  COUNT_CALL();
  return _function->thread_execution_width();
}

- (NSUInteger)staticThreadgroupMemoryLength {
  COUNT_CALL();
  return _staticThreadgroupMemoryLength;
}

- (BOOL)supportIndirectCommandBuffers {
  COUNT_CALL();
  return _supportsIndirectCommandBuffers;
}

- (MTLResourceID)gpuResourceID {
  COUNT_CALL();
  return {reinterpret_cast<uint64_t>(self)};
}

- (MTLShaderValidation)shaderValidation {
  return MTLShaderValidationDefault;
}

- (NSUInteger)allocatedSize {
  return 0;
}

NOT_SIMULATED(- (NSUInteger)imageblockMemoryLengthForDimensions:(MTLSize)dimensions)

@end

namespace mps_simulator {

MTLComputePipelineReflection* pipeline_reflection(id<MTLFunction> function) {
  NSMutableArray* bindings = [NSMutableArray array];
  for (const auto& argument : checked_function(function, "MTLComputePipelineReflection")->_function->arguments()) {
    SimulatedBinding* binding = [[SimulatedBinding alloc] init];
    binding->_argument = argument;
    [bindings addObject:binding];
    [binding release];
  }
  MTLComputePipelineReflection* reflection = [[[MTLComputePipelineReflection alloc] init] autorelease];
  reflection.bindings = bindings;
  return reflection;
}

SimulatedComputePipelineState* checked_pipeline(id<MTLComputePipelineState> pipeline, const char* function) {
  static const Class pipeline_class = [SimulatedComputePipelineState class];
  if (pipeline && object_getClass(pipeline) == pipeline_class) {
    return (SimulatedComputePipelineState*)pipeline;
  }
  violation("%s: the pipeline %s",
            function,
            !pipeline                              ? "is nil"
                : destroyed_object_class(pipeline) ? "has been released"
                                                   : "does not belong to this device");
}

} // namespace mps_simulator
