#pragma once

#include <Foundation/NSObject.h>
#include <Foundation/NSString.h>

@interface NSURL : NSObject <NSCopying, NSSecureCoding>
+ (instancetype)URLWithString:(NSString*)string;
+ (NSURL*)fileURLWithPath:(NSString*)path;
+ (NSURL*)fileURLWithPath:(NSString*)path isDirectory:(BOOL)is_directory;
- (instancetype)initWithString:(NSString*)string;
- (instancetype)initFileURLWithPath:(NSString*)path;
@property(readonly, copy) NSString* absoluteString;
@property(readonly, copy) NSString* path;
@property(readonly, copy) NSString* scheme;
@property(readonly) const char* fileSystemRepresentation;
@property(readonly, getter=isFileURL) BOOL fileURL;
@end
