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

NSInvocation* call(id object, SEL selector) {
  NSMethodSignature* signature = [object methodSignatureForSelector:selector];
  NSInvocation* invocation = [NSInvocation invocationWithMethodSignature:signature];
  invocation.selector = selector;
  return invocation;
}

// The bytes that the getter gives.
std::vector<uint8_t> value_of(id object, const std::string& name) {
  NSInvocation* getter = call(object, sel_registerName(name.c_str()));
  [getter invokeWithTarget:object];
  std::vector<uint8_t> value(getter.methodSignature.methodReturnLength);
  [getter getReturnValue:value.data()];
  return value;
}

// Sets it to something that it is not by itself; false if it can't be set.
bool change(id object, const std::string& name) {
  const SEL selector = setter_of(name);
  if (![object respondsToSelector:selector]) {
    return false;
  }
  auto value = value_of(object, name);
  NSInvocation* setter = call(object, selector);
  if ([setter.methodSignature getArgumentTypeAtIndex:2][0] == '@') {
    // Nothing reads it, so one class serves for all; a mutable one would be copied by some setters.
    const id text = @"another value";
    std::memcpy(value.data(), &text, sizeof(text));
  } else {
    value[0] ^= 1;
  }
  [setter setArgument:value.data() atIndex:2];
  [setter invokeWithTarget:object];
  return true;
}

// The properties whose change does not reach a copy, or that cannot be changed here.
std::set<std::string> not_copied(Class item) {
  const auto names = properties_of(item);
  std::set<std::string> missed;
  for (const auto& changed : names) {
    const id object = [[[item alloc] init] autorelease];
    const auto before = value_of(object, changed);
    if (!change(object, changed)) {
      continue;
    }
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
  CHECK(copied_classes().size() >= 22);
  CHECK(properties >= 129);
}

CASE(a_property_that_a_copy_lacks_is_noticed) {
  const auto missed = not_copied([ForgetfulDescriptor class]);
  CHECK(missed == std::set<std::string>{"forgotten"});
}

CASE(a_copy_of_a_pipeline_descriptor_has_its_own_buffers) {
  MTLComputePipelineDescriptor* descriptor = [[[MTLComputePipelineDescriptor alloc] init] autorelease];
  descriptor.buffers[3].mutability = MTLMutabilityImmutable;
  MTLComputePipelineDescriptor* copy = [[descriptor copy] autorelease];
  descriptor.buffers[3].mutability = MTLMutabilityMutable;
  CHECK_EQUAL(copy.buffers[3].mutability, MTLMutabilityImmutable);
}

CASE(a_copy_of_an_array_descriptor_has_its_slices) {
  MPSNDArrayDescriptor* descriptor = [MPSNDArrayDescriptor descriptorWithDataType:MPSDataTypeFloat32 shape:@[ @4, @3 ]];
  [descriptor sliceDimension:0 withSubrange:{1, 2}];
  MPSNDArrayDescriptor* copy = [[descriptor copy] autorelease];
  [descriptor sliceDimension:0 withSubrange:{0, 3}];
  CHECK_EQUAL([copy sliceRangeForDimension:0].start, 1);
  CHECK_EQUAL([copy sliceRangeForDimension:0].length, 2);
}

} // namespace mps_simulator::cases
