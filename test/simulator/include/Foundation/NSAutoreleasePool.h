#pragma once

#include <Foundation/NSObject.h>

@interface NSAutoreleasePool : NSObject {
 @private
  void* _pool;
}
- (void)drain;
@end
