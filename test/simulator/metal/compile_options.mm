#import <Metal/Metal.h>

#include "support/counters.h"
#include "support/error.h"

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

- (id)copyWithZone:(NSZone*)zone {
  MTLCompileOptions* copy = [[MTLCompileOptions alloc] init];
  copy.preprocessorMacros = _preprocessorMacros;
  copy->_fastMathEnabled = _fastMathEnabled;
  copy->_mathMode = _mathMode;
  copy.mathFloatingPointFunctions = _mathFloatingPointFunctions;
  copy.languageVersion = _languageVersion;
  copy.libraryType = _libraryType;
  copy.installName = _installName;
  copy.preserveInvariance = _preserveInvariance;
  copy.optimizationLevel = _optimizationLevel;
  copy.compileSymbolVisibility = _compileSymbolVisibility;
  copy.allowReferencingUndefinedSymbols = _allowReferencingUndefinedSymbols;
  copy.maxTotalThreadsPerThreadgroup = _maxTotalThreadsPerThreadgroup;
  copy.enableLogging = _enableLogging;
  return copy;
}

@end

// Kernels with function constants cannot be made, so there are no values to keep.
@implementation MTLFunctionConstantValues

- (void)setConstantValue:(const void*)value
                    type:(MTLDataType)type
                 atIndex:(NSUInteger)index {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setConstantValues:(const void*)values
                     type:(MTLDataType)type
                withRange:(NSRange)range {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)setConstantValue:(const void*)value
                    type:(MTLDataType)type
                withName:(NSString*)name {
  COUNT_CALL();
  UNSUPPORTED_CALL();
}

- (void)reset {
  COUNT_CALL();
}

- (id)copyWithZone:(NSZone*)zone {
  return [[MTLFunctionConstantValues alloc] init];
}

@end
