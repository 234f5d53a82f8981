#include "foundation/string.h"

#include <Foundation/Foundation.h>

#include <cstdarg>
#include <cstdio>

using namespace mps_simulator;

Class NSClassFromString(NSString* name) {
  return objc_lookUpClass(name.UTF8String);
}

NSString* NSStringFromClass(Class cls) {
  return cls == Nil ? nil : to_ns_string(class_getName(cls));
}

SEL NSSelectorFromString(NSString* name) {
  return sel_registerName(name.UTF8String);
}

NSString* NSStringFromSelector(SEL selector) {
  return selector == nullptr ? nil : to_ns_string(sel_getName(selector));
}

NSString* NSStringFromProtocol(Protocol* protocol) {
  return protocol == nil ? nil : to_ns_string(protocol_getName(protocol));
}

void NSLogv(NSString* format, va_list arguments) {
  std::fprintf(stderr, "%s\n", format_string(string_view_of(format), arguments).c_str());
}

void NSLog(NSString* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  NSLogv(format, arguments);
  va_end(arguments);
}
