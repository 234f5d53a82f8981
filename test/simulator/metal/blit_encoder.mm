#import "metal/command_encoder.h"

#include "metal/access_map.h"
#include "metal/buffer.h"
#include "support/counters.h"
#include "support/error.h"

#include <cstring>

using namespace mps_simulator;

namespace {

class CopyCommand final : public GpuCommand {
 public:
  CopyCommand(const SimulatedBuffer* to,
              char* destination,
              const SimulatedBuffer* from,
              const char* source,
              size_t size)
      : to_(to), destination_(destination), from_(from), source_(source), size_(size) {}
  void run() override {
    std::memcpy(destination_, source_, size_);
  }
  void collect_accesses(std::vector<GpuAccess>& accesses, bool) const override {
    accesses.push_back({from_, source_, source_ + size_, false});
    accesses.push_back({to_, destination_, destination_ + size_, true});
  }
  std::string describe() const override {
    return "a blit's copy";
  }

 private:
  const SimulatedBuffer* to_;
  char* destination_;
  const SimulatedBuffer* from_;
  const char* source_;
  size_t size_;
};

class FillCommand final : public GpuCommand {
 public:
  FillCommand(const SimulatedBuffer* to, char* destination, uint8_t value, size_t size)
      : to_(to), destination_(destination), size_(size), value_(value) {}
  void run() override {
    std::memset(destination_, value_, size_);
  }
  void collect_accesses(std::vector<GpuAccess>& accesses, bool) const override {
    accesses.push_back({to_, destination_, destination_ + size_, true});
  }
  std::string describe() const override {
    return "a blit's fill";
  }

 private:
  const SimulatedBuffer* to_;
  char* destination_;
  size_t size_;
  uint8_t value_;
};

void check_range(const char* function,
                 const char* role,
                 const SimulatedBuffer* buffer,
                 NSUInteger offset,
                 NSUInteger size) {
  if (offset > buffer->_length || size > buffer->_length - offset) {
    violation(
        "%s: %s offset %lu + size %lu is beyond the buffer's %lu bytes", function, role, offset, size, buffer->_length);
  }
}

} // namespace

@implementation SimulatedBlitCommandEncoder

- (void)copyFromBuffer:(id<MTLBuffer>)sourceBuffer
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destinationBuffer
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size {
  COUNT_CALL();
  EncoderCall call(_failed);
  VALIDATE_ENCODING();
  auto* source = checked_buffer(sourceBuffer, __func__);
  auto* destination = checked_buffer(destinationBuffer, __func__);
  VALIDATE(source, "the source buffer is nil");
  VALIDATE(destination, "the destination buffer is nil");
  if (settings().validation) {
    check_range(__func__, "source", source, sourceOffset, size);
    check_range(__func__, "destination", destination, destinationOffset, size);
  }
  const char* from = source->_pointer + sourceOffset;
  char* to = destination->_pointer + destinationOffset;
  VALIDATE(from + size <= to || to + size <= from, "source and destination overlap");
  [_commandBuffer retainUntilCompleted:source];
  [_commandBuffer retainUntilCompleted:destination];
  auto& accesses = _commandBuffer->_accesses;
  accesses.add(source, sourceOffset, sourceOffset + size, false);
  accesses.add(destination, destinationOffset, destinationOffset + size, true);
  accesses.add_bytes(source, sourceOffset, sourceOffset + size, false);
  accesses.add_bytes(destination, destinationOffset, destinationOffset + size, true);
  _commandBuffer->_commands.append<CopyCommand>(destination, to, source, from, size);
  call.succeeded();
}

- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value {
  COUNT_CALL();
  EncoderCall call(_failed);
  VALIDATE_ENCODING();
  auto* destination = checked_buffer(buffer, __func__);
  VALIDATE(destination, "the buffer is nil");
  VALIDATE(range.length > 0, "the range is empty");
  if (settings().validation) {
    check_range(__func__, "range", destination, range.location, range.length);
  }
  [_commandBuffer retainUntilCompleted:destination];
  _commandBuffer->_accesses.add(destination, range.location, NSMaxRange(range), true);
  _commandBuffer->_accesses.add_bytes(destination, range.location, NSMaxRange(range), true);
  _commandBuffer->_commands.append<FillCommand>(
      destination, destination->_pointer + range.location, value, range.length);
  call.succeeded();
}

@end
