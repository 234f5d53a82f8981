#import "metal/library.h"

#import <Metal/Metal.h>

#include "foundation/copying.h"
#include "metal/buffer.h"
#include "metal/device.h"
#include "metal/memory.h"
#include "support/counters.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>

using namespace mps_simulator;

NSString* const MTLLibraryErrorDomain = @"MTLLibraryErrorDomain";

namespace {

NSError* library_error(MTLLibraryError code, const std::string& message) {
  return [NSError errorWithDomain:MTLLibraryErrorDomain
                             code:static_cast<NSInteger>(code)
                         userInfo:@{NSLocalizedDescriptionKey : [NSString stringWithUTF8String:message.c_str()]}];
}

} // namespace

@implementation SimulatedFunction

COUNTED_GETTER(NSString*, name, [NSString stringWithUTF8String:_function->name().c_str()])

- (id<MTLArgumentEncoder>)newArgumentEncoderWithBufferIndex:(NSUInteger)bufferIndex {
  COUNT_CALL();
  const auto length = _function->argument_buffer_length(static_cast<unsigned>(bufferIndex));
  VALIDATE(length > 0, "function %s has no argument buffer at index %lu", _function->name().c_str(), bufferIndex);
  return [[SimulatedArgumentEncoder alloc] initWithFunction:_function index:static_cast<unsigned>(bufferIndex)];
}

@end

@implementation SimulatedLibrary

- (NSArray<NSString*>*)functionNames {
  COUNT_CALL();
  NSMutableArray<NSString*>* names = [NSMutableArray array];
  for (const auto& name : _library->function_names()) {
    [names addObject:[NSString stringWithUTF8String:name.c_str()]];
  }
  return names;
}

- (id<MTLFunction>)newFunctionWithName:(NSString*)functionName {
  COUNT_CALL();
  VALIDATE(functionName, "the name is nil");
  auto function = _library->function(functionName.UTF8String);
  if (!function) {
    return nil;
  }
  auto* object = [[SimulatedFunction alloc] init];
  object->_function = std::move(function);
  return object;
}

@end

namespace mps_simulator {

SimulatedLibrary* new_library(const char* source, MTLCompileOptions* options, NSError** error) {
  std::map<std::string, std::string> macros;
  NSDictionary<NSString*, NSObject*>* given = options.preprocessorMacros;
  for (NSString* name in given) {
    macros[name.UTF8String] = [[given objectForKey:name] description].UTF8String;
  }
  const bool fast_math = !options || options.fastMathEnabled;
  std::string message;
  auto library = shader::Library::compile(
      source, macros, options ? static_cast<unsigned>(options.languageVersion) : 0, fast_math, message);
  if (!library) {
    if (error) {
      *error = library_error(MTLLibraryErrorCompileFailure, message);
    }
    return nil;
  }
  if (error) {
    *error = nil;
  }
  auto* object = [[SimulatedLibrary alloc] init];
  object->_library = std::move(library);
  return object;
}

SimulatedFunction* checked_function(id<MTLFunction> object, const char* function) {
  return (SimulatedFunction*)checked_object(object, [SimulatedFunction class], "function", function);
}

} // namespace mps_simulator

@implementation MTLCompileOptions

- (instancetype)init {
  if ((self = [super init])) {
    _fastMathEnabled = YES;
    _mathMode = MTLMathModeFast;
    _languageVersion = MTLLanguageVersion3_2;
  }
  return self;
}

- (void)dealloc {
  [_preprocessorMacros release];
  [super dealloc];
}

// The older switch and the newer mode set the same option.
- (void)setFastMathEnabled:(BOOL)enabled {
  COUNT_CALL();
  _fastMathEnabled = enabled;
  _mathMode = enabled ? MTLMathModeFast : MTLMathModeSafe;
}

- (void)setMathMode:(MTLMathMode)mode {
  COUNT_CALL();
  _mathMode = mode;
  _fastMathEnabled = mode == MTLMathModeFast;
}

COPIES_PROPERTIES

@end

@implementation MTLComputePipelineDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    [self reset];
  }
  return self;
}

- (void)dealloc {
  [_label release];
  [_computeFunction release];
  [super dealloc];
}

- (void)reset {
  self.label = nil;
  self.computeFunction = nil;
  _maxTotalThreadsPerThreadgroup = 0;
  _supportIndirectCommandBuffers = NO;
}

COPIES_PROPERTIES

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

GETTER(id<MTLDevice>, device, mps_simulator::device())
COUNTED_GETTER(NSUInteger, maxTotalThreadsPerThreadgroup, _maxTotalThreadsPerThreadgroup)
COUNTED_GETTER(NSUInteger, threadExecutionWidth, _function->thread_execution_width())
COUNTED_GETTER(NSUInteger, staticThreadgroupMemoryLength, _staticThreadgroupMemoryLength)
COUNTED_GETTER(BOOL, supportIndirectCommandBuffers, _supportsIndirectCommandBuffers)

@end

namespace mps_simulator {

SimulatedComputePipelineState* checked_pipeline(id<MTLComputePipelineState> pipeline, const char* function) {
  static const Class pipeline_class = [SimulatedComputePipelineState class];
  return (SimulatedComputePipelineState*)checked_object(pipeline, pipeline_class, "pipeline", function);
}

} // namespace mps_simulator

namespace {

constexpr NSUInteger kArgumentAlignment = 16;

} // namespace

@implementation SimulatedArgumentEncoder

- (instancetype)initWithFunction:(std::shared_ptr<shader::Function>)function index:(unsigned)index {
  if ((self = [super init])) {
    _bufferIndex = index;
    _encodedLength = function->argument_buffer_length(index);
    _function = std::move(function);
  }
  return self;
}

- (void)dealloc {
  [_argumentBuffer release];
  [super dealloc];
}

COUNTED_GETTER(NSUInteger, encodedLength, _encodedLength)
COUNTED_GETTER(NSUInteger, alignment, kArgumentAlignment)

- (void)setArgumentBuffer:(id<MTLBuffer>)argumentBuffer offset:(NSUInteger)offset {
  COUNT_CALL();
  [self setTarget:argumentBuffer offset:offset function:__func__];
}

- (void)setTarget:(id<MTLBuffer>)argumentBuffer offset:(NSUInteger)offset function:(const char*)function {
  auto* buffer = checked_buffer(argumentBuffer, function);
  if (buffer && settings().validation) {
    if (offset > buffer->_length || _encodedLength > buffer->_length - offset) {
      violation("%s: offset %lu + encodedLength %lu is beyond the buffer's %lu bytes",
                function,
                offset,
                _encodedLength,
                buffer->_length);
    }
    if (buffer.storageMode == MTLStorageModePrivate) {
      violation("%s: the CPU cannot encode into a buffer with private storage", function);
    }
  }
  [argumentBuffer retain];
  [_argumentBuffer release];
  _argumentBuffer = argumentBuffer;
  _target = buffer ? buffer->_pointer + offset : nullptr;
}

// Where the member [[id(index)]] is.
- (char*)memberAtIndex:(NSUInteger)index function:(const char*)function {
  if (!_target) {
    violation("%s: no argument buffer has been set", function);
  }
  const int64_t offset = _function->argument_buffer_offset(_bufferIndex, static_cast<unsigned>(index));
  if (offset < 0) {
    violation(
        "%s: function %s has no member with id %lu in the argument buffer at "
        "index %u",
        function,
        _function->name().c_str(),
        index,
        _bufferIndex);
  }
  const auto* argument_buffer = (SimulatedBuffer*)_argumentBuffer;
  if (argument_buffer->_hostView) {
    const auto place = static_cast<size_t>(_target - argument_buffer->_pointer + argument_buffer->_hostStart -
                                           argument_buffer->_hostView->address() + offset);
    if (HostView::in_use(argument_buffer->_hostView.get(), place, place + sizeof(void*))) {
      violation(
          "%s: a committed command buffer that has not completed uses the "
          "argument buffer",
          function);
    }
  }
  return _target + offset;
}

- (void)encode:(id<MTLBuffer>)object
        offset:(NSUInteger)offset
       atIndex:(NSUInteger)index
      function:(const char*)function {
  auto* buffer = checked_buffer(object, function);
  if (buffer && settings().validation && offset >= buffer->_length) {
    violation("%s: offset %lu is beyond the buffer's %lu bytes", function, offset, buffer->_length);
  }
  const void* address = buffer ? buffer->_pointer + offset : nullptr;
  std::memcpy([self memberAtIndex:index function:function], &address, sizeof(address));
}

- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  COUNT_CALL();
  [self encode:buffer offset:offset atIndex:index function:__func__];
}

- (void)setBuffers:(const id<MTLBuffer>[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range {
  COUNT_CALL();
  for (NSUInteger i = 0; i < range.length; ++i) {
    [self encode:buffers[i] offset:offsets[i] atIndex:range.location + i function:__func__];
  }
}

@end
