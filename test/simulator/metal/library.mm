#import "metal/library.h"

#import <Metal/Metal.h>

#include "foundation/copying.h"
#include "metal/device.h"
#include "support/counters.h"
#include "support/error.h"

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

- (MTLFunctionType)functionType {
  COUNT_CALL();
  return MTLFunctionTypeKernel;
}

- (NSString*)name {
  COUNT_CALL();
  return [NSString stringWithUTF8String:_function->name().c_str()];
}

- (id<MTLArgumentEncoder>)newArgumentEncoderWithBufferIndex:(NSUInteger)bufferIndex {
  COUNT_CALL();
  const auto length = _function->argument_buffer_length(static_cast<unsigned>(bufferIndex));
  VALIDATE(length > 0, "function %s has no argument buffer at index %lu", _function->name().c_str(), bufferIndex);
  return [[SimulatedArgumentEncoder alloc] initWithFunction:_function index:static_cast<unsigned>(bufferIndex)];
}

@end

@implementation SimulatedLibrary

- (MTLLibraryType)type {
  return _type;
}

- (NSString*)installName {
  return nil;
}

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

NOT_SIMULATED(- (id<MTLFunction>)newFunctionWithName:(NSString*)name
                                      constantValues:(MTLFunctionConstantValues*)values
                                               error:(NSError**)error)

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
  object->_type = options ? options.libraryType : MTLLibraryTypeExecutable;
  return object;
}

SimulatedFunction* checked_function(id<MTLFunction> object, const char* function) {
  if (object && object_getClass(object) == [SimulatedFunction class]) {
    return (SimulatedFunction*)object;
  }
  violation("%s: the function %s", function, object ? "does not belong to this device" : "is nil");
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
  [_installName release];
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

// Kernels with function constants cannot be made, so there are no values to keep.
@implementation MTLFunctionConstantValues

NOT_SIMULATED(- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index)
NOT_SIMULATED(- (void)setConstantValues:(const void*)values type:(MTLDataType)type withRange:(NSRange)range)
NOT_SIMULATED(- (void)setConstantValue:(const void*)value type:(MTLDataType)type withName:(NSString*)name)

- (void)reset {
  COUNT_CALL();
}

COPIES_PROPERTIES

@end
