#include "foundation/forwarding.h"

#include "foundation/type_encoding.h"
#include "support/error.h"

#include <Foundation/Foundation.h>

#include <algorithm>
#include <cstring>

using namespace mps_simulator;

@interface NSMethodSignature ()
- (const std::vector<EncodedType>&)types;
@end

@implementation NSMethodSignature {
  std::vector<EncodedType> _types;
  BOOL _oneway;
}

+ (NSMethodSignature*)signatureWithObjCTypes:(const char*)types {
  NSMethodSignature* signature = [[[NSMethodSignature alloc] init] autorelease];
  signature->_types = parse_method_types(types);
  signature->_oneway = std::strchr("rnNoORV", types[0]) != nullptr && types[0] == 'V';
  return signature;
}

- (const std::vector<EncodedType>&)types {
  return _types;
}

- (NSUInteger)numberOfArguments {
  return _types.size() - 1;
}

- (const char*)getArgumentTypeAtIndex:(NSUInteger)index {
  if (index + 1 >= _types.size()) {
    VIOLATION("index %lu beyond the %lu arguments", index, _types.size() - 1);
  }
  return _types[index + 1].text.c_str();
}

- (NSUInteger)frameLength {
  NSUInteger length = 0;
  for (size_t i = 1; i < _types.size(); ++i) {
    length += (_types[i].size + 7) / 8 * 8;
  }
  return length;
}

- (const char*)methodReturnType {
  return _types[0].text.c_str();
}

- (NSUInteger)methodReturnLength {
  return _types[0].size;
}

- (BOOL)isOneway {
  return _oneway;
}

@end

namespace {

// Assigns registers and stack in the order in which a call uses them.
class ArgumentCursor {
 public:
  explicit ArgumentCursor(CallFrame& frame) : frame_(frame) {}

  // Calls copy(pointer into the frame, offset in the value, bytes) for each part.
  template <typename Copy>
  void next(const EncodedType& type, const Copy& copy) {
    size_t integers = 0;
    size_t vectors = 0;
    for (const auto kind : type.registers) {
      (kind == RegisterKind::Integer ? integers : vectors) += 1;
    }
    if (type.in_memory() || integers_ + integers > 6 || vectors_ + vectors > 8) {
      copy(frame_.stack + stack_words_, 0, type.size);
      stack_words_ += (type.size + 7) / 8;
      return;
    }
    for (size_t i = 0; i < type.registers.size(); ++i) {
      const size_t bytes = std::min<size_t>(8, type.size - 8 * i);
      if (type.registers[i] == RegisterKind::Integer) {
        copy(&frame_.integers[integers_++], 8 * i, bytes);
      } else {
        copy(&frame_.vectors[vectors_++][0], 8 * i, bytes);
      }
    }
  }

  void take_integer() {
    ++integers_;
  }

 private:
  CallFrame& frame_;
  size_t integers_ = 0;
  size_t vectors_ = 0;
  size_t stack_words_ = 0;
};

template <typename Copy>
void for_each_returned_part(CallFrame& frame, const EncodedType& type, const Copy& copy) {
  size_t integers = 0;
  size_t vectors = 0;
  for (size_t i = 0; i < type.registers.size(); ++i) {
    const size_t bytes = std::min<size_t>(8, type.size - 8 * i);
    void* part = type.registers[i] == RegisterKind::Integer ? &frame.returned_integers[integers++]
                                                            : &frame.returned_vectors[vectors++][0];
    copy(part, 8 * i, bytes);
  }
}

} // namespace

@interface NSInvocation ()
- (void)loadArgumentsFromFrame:(CallFrame&)frame;
- (void)storeReturnValueIntoFrame:(CallFrame&)frame;
@end

@implementation NSInvocation {
  NSMethodSignature* _signature;
  std::vector<std::vector<uint8_t>> _values; // the return value, then the arguments
  BOOL _argumentsRetained;
}

+ (NSInvocation*)invocationWithMethodSignature:(NSMethodSignature*)signature {
  if (signature == nil) {
    VIOLATION("signature is nil");
  }
  NSInvocation* invocation = [[[NSInvocation alloc] init] autorelease];
  invocation->_signature = [signature retain];
  for (const auto& type : [signature types]) {
    invocation->_values.emplace_back(type.size);
  }
  return invocation;
}

- (void)dealloc {
  if (_argumentsRetained) {
    for (size_t i = 1; i < _values.size(); ++i) {
      if ([self argumentIsObject:i]) {
        [[self objectArgument:i] release];
      }
    }
  }
  [_signature release];
  [super dealloc];
}

- (BOOL)argumentIsObject:(size_t)valueIndex {
  return [_signature types][valueIndex].text[0] == '@';
}

- (id)objectArgument:(size_t)valueIndex {
  id object = nil;
  std::memcpy(&object, _values[valueIndex].data(), sizeof(object));
  return object;
}

- (NSMethodSignature*)methodSignature {
  return _signature;
}

- (BOOL)argumentsRetained {
  return _argumentsRetained;
}

- (void)retainArguments {
  if (_argumentsRetained) {
    return;
  }
  _argumentsRetained = YES;
  for (size_t i = 1; i < _values.size(); ++i) {
    if (![self argumentIsObject:i]) {
      continue;
    }
    const BOOL is_block = [_signature types][i].text == "@?";
    id object = [self objectArgument:i];
    object = is_block ? [object copy] : [object retain];
    std::memcpy(_values[i].data(), &object, sizeof(object));
  }
}

- (void)getReturnValue:(void*)value {
  std::memcpy(value, _values[0].data(), _values[0].size());
}

- (void)setReturnValue:(void*)value {
  std::memcpy(_values[0].data(), value, _values[0].size());
}

- (std::vector<uint8_t>&)valueAtIndex:(NSInteger)index {
  if (index < 0 || static_cast<size_t>(index) + 1 >= _values.size()) {
    violation("-[NSInvocation getArgument:atIndex:]: index %ld beyond the %lu arguments", index, _values.size() - 1);
  }
  return _values[index + 1];
}

- (void)getArgument:(void*)value atIndex:(NSInteger)index {
  const auto& bytes = [self valueAtIndex:index];
  std::memcpy(value, bytes.data(), bytes.size());
}

- (void)setArgument:(void*)value atIndex:(NSInteger)index {
  auto& bytes = [self valueAtIndex:index];
  if (_argumentsRetained && [self argumentIsObject:index + 1]) {
    id object = nil;
    std::memcpy(&object, value, sizeof(object));
    object = [_signature types][index + 1].text == "@?" ? [object copy] : [object retain];
    [[self objectArgument:index + 1] release];
    std::memcpy(bytes.data(), &object, sizeof(object));
    return;
  }
  std::memcpy(bytes.data(), value, bytes.size());
}

- (id)target {
  return [self objectArgument:1];
}

- (void)setTarget:(id)target {
  [self setArgument:&target atIndex:0];
}

- (SEL)selector {
  SEL selector = nullptr;
  std::memcpy(&selector, _values[2].data(), sizeof(selector));
  return selector;
}

- (void)setSelector:(SEL)selector {
  [self setArgument:&selector atIndex:1];
}

- (void)invoke {
  [self invokeWithTarget:self.target];
}

- (void)invokeWithTarget:(id)target {
  self.target = target;
  if (target == nil) {
    std::fill(_values[0].begin(), _values[0].end(), 0);
    return;
  }
  const auto& types = [_signature types];
  const bool struct_return = types[0].in_memory();
  std::vector<uint64_t> stack(_signature.frameLength / 8 + 1);
  OutgoingCall call{};
  call.frame.stack = stack.data();
  call.stack_words = stack.size();
  ArgumentCursor cursor(call.frame);
  if (struct_return) {
    call.frame.integers[0] = reinterpret_cast<uint64_t>(_values[0].data());
    cursor.take_integer();
  }
  for (size_t i = 1; i < types.size(); ++i) {
    cursor.next(types[i],
                [&](void* part, size_t offset, size_t bytes) { std::memcpy(part, _values[i].data() + offset, bytes); });
  }
  const SEL selector = self.selector;
  call.function = reinterpret_cast<void*>(struct_return ? objc_msg_lookup_stret(target, selector)
                                                        : objc_msg_lookup(target, selector));
  mps_simulator_call(&call);
  for_each_returned_part(call.frame, types[0], [&](const void* part, size_t offset, size_t bytes) {
    std::memcpy(_values[0].data() + offset, part, bytes);
  });
}

- (void)loadArgumentsFromFrame:(CallFrame&)frame {
  const auto& types = [_signature types];
  ArgumentCursor cursor(frame);
  if (types[0].in_memory()) {
    cursor.take_integer();
  }
  for (size_t i = 1; i < types.size(); ++i) {
    cursor.next(types[i], [&](const void* part, size_t offset, size_t bytes) {
      std::memcpy(_values[i].data() + offset, part, bytes);
    });
  }
}

- (void)storeReturnValueIntoFrame:(CallFrame&)frame {
  const auto& type = [_signature types][0];
  if (type.in_memory()) {
    std::memcpy(reinterpret_cast<void*>(frame.integers[0]), _values[0].data(), type.size);
    frame.returned_integers[0] = frame.integers[0];
    return;
  }
  for_each_returned_part(frame, type, [&](void* part, size_t offset, size_t bytes) {
    std::memcpy(part, _values[0].data() + offset, bytes);
  });
}

@end

namespace mps_simulator {

void forward_invocation(id receiver, SEL selector, NSMethodSignature* signature, CallFrame& frame) {
  std::memset(frame.returned_integers, 0, sizeof(frame.returned_integers));
  std::memset(frame.returned_vectors, 0, sizeof(frame.returned_vectors));
  NSInvocation* invocation = [NSInvocation invocationWithMethodSignature:signature];
  [invocation loadArgumentsFromFrame:frame];
  [receiver forwardInvocation:invocation];
  [invocation storeReturnValueIntoFrame:frame];
}

} // namespace mps_simulator
