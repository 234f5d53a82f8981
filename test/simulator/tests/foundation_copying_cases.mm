// Descriptors: a copy has the value of every property.

#include "cases.h"
#include "foundation_checks.h"

#import <Metal/Metal.h>
#import <MetalPerformanceShaders/MetalPerformanceShaders.h>
#import <MetalPerformanceShadersGraph/MetalPerformanceShadersGraph.h>

#include <objc/runtime.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

// Forgets one of its properties.
@interface ForgetfulDescriptor : NSObject <NSCopying>
@property(readwrite, nonatomic) NSUInteger kept;
@property(readwrite, nonatomic) float forgotten;
@end

@implementation ForgetfulDescriptor

- (id)copyWithZone:(NSZone*)zone {
  ForgetfulDescriptor* copy = [[ForgetfulDescriptor alloc] init];
  copy.kept = _kept;
  return copy;
}

@end

namespace mps_simulator::cases {
namespace {

std::vector<std::string> properties_of(Class item) {
  std::vector<std::string> names;
  for (; item; item = class_getSuperclass(item)) {
    unsigned count = 0;
    auto* properties = class_copyPropertyList(item, &count);
    for (unsigned i = 0; i < count; ++i) {
      names.emplace_back(property_getName(properties[i]));
    }
    std::free(properties);
  }
  return names;
}

SEL setter_of(std::string name) {
  name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return sel_registerName(("set" + name + ":").c_str());
}

// Calls `use` with a value of the type that the getter gives.
template <typename Use>
void with_type_of(id object, const std::string& name, const Use& use) {
  const char* types = method_getTypeEncoding(class_getInstanceMethod([object class], sel_registerName(name.c_str())));
  switch (types[0]) {
    case '@':
      return use(id(nil));
    case 'B':
    case 'c':
    case 'C':
      return use(char(0));
    case 'i':
    case 'I':
      return use(int32_t(0));
    case 'l':
    case 'L':
    case 'q':
    case 'Q':
      return use(int64_t(0));
    case 'f':
      return use(float(0));
    case 'd':
      return use(double(0));
    default:
      fail(__FILE__, __LINE__, name + " has a type that is not tried here: " + types);
  }
}

// The bits that the getter gives.
uint64_t value_of(id object, const std::string& name) {
  uint64_t bits = 0;
  with_type_of(object, name, [&](auto value) {
    const SEL getter = sel_registerName(name.c_str());
    value = reinterpret_cast<decltype(value) (*)(id, SEL)>(objc_msg_lookup(object, getter))(object, getter);
    std::memcpy(&bits, &value, sizeof(value));
  });
  return bits;
}

// Sets it to something that it is not by itself.
void change(id object, const std::string& name) {
  const uint64_t bits = value_of(object, name) ^ 1;
  with_type_of(object, name, [&](auto value) {
    if constexpr (std::is_same_v<decltype(value), id>) {
      // Nothing reads it, so one class serves for all; a mutable one would be copied by some setters.
      value = @"another value";
    } else {
      std::memcpy(&value, &bits, sizeof(value));
    }
    const SEL setter = setter_of(name);
    reinterpret_cast<void (*)(id, SEL, decltype(value))>(objc_msg_lookup(object, setter))(object, setter, value);
  });
}

// The properties whose change does not reach a copy, or that cannot be changed here.
std::set<std::string> not_copied(Class item) {
  const auto names = properties_of(item);
  std::set<std::string> missed;
  for (const auto& changed : names) {
    const id object = [[[item alloc] init] autorelease];
    if (![object respondsToSelector:setter_of(changed)]) {
      continue;
    }
    const auto before = value_of(object, changed);
    change(object, changed);
    if (value_of(object, changed) == before) {
      fail(__FILE__, __LINE__, std::string(class_getName(item)) + "." + changed + " did not change");
    }
    const id copy = [[object copy] autorelease];
    for (const auto& name : names) {
      if ([object respondsToSelector:setter_of(name)] && value_of(copy, name) != value_of(object, name)) {
        missed.insert(name);
      }
    }
  }
  return missed;
}

// Classes of the frameworks whose copies are objects of their own.
std::vector<Class> copied_classes() {
  std::vector<Class> result;
  for (const Class item : all_classes()) {
    const std::string name = class_getName(item);
    if (name.rfind("M", 0) == 0 && [item conformsToProtocol:@protocol(NSCopying)] &&
        ![item isSubclassOfClass:[MPSKernel class]] && // raises
        item != [MPSGraphTensor class] && item != [MPSGraphOperation class]) { // their own copies
      result.push_back(item);
    }
  }
  return result;
}

} // namespace

CASE(copies_have_every_property) {
  size_t properties = 0;
  for (const Class item : copied_classes()) {
    for (const auto& name : not_copied(item)) {
      fail(__FILE__, __LINE__, std::string("a copy of ") + class_getName(item) + " lacks its " + name);
    }
    properties += properties_of(item).size();
  }
  // The runtime's lists are not empty.
  CHECK(copied_classes().size() >= 16);
  CHECK(properties >= 80);
}

CASE(a_property_that_a_copy_lacks_is_noticed) {
  const auto missed = not_copied([ForgetfulDescriptor class]);
  CHECK(missed == std::set<std::string>{"forgotten"});
}

CASE(a_copy_of_an_array_descriptor_has_its_order) {
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:MPSDataTypeFloat32 shape:@[ @4, @3 ]];
  [descriptor transposeDimension:0 withDimension:1];
  MPSNDArrayDescriptor* copy = [[descriptor copy] autorelease];
  [descriptor transposeDimension:0 withDimension:1];
  CHECK([[copy getShape] isEqual:(@[ @3, @4 ])]);
  CHECK([[descriptor getShape] isEqual:(@[ @4, @3 ])]);
}

} // namespace mps_simulator::cases
