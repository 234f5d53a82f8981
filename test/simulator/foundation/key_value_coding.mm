#include "foundation/string.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <cctype>

using namespace mps_simulator;

namespace {

// The return value of a getter, as an object.
id box_return_value(NSInvocation* invocation) {
  const char* type = invocation.methodSignature.methodReturnType;
  if (type[0] == '@' || type[0] == '#') {
    id object = nil;
    [invocation getReturnValue:&object];
    return object;
  }
#define BOX(code, ctype)                \
  case code: {                          \
    ctype value;                        \
    [invocation getReturnValue:&value]; \
    return @(value);                    \
  }
  switch (type[0]) {
    BOX('c', char)
    BOX('C', unsigned char)
    BOX('s', short)
    BOX('S', unsigned short)
    BOX('i', int)
    BOX('I', unsigned int)
    BOX('l', long)
    BOX('L', unsigned long)
    BOX('q', long long)
    BOX('Q', unsigned long long)
    BOX('f', float)
    BOX('d', double)
    BOX('B', BOOL)
    default: {
      std::vector<uint8_t> value(invocation.methodSignature.methodReturnLength);
      [invocation getReturnValue:value.data()];
      return [NSValue valueWithBytes:value.data() objCType:type];
    }
  }
#undef BOX
}

std::string capitalized(NSString* key) {
  std::string text = to_std_string(key);
  if (!text.empty()) {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  }
  return text;
}

} // namespace

@implementation NSObject (NSKeyValueCoding)

- (id)valueForKey:(NSString*)key {
  for (const auto& name : {to_std_string(key), "is" + capitalized(key)}) {
    const SEL getter = sel_registerName(name.c_str());
    if ([self respondsToSelector:getter]) {
      NSInvocation* invocation = [NSInvocation invocationWithMethodSignature:[self methodSignatureForSelector:getter]];
      invocation.selector = getter;
      [invocation invokeWithTarget:self];
      return box_return_value(invocation);
    }
  }
  violation("-[%s valueForKey:]: no getter for the key '%s'", object_getClassName(self), key.UTF8String);
}

- (void)setValue:(id)value forKey:(NSString*)key {
  const SEL setter = sel_registerName(("set" + capitalized(key) + ":").c_str());
  NSMethodSignature* signature = [self respondsToSelector:setter] ? [self methodSignatureForSelector:setter] : nil;
  if (signature == nil) {
    violation("-[%s setValue:forKey:]: no setter for the key '%s'", object_getClassName(self), key.UTF8String);
  }
  if ([signature getArgumentTypeAtIndex:2][0] != '@') {
    unsupported("-[%s setValue:forKey:] for a key that is no object", object_getClassName(self));
  }
  [self performSelector:setter withObject:value];
}

@end
