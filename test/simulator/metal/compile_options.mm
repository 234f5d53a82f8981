#import <Metal/Metal.h>

#include "foundation/copying.h"
#include "support/counters.h"
#include "support/not_simulated.h"

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
