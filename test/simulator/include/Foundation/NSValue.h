#pragma once

#include <Foundation/NSObject.h>

@interface NSValue : NSObject<NSCopying, NSSecureCoding>
@end

// The types that a number is made of and read as.
#define NS_NUMBER_TYPES(of)                                                                              \
  of(Bool, bool, BOOL) of(Int, int, int) of(UnsignedInt, unsignedInt, unsigned int) of(Long, long, long) \
      of(UnsignedLong, unsignedLong, unsigned long) of(LongLong, longLong, long long)                    \
          of(UnsignedLongLong, unsignedLongLong, unsigned long long) of(Integer, integer, NSInteger)     \
              of(UnsignedInteger, unsignedInteger, NSUInteger) of(Float, float, float) of(Double, double, double)
#define NS_DECLARE_NUMBER_TYPE(Name, name, type) \
  +(NSNumber*)numberWith##Name : (type)value;    \
  @property(readonly) type name##Value;

@interface NSNumber : NSValue
NS_NUMBER_TYPES(NS_DECLARE_NUMBER_TYPE)
- (instancetype)initWithInteger:(NSInteger)value;
@end

@interface NSData : NSObject <NSCopying, NSSecureCoding>
@property(readonly) NSUInteger length;
@property(readonly) const void* bytes;
+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length;
@end
