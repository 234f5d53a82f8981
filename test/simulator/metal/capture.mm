#import <Metal/Metal.h>

#include "foundation/copying.h"
#include "metal/device.h"
#include "support/counters.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>

using namespace mps_simulator;

NSString* const MTLCaptureErrorDomain = @"MTLCaptureError";

@implementation MTLCaptureDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    _destination = MTLCaptureDestinationDeveloperTools;
  }
  return self;
}

- (void)dealloc {
  [_captureObject release];
  [_outputURL release];
  [super dealloc];
}

COPIES_PROPERTIES

@end

@implementation MTLCaptureManager {
  NSURL* _outputURL;
  BOOL _capturing;
}

+ (MTLCaptureManager*)sharedCaptureManager {
  COUNT_CALL();
  static MTLCaptureManager* manager = [[MTLCaptureManager alloc] init];
  return manager;
}

COUNTED_GETTER(BOOL, isCapturing, _capturing)

- (BOOL)supportsDestination:(MTLCaptureDestination)destination {
  COUNT_CALL();
  // As on a Mac, a program must be started with the permission to write one.
  const char* enabled = std::getenv("MTL_CAPTURE_ENABLED");
  return destination == MTLCaptureDestinationGPUTraceDocument && enabled && std::strcmp(enabled, "0") != 0;
}

- (BOOL)startCaptureWithDescriptor:(MTLCaptureDescriptor*)descriptor error:(NSError**)error {
  COUNT_CALL();
  NSString* problem = _capturing ? @"A capture is already in progress."
      : ![self supportsDestination:descriptor.destination]
      ? @"Capturing is not enabled: set MTL_CAPTURE_ENABLED=1."
      : descriptor.captureObject && descriptor.outputURL ? nil
                                                         : @"The descriptor has no object or no output URL.";
  if (error) {
    NSDictionary* info = problem ? @{NSLocalizedDescriptionKey : problem} : nil;
    *error = problem ? [NSError errorWithDomain:MTLCaptureErrorDomain code:0 userInfo:info] : nil;
  }
  if (problem) {
    return NO;
  }
  _outputURL = [descriptor.outputURL copy];
  _capturing = YES;
  return YES;
}

- (void)stopCapture {
  COUNT_CALL();
  if (_capturing) {
    _capturing = NO;
    // Only Apple's tools can read a trace, so the file holds the counts of the calls that were made.
    std::ofstream(_outputURL.path.UTF8String) << counters_json();
    [_outputURL release];
    _outputURL = nil;
  }
}

@end
