#pragma once

#include <Foundation/NSObject.h>

@interface NSNull : NSObject <NSCopying, NSSecureCoding>
+ (NSNull*)null;
@end
