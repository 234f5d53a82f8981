#pragma once

#import <Metal/Metal.h>

#include "shader/shader.h"

#include <memory>

@interface SimulatedFunction : NSObject <MTLFunction> {
 @public
  std::shared_ptr<mps_simulator::shader::Function> _function;
}
@end

@interface SimulatedLibrary : NSObject <MTLLibrary> {
 @public
  std::shared_ptr<mps_simulator::shader::Library> _library;
  MTLLibraryType _type;
}
@end

namespace mps_simulator {

// Nil and an error when the source does not compile.
SimulatedLibrary* new_library(const char* source, MTLCompileOptions* options, NSError** error);

// As checked_buffer(), for functions; nil is a violation too.
SimulatedFunction* checked_function(id<MTLFunction> object, const char* function);

} // namespace mps_simulator
