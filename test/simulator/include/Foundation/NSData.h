#pragma once

#include <Foundation/NSObject.h>
#include <Foundation/NSRange.h>

@class NSString;
@class NSURL;

@interface NSData : NSObject <NSCopying, NSMutableCopying, NSSecureCoding>
@property(readonly) NSUInteger length;
@property(readonly) const void* bytes;
@end

@interface NSData (NSDataCreation)
+ (instancetype)data;
+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length;
+ (instancetype)dataWithBytesNoCopy:(void*)bytes length:(NSUInteger)length;
+ (instancetype)dataWithBytesNoCopy:(void*)bytes length:(NSUInteger)length freeWhenDone:(BOOL)free_when_done;
+ (instancetype)dataWithData:(NSData*)data;
+ (instancetype)dataWithContentsOfFile:(NSString*)path;
- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length;
- (instancetype)initWithBytesNoCopy:(void*)bytes length:(NSUInteger)length;
- (instancetype)initWithBytesNoCopy:(void*)bytes length:(NSUInteger)length freeWhenDone:(BOOL)free_when_done;
- (instancetype)initWithData:(NSData*)data;
- (void)getBytes:(void*)buffer length:(NSUInteger)length;
- (void)getBytes:(void*)buffer range:(NSRange)range;
- (BOOL)isEqualToData:(NSData*)other;
- (NSData*)subdataWithRange:(NSRange)range;
@end

@interface NSMutableData : NSData
+ (instancetype)dataWithCapacity:(NSUInteger)capacity;
+ (instancetype)dataWithLength:(NSUInteger)length;
- (instancetype)initWithCapacity:(NSUInteger)capacity;
- (instancetype)initWithLength:(NSUInteger)length;
@property(readonly) void* mutableBytes;
@property NSUInteger length;
- (void)appendBytes:(const void*)bytes length:(NSUInteger)length;
- (void)appendData:(NSData*)other;
@end
