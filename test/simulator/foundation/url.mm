#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <unistd.h>

#include <climits>

using namespace mps_simulator;

@implementation NSURL {
  std::string _scheme;
  std::string _path; // of a file URL: absolute; otherwise all that follows the scheme
}

+ (BOOL)supportsSecureCoding {
  return YES;
}

+ (instancetype)URLWithString:(NSString*)string {
  return [[[self alloc] initWithString:string] autorelease];
}

+ (NSURL*)fileURLWithPath:(NSString*)path {
  return [[[self alloc] initFileURLWithPath:path] autorelease];
}

+ (NSURL*)fileURLWithPath:(NSString*)path isDirectory:(BOOL)isDirectory {
  return [self fileURLWithPath:path];
}

- (instancetype)initWithString:(NSString*)string {
  const std::string text = to_std_string(string);
  const size_t colon = text.find(':');
  if (colon == text.npos) {
    [self release];
    return nil;
  }
  _scheme = text.substr(0, colon);
  _path = text.substr(colon + 1);
  if (_scheme == "file" && _path.compare(0, 2, "//") == 0) {
    _path.erase(0, 2);
  }
  return self;
}

- (instancetype)initFileURLWithPath:(NSString*)path {
  if (path.length == 0) {
    VIOLATION("the path is empty");
  }
  _scheme = "file";
  _path = to_std_string(path);
  if (_path[0] != '/') {
    char directory[PATH_MAX];
    if (getcwd(directory, sizeof(directory)) != nullptr) {
      _path = std::string(directory) + "/" + _path;
    }
  }
  return self;
}

- (id)copyWithZone:(NSZone*)zone {
  return [self retain];
}

- (NSString*)absoluteString {
  return to_ns_string(_scheme + (self.isFileURL ? "://" : ":") + _path);
}

- (NSString*)path {
  return to_ns_string(_path);
}

- (NSString*)scheme {
  return to_ns_string(_scheme);
}

- (const char*)fileSystemRepresentation {
  return _path.c_str();
}

- (BOOL)isFileURL {
  return _scheme == "file";
}

- (BOOL)isEqual:(id)object {
  return self == object ||
      ([object isKindOfClass:[NSURL class]] && [self.absoluteString isEqualToString:[object absoluteString]]);
}

- (NSUInteger)hash {
  return self.absoluteString.hash;
}

- (NSString*)description {
  return self.absoluteString;
}

@end
