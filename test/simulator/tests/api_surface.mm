// What test_api_surface.py asks the Objective-C runtime.

#include "foundation_checks.h"

#include <objc/runtime.h>

#include <cstring>
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

// Whether the class or its instances have the method; any class, without a name.
extern "C" int simulator_implements(const char* name, const char* selector) {
  const SEL registered = sel_registerName(selector);
  for (const Class item : all_classes()) {
    if (*name && std::strcmp(name, class_getName(item)) != 0) {
      continue;
    }
    if ([item instancesRespondToSelector:registered] || [item respondsToSelector:registered]) {
      return 1;
    }
  }
  return 0;
}
