#import "metal/device.h"

#include "foundation/object_memory.h"
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
#include "support/settings.h"

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

id checked_object(id object, Class wanted, const char* what, const char* function) {
  if (object && object_getClass(object) == wanted) {
    return object;
  }
  violation("%s: the %s %s",
            function,
            what,
            !object                              ? "is nil"
                : destroyed_object_class(object) ? "has been released"
                                                 : "does not belong to this device");
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

GETTER(id<MTLDevice>, device, mps_simulator::device())

@end

@implementation SimulatedDevice

COUNTED_GETTER(NSString*, name, @"Simulated Apple GPU")
COUNTED_GETTER(BOOL, isLowPower, NO)
COUNTED_GETTER(BOOL, hasUnifiedMemory, YES)
COUNTED_GETTER(uint64_t, recommendedMaxWorkingSetSize, part_of_memory(2, 3))
COUNTED_GETTER(NSUInteger, maxBufferLength, part_of_memory(1, 2))
GETTER(MTLDeviceLocation, location, MTLDeviceLocationBuiltIn)
COUNTED_GETTER(NSUInteger, currentAllocatedSize, allocated_bytes())

- (BOOL)supportsFamily:(MTLGPUFamily)family {
  COUNT_CALL();
  return (family >= MTLGPUFamilyApple1 && family < MTLGPUFamilyApple1 + settings().gpu_family) ||
      (family >= MTLGPUFamilyCommon1 && family <= MTLGPUFamilyCommon3) || family == MTLGPUFamilyMac1 ||
      family == MTLGPUFamilyMac2 || family == MTLGPUFamilyMetal3;
}

- (id<MTLCommandQueue>)newCommandQueue {
  COUNT_CALL();
  check_process(__func__);
  return [[SimulatedCommandQueue alloc] init];
}

- (MTLSizeAndAlign)heapBufferSizeAndAlignWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  COUNT_CALL();
  return heap_size_and_align(length);
}

- (id<MTLHeap>)newHeapWithDescriptor:(MTLHeapDescriptor*)descriptor {
  COUNT_CALL();
  check_process(__func__);
  VALIDATE(descriptor && descriptor.size > 0, "the heap's size is 0");
  if (descriptor.type != MTLHeapTypeAutomatic) {
    unsupported("%s with a placement or sparse heap", __func__);
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

- (id<MTLComputePipelineState>)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor*)descriptor
                                                             options:(MTLPipelineOption)options
                                                          reflection:(MTLComputePipelineReflection**)reflection
                                                               error:(NSError**)error {
  COUNT_CALL();
  VALIDATE(descriptor.computeFunction, "the descriptor has no function");
  VALIDATE(options == MTLPipelineOptionNone && !reflection, "the simulator has no reflection");
  return [[SimulatedComputePipelineState alloc] initWithFunction:descriptor.computeFunction descriptor:descriptor];
}

COUNTED_GETTER(id<MTLSharedEvent>, newSharedEvent, [[SimulatedSharedEvent alloc] init])

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

- (instancetype)init {
  if ((self = [super init])) {
    note_device_in_use();
    _state = std::make_shared<QueueState>();
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
  auto& gpu = Gpu::instance();
  // In a forked child nothing can be encoded into it, which the encoder's making
  // reports. Here nothing may be thrown: the backend asks for a command buffer
  // when it frees memory, in destructors.
  if (!device_lost_by_fork()) {
    check_process(__func__);
    auto held = gpu.lock();
    VALIDATE(_state->unfinished < QueueState::maximum || _state->committed,
             "all %zu command buffers of the queue are in use and none has been committed: this would wait for ever",
             QueueState::maximum);
    gpu.wait(held, [&] { return _state->unfinished < QueueState::maximum; });
    ++_state->unfinished;
  }
  return [[[SimulatedCommandBuffer alloc] initWithQueue:self state:_state] autorelease];
}

@end
