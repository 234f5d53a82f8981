#import "metal/device.h"

#include "metal/buffer.h"
#include "metal/command_buffer.h"
#include "metal/event.h"
#include "metal/host_view.h"
#include "metal/indirect_command_buffer.h"
#include "metal/library.h"
#include "metal/memory.h"
#include "support/counters.h"
#include "support/deferred.h"
#include "support/error.h"
#include "support/process.h"

#include <algorithm>
#include <cstring>

using namespace mps_simulator;

namespace {

constexpr size_t kGranularity = 16 * 1024;

size_t part_of_memory(size_t numerator, size_t denominator) {
  return physical_memory() / denominator * numerator / kGranularity * kGranularity;
}

} // namespace

namespace mps_simulator {

SimulatedDevice* device() {
  static SimulatedDevice* instance = [[SimulatedDevice alloc] init];
  return instance;
}

void check_process(const char* function) {
  if (__builtin_expect(device_lost_by_fork(), 0)) {
    violation(
        "%s: the device was used before fork() and cannot be used in the child; "
        "start the child with the \"spawn\" method",
        function);
  }
  check_host_fault(function);
  check_deferred_violations();
}

} // namespace mps_simulator

extern "C" id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
  COUNT_CALL();
  return [device() retain];
}

extern "C" NSArray<id<MTLDevice>>* MTLCopyAllDevices(void) {
  COUNT_CALL();
  id<MTLDevice> only = device();
  return [[NSArray alloc] initWithObjects:&only count:1];
}

@implementation SimulatedObject

- (void)dealloc {
  [_label release];
  [super dealloc];
}

- (id<MTLDevice>)device {
  return mps_simulator::device();
}

@end

@implementation SimulatedDevice

- (NSString*)name {
  COUNT_CALL();
  return @"Simulated Apple GPU";
}

- (uint64_t)registryID {
  COUNT_CALL();
  return 0x100000001;
}

- (BOOL)isLowPower {
  COUNT_CALL();
  return NO;
}

- (BOOL)hasUnifiedMemory {
  COUNT_CALL();
  return YES;
}

- (uint64_t)recommendedMaxWorkingSetSize {
  COUNT_CALL();
  return part_of_memory(2, 3);
}

- (NSUInteger)maxBufferLength {
  COUNT_CALL();
  return part_of_memory(1, 2);
}

- (MTLDeviceLocation)location {
  return MTLDeviceLocationBuiltIn;
}

- (NSUInteger)currentAllocatedSize {
  COUNT_CALL();
  return allocated_bytes();
}

- (NSUInteger)maxThreadgroupMemoryLength {
  COUNT_CALL();
  return kMaximumThreadgroupMemory;
}

- (BOOL)supportsFamily:(MTLGPUFamily)family {
  COUNT_CALL();
  return (family >= MTLGPUFamilyApple1 && family <= MTLGPUFamilyApple8) ||
      (family >= MTLGPUFamilyCommon1 && family <= MTLGPUFamilyCommon3) || family == MTLGPUFamilyMac1 ||
      family == MTLGPUFamilyMac2 || family == MTLGPUFamilyMetal3;
}

- (id<MTLCommandQueue>)newCommandQueue {
  COUNT_CALL();
  check_process(__func__);
  return [[SimulatedCommandQueue alloc] initWithMaxCommandBufferCount:64];
}

- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count {
  COUNT_CALL();
  check_process(__func__);
  VALIDATE(count > 0, "a queue needs room for at least one command buffer");
  return [[SimulatedCommandQueue alloc] initWithMaxCommandBufferCount:count];
}

- (MTLSizeAndAlign)heapBufferSizeAndAlignWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  COUNT_CALL();
  return heap_size_and_align(length);
}

- (id<MTLHeap>)newHeapWithDescriptor:(MTLHeapDescriptor*)descriptor {
  COUNT_CALL();
  check_process(__func__);
  VALIDATE(descriptor && descriptor.size > 0, "the heap's size is 0");
  if (descriptor.type == MTLHeapTypeSparse) {
    unsupported("%s with a sparse heap", __func__);
  }
  return [[SimulatedHeap alloc] initWithDescriptor:descriptor];
}

- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  COUNT_CALL();
  check_process(__func__);
  [self checkLength:length function:__func__];
  return [[SimulatedBuffer alloc] initWithLength:length options:options];
}

- (id<MTLBuffer>)newBufferWithBytes:(const void*)pointer length:(NSUInteger)length options:(MTLResourceOptions)options {
  COUNT_CALL();
  check_process(__func__);
  [self checkLength:length function:__func__];
  VALIDATE(pointer, "the pointer is NULL");
  auto* buffer = [[SimulatedBuffer alloc] initWithLength:length options:options];
  if (buffer) {
    std::memcpy(buffer->_pointer, pointer, length);
  }
  return buffer;
}

- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)pointer
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void*, NSUInteger))deallocator {
  COUNT_CALL();
  check_process(__func__);
  [self checkLength:length function:__func__];
  VALIDATE(pointer && reinterpret_cast<uintptr_t>(pointer) % page_size() == 0,
           "pointer %p is not aligned to a page of %zu bytes",
           pointer,
           page_size());
  VALIDATE(length % page_size() == 0, "length %lu is not a multiple of the page size %zu", length, page_size());
  VALIDATE((options >> MTLResourceStorageModeShift & 0xf) != MTLStorageModePrivate,
           "memory of the host cannot have private storage");
  return [[SimulatedBuffer alloc] initWithPointer:pointer length:length options:options deallocator:deallocator];
}

- (void)checkLength:(NSUInteger)length function:(const char*)function {
  if (!settings().validation) {
    return;
  }
  if (length == 0) {
    violation("%s: a buffer needs at least one byte", function);
  }
  if (length > part_of_memory(1, 2)) {
    violation("%s: length %lu exceeds maxBufferLength %zu", function, length, part_of_memory(1, 2));
  }
}

NOT_SIMULATED(- (id<MTLLibrary>)newDefaultLibrary)
NOT_SIMULATED(- (id<MTLLibrary>)newLibraryWithURL:(NSURL*)url error:(NSError**)error)
NOT_SIMULATED(-(id<MTLLibrary>)newLibraryWithData : (dispatch_data_t)data error : (NSError**)error)

- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source options:(MTLCompileOptions*)options error:(NSError**)error {
  COUNT_CALL();
  VALIDATE(source, "the source is nil");
  return new_library(source.UTF8String, options, error);
}

- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError**)error {
  COUNT_CALL();
  VALIDATE(function, "the function is nil");
  return [[SimulatedComputePipelineState alloc] initWithFunction:function descriptor:nil];
}

- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function
                                                           options:(MTLPipelineOption)options
                                                        reflection:(MTLComputePipelineReflection**)reflection
                                                             error:(NSError**)error {
  COUNT_CALL();
  VALIDATE(function, "the function is nil");
  auto* pipeline = [[SimulatedComputePipelineState alloc] initWithFunction:function descriptor:nil];
  if (reflection) {
    *reflection = pipeline_reflection(function);
  }
  return pipeline;
}

- (id<MTLComputePipelineState>)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor*)descriptor
                                                             options:(MTLPipelineOption)options
                                                          reflection:(MTLComputePipelineReflection**)reflection
                                                               error:(NSError**)error {
  COUNT_CALL();
  VALIDATE(descriptor.computeFunction, "the descriptor has no function");
  auto* pipeline = [[SimulatedComputePipelineState alloc] initWithFunction:descriptor.computeFunction
                                                                descriptor:descriptor];
  if (reflection) {
    *reflection = pipeline_reflection(descriptor.computeFunction);
  }
  return pipeline;
}

- (id<MTLFence>)newFence {
  COUNT_CALL();
  return [[SimulatedFence alloc] init];
}

- (id<MTLEvent>)newEvent {
  COUNT_CALL();
  return [[SimulatedEvent alloc] init];
}

- (id<MTLSharedEvent>)newSharedEvent {
  COUNT_CALL();
  return [[SimulatedSharedEvent alloc] init];
}

- (id<MTLIndirectCommandBuffer>)newIndirectCommandBufferWithDescriptor:(MTLIndirectCommandBufferDescriptor*)descriptor
                                                       maxCommandCount:(NSUInteger)count
                                                               options:(MTLResourceOptions)options {
  COUNT_CALL();
  check_process(__func__);
  VALIDATE(descriptor, "the descriptor is nil");
  constexpr auto kComputeTypes =
      MTLIndirectCommandTypeConcurrentDispatch | MTLIndirectCommandTypeConcurrentDispatchThreads;
  VALIDATE(descriptor.commandTypes, "the descriptor has no command types");
  VALIDATE(!(descriptor.commandTypes & kComputeTypes) || !(descriptor.commandTypes & ~kComputeTypes),
           "compute commands cannot be mixed with others");
  if (descriptor.commandTypes & ~kComputeTypes) {
    unsupported("%s with render commands", __func__);
  }
  VALIDATE(count > 0, "maxCommandCount is 0");
  VALIDATE(descriptor.maxKernelBufferBindCount <= kBufferSlots,
           "maxKernelBufferBindCount %lu exceeds %zu",
           descriptor.maxKernelBufferBindCount,
           kBufferSlots);
  return [[SimulatedIndirectCommandBuffer alloc] initWithDescriptor:descriptor count:count options:options];
}

@end

@implementation SimulatedCommandQueue

- (instancetype)initWithMaxCommandBufferCount:(NSUInteger)count {
  if ((self = [super init])) {
    note_device_in_use();
    _state = std::make_shared<QueueState>();
    _state->maximum = count;
    Gpu::instance().add_queue(_state);
  }
  return self;
}

- (void)dealloc {
  // Its command buffers retain the queue, so none is left.
  Gpu::instance().remove_queue(_state);
  [super dealloc];
}

- (id<MTLCommandBuffer>)commandBuffer {
  COUNT_CALL();
  return [self newBufferRetaining:YES function:__func__];
}

- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences {
  COUNT_CALL();
  return [self newBufferRetaining:NO function:__func__];
}

- (id<MTLCommandBuffer>)newBufferRetaining:(BOOL)retainedReferences
                                  function:(const char*)function NS_RETURNS_NOT_RETAINED {
  auto& gpu = Gpu::instance();
  // In a forked child nothing can be encoded into it, which the encoder's making
  // reports. Here nothing may be thrown: the backend asks for a command buffer
  // when it frees memory, in destructors.
  if (!device_lost_by_fork()) {
    check_process(function);
    auto held = gpu.lock();
    if (settings().validation && _state->unfinished >= _state->maximum && !_state->committed) {
      violation(
          "%s: all %zu command buffers of the queue are in use and none has "
          "been committed: this would wait for ever",
          function,
          _state->maximum);
    }
    gpu.wait(held, [&] { return _state->unfinished < _state->maximum; });
    ++_state->unfinished;
  }
  return [[[SimulatedCommandBuffer alloc] initWithQueue:self state:_state
                                     retainedReferences:retainedReferences] autorelease];
}

@end
