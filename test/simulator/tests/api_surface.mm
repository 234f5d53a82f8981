// What test_api_surface.py asks the Objective-C runtime.

#include "foundation_checks.h"

#include <objc/runtime.h>

#include <vector>

const std::vector<Class>& all_classes() {
  static const std::vector<Class> classes = [] {
    std::vector<Class> found(objc_getClassList(nullptr, 0));
    found.resize(objc_getClassList(found.data(), static_cast<unsigned>(found.size())));
    const Class root = objc_getClass("NSObject");
    std::vector<Class> ours;
    for (const Class listed : found) {
      // Looking it up by its name makes the runtime resolve its superclass.
      const Class item = objc_getClass(class_getName(listed));
      Class top = item;
      while (class_getSuperclass(top)) {
        top = class_getSuperclass(top);
      }
      if (top == root) {
        ours.push_back(item);
      }
    }
    return ours;
  }();
  return classes;
}

namespace {

bool responds(Class item, SEL selector) {
  return [item instancesRespondToSelector:selector] || [item respondsToSelector:selector];
}

} // namespace

extern "C" int simulator_has_class(const char* name) {
  return objc_getClass(name) != Nil;
}

// Whether the class or its instances have the method; any class, without a name.
extern "C" int simulator_implements(const char* name, const char* selector) {
  const SEL registered = sel_registerName(selector);
  if (name) {
    return responds(objc_getClass(name), registered);
  }
  for (const Class item : all_classes()) {
    if (responds(item, registered)) {
      return 1;
    }
  }
  return 0;
}
