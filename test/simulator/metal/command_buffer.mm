#import "metal/command_buffer.h"

#include "metal/command_encoder.h"
#include "metal/buffer.h"
#include "metal/device.h"
#include "metal/event.h"
#include "metal/indirect_command_buffer.h"
#include "support/counters.h"
#include "support/deferred.h"
#include "support/error.h"
#include "support/process.h"

#include <cstdio>
#include <ctime>
#include <utility>

using namespace mps_simulator;

NSString* const MTLCommandBufferErrorDomain = @"MTLCommandBufferErrorDomain";

namespace {

// The clock that Metal's time stamps are on: seconds since the machine started.
double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::string message_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an Objective-C exception";
  }
}

class HostCommand final : public GpuCommand {
 public:
  explicit HostCommand(Command command) : command_(std::move(command)) {}
  void run() override {
    try {
      command_.run();
    } catch (c10::Error& error) {
      error.add_context("while the GPU ran " + command_.label);
      throw;
    }
  }
  void collect_accesses(std::vector<GpuAccess>& accesses, bool) const override {
    for (const auto& access : command_.accesses) {
      const auto* buffer = (SimulatedBuffer*)access.buffer;
      accesses.push_back({buffer, buffer->_pointer + access.begin, buffer->_pointer + access.end, access.writes});
    }
  }
  std::string describe() const override {
    return command_.label;
  }

 private:
  Command command_;
};

class EventCommand : public GpuCommand {
 public:
  EventCommand(SimulatedSharedEvent* event, uint64_t value, SimulatedCommandBuffer* buffer)
      : event_(event), value_(value), buffer_(buffer) {}
  bool runs_in_null_mode() const override {
    return true;
  }

 protected:
  SimulatedSharedEvent* event_;
  uint64_t value_;
  SimulatedCommandBuffer* buffer_; // whose command it is
};

class SignalCommand final : public EventCommand {
 public:
  SignalCommand(SimulatedSharedEvent* event, uint64_t value, SimulatedCommandBuffer* buffer, size_t done)
      : EventCommand(event, value, buffer), done_(done) {}
  void run() override {
    // A program that waits for the event may touch what the work before it has used.
    buffer_->_accesses.finish(done_);
    GpuOrder::instance().signals(event_->_order, value_, buffer_->_order);
    [event_ signalValue:value_];
  }

 private:
  size_t done_;
};

class WaitCommand final : public EventCommand {
 public:
  using EventCommand::EventCommand;
  void run() override {
    GpuOrder::instance().waits(event_->_order, value_, buffer_->_order);
  }
  bool ready() override {
    return event_->_value.load(std::memory_order_acquire) >= value_;
  }
  std::string waits_for() const override {
    const std::string name = event_->_label ? "'" + std::string(event_->_label.UTF8String) + "'" : "without label";
    return "the event " + name + " to reach " + std::to_string(value_) + ", which nothing signals (it is at " +
        std::to_string(event_->_value.load()) + ")";
  }
};

} // namespace

@implementation SimulatedCommandBuffer

- (instancetype)initWithQueue:(SimulatedCommandQueue*)queue
                        state:(std::shared_ptr<QueueState>)state {
  if ((self = [super init])) {
    _queue = [queue retain];
    _state = std::move(state);
    _status = MTLCommandBufferStatusNotEnqueued;
  }
  return self;
}

- (void)dealloc {
  // A forked child has no GPU thread, and the state of the lock is unknown there.
  if (!_committed && !device_lost_by_fork()) {
    if (!_completedHandlers.empty() || !_scheduledHandlers.empty()) {
      defer_violation("-[SimulatedCommandBuffer addCompletedHandler:]: the " + [self describe] +
                      " was released without having been committed: its handlers will never "
                      "run");
    }
    const auto held = Gpu::instance().lock();
    --_state->unfinished;
    Gpu::instance().notify_progress();
  }
  [self releaseContent];
  for (auto handler : _scheduledHandlers) {
    [handler release];
  }
  for (auto handler : _completedHandlers) {
    [handler release];
  }
  [_queue release];
  [super dealloc];
}

- (void)releaseContent {
  _commands.clear();
  _position = nullptr;
  for (auto* commands : _indirectCommandBuffers) {
    if (_committed) {
      --commands->_inFlight;
    }
    [commands release];
  }
  _indirectCommandBuffers.clear();
  for (id object : _retained) {
    [object release];
  }
  _retained.clear();
}

COUNTED_GETTER(id<MTLCommandQueue>, commandQueue, _queue)
COUNTED_GETTER(CFTimeInterval, kernelStartTime, _kernelStartTime)
COUNTED_GETTER(CFTimeInterval, kernelEndTime, _kernelEndTime)
COUNTED_GETTER(CFTimeInterval, GPUStartTime, _gpuStartTime)
COUNTED_GETTER(CFTimeInterval, GPUEndTime, _gpuEndTime)

- (MTLCommandBufferStatus)status {
  COUNT_CALL();
  const MTLCommandBufferStatus status = _status;
  [self noteSeen];
  return status;
}

// The host knows whether the work is done, and may commit what relies on it.
- (void)noteSeen {
  if (_status >= MTLCommandBufferStatusCompleted) {
    GpuOrder::instance().observed(_order);
  }
}

- (NSError*)error {
  COUNT_CALL();
  std::exception_ptr exception;
  {
    const auto held = Gpu::instance().lock();
    exception = _exception;
  }
  if (!exception) {
    return nil;
  }
  NSString* message = [NSString stringWithUTF8String:message_of(exception).c_str()];
  return [NSError errorWithDomain:MTLCommandBufferErrorDomain
                             code:MTLCommandBufferErrorInternal
                         userInfo:@{NSLocalizedDescriptionKey : message}];
}

- (void)checkOpenForEncoding:(const char*)function {
  check_process(function);
  if (!settings().validation) {
    return;
  }
  if (_committed) {
    violation("%s: the command buffer has already been committed", function);
  }
  [self checkNoEncoderIsOpen:function];
}

- (void)checkNoEncoderIsOpen:(const char*)function {
  if (_openEncoder && _openEncoder->_failed) {
    // The encoder's own violation has been reported and kept it from being ended.
    _openEncoder->_ended = YES;
    _openEncoder = nil;
  }
  const bool lost = std::exchange(_lostEncoder, false);
  if (_openEncoder || lost) {
    violation("%s: an encoder of this command buffer has not ended%s", function, lost ? " and has been released" : "");
  }
}

- (void)retainUntilCompleted:(id)object {
  if (object) {
    _retained.push_back([object retain]);
  }
}

- (void)useIndirectCommandBuffer:(SimulatedIndirectCommandBuffer*)commands {
  _indirectCommandBuffers.push_back([commands retain]);
}

- (void)commit {
  COUNT_CALL();
  if (lost_and_exiting()) {
    return;
  }
  check_process(__func__);
  VALIDATE(!_committed, "the command buffer has already been committed");
  if (settings().validation) {
    [self checkNoEncoderIsOpen:__func__];
  }
  for (auto* commands : _indirectCommandBuffers) {
    ++commands->_inFlight;
  }
  auto& gpu = Gpu::instance();
  _nullMode = settings().null_mode;
  _position = _nullMode && !_commands.has_null_mode_commands() ? nullptr : _commands.first();
  if (!_nullMode && settings().validation) {
    _accesses.start(self, [self describe]);
  }
  GpuOrder::instance().committed(_order);
  _kernelStartTime = _kernelEndTime = now();
  {
    const auto held = gpu.lock();
    _state->order.push_back([self retain]);
    _committed = true;
    _status = MTLCommandBufferStatusCommitted;
    ++_state->committed;
    _finishedAtCommit = _nullMode && !_position && _state->order.front() == self;
    if (_finishedAtCommit) {
      [self markScheduled];
    } else {
      gpu.work_added(held);
    }
  }
  if (_finishedAtCommit) {
    [self finishWithException:nullptr];
  }
}

- (std::string)describe {
  char text[64];
  std::snprintf(text,
                sizeof(text),
                "command buffer %s(%p)",
                _label ? (std::string(_label.UTF8String).substr(0, 30) + " ").c_str() : "",
                static_cast<void*>(self));
  return text;
}

- (void)markScheduled {
  if (_status == MTLCommandBufferStatusScheduled) {
    return;
  }
  _status = MTLCommandBufferStatusScheduled;
  _gpuStartTime = now();
  if (!_scheduledHandlers.empty()) {
    [self retain];
    Gpu::instance().post_handlers([self] {
      [self callHandlers:_scheduledHandlers];
      [self release];
    });
  }
  Gpu::instance().notify_progress();
}

- (void)finishWithException:(std::exception_ptr)exception {
  _gpuEndTime = now();
  _accesses.finish_all();
  GpuOrder::instance().completed(_order, _state->done);
  // In null mode on the handlers' thread: not the caller's, as on a Mac.
  if (!_finishedAtCommit) {
    [self releaseContent];
  }
  auto& gpu = Gpu::instance();
  {
    const auto held = gpu.lock();
    _exception = std::move(exception);
    if (_exception && !_state->unreported_error) {
      _state->unreported_error = _exception;
    }
    _status = _exception ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted;
    _state->order.pop_front();
    if (_finishedAtCommit && !_state->order.empty()) {
      // Another thread has committed behind this one, for the GPU to run.
      gpu.work_added(held);
    }
    --_state->unfinished;
    --_state->committed;
    if (_completedHandlers.empty() && !_finishedAtCommit) {
      _handlersDone = true;
    } else {
      // The queue's reference becomes the handlers'.
      gpu.post_handlers([self] {
        if (_finishedAtCommit) {
          [self releaseContent];
        }
        [self callHandlers:_completedHandlers];
        {
          const auto lock = Gpu::instance().lock();
          _handlersDone = true;
          Gpu::instance().notify_progress();
        }
        [self release];
      });
      gpu.notify_progress();
      return;
    }
    gpu.notify_progress();
  }
  [self release];
}

- (void)callHandlers:(std::vector<MTLCommandBufferHandler>&)handlers {
  [self noteSeen];
  for (MTLCommandBufferHandler handler : handlers) {
    std::exception_ptr failure;
    try {
      handler(self);
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure) {
      const auto held = Gpu::instance().lock();
      if (!_state->unreported_error) {
        _state->unreported_error = std::move(failure);
      }
    }
    [handler release];
  }
  handlers.clear();
}

- (void)addScheduledHandler:(MTLCommandBufferHandler)handler {
  COUNT_CALL();
  if (device_lost_by_fork()) {
    return; // See -[MTLCommandQueue commandBuffer].
  }
  check_process(__func__);
  VALIDATE(handler, "the handler is nil");
  VALIDATE(!_committed, "the command buffer has already been committed");
  _scheduledHandlers.push_back([handler copy]);
}

- (void)addCompletedHandler:(MTLCommandBufferHandler)handler {
  COUNT_CALL();
  if (device_lost_by_fork()) {
    return;
  }
  check_process(__func__);
  VALIDATE(handler, "the handler is nil");
  VALIDATE(!_committed, "the command buffer has already been committed");
  _completedHandlers.push_back([handler copy]);
}

// Nothing has moved for as long as the settings allow. The GPU's lock is held.
- (void)reportEndlessWait:(const char*)function {
  SimulatedCommandBuffer* first = _state->order.empty() ? self : _state->order.front();
  if (first->_position && !first->_position->ready()) {
    violation("%s: waits for ever, because the %s waits for %s",
              function,
              [first describe].c_str(),
              first->_position->waits_for().c_str());
  }
  violation(
      "%s: waits for ever, because a handler of a command buffer does not "
      "return",
      function);
}

- (void)waitUntilCompleted {
  COUNT_CALL();
  const char* function = __func__;
  if (lost_and_exiting()) {
    return;
  }
  check_process(__func__);
  VALIDATE(_committed, "the command buffer has not been committed: this would wait for ever");
  auto& gpu = Gpu::instance();
  std::exception_ptr failure;
  {
    auto held = gpu.lock();
    gpu.wake_handlers();
    // A handler that waits for its own buffer must not wait for itself.
    const bool own_thread = gpu.on_own_thread();
    gpu.wait_watched(
        held,
        [&] { return _status >= MTLCommandBufferStatusCompleted && (_handlersDone || own_thread); },
        [&] { [self reportEndlessWait:function]; });
    if (_exception && !_reported) {
      _reported = true;
      failure = _exception;
      if (_state->unreported_error == _exception) {
        _state->unreported_error = nullptr;
      }
    } else if (_state->unreported_error && !own_thread) {
      failure = _state->unreported_error;
      _state->unreported_error = nullptr;
    }
  }
  [self noteSeen];
  if (failure) {
    std::rethrow_exception(failure);
  }
}

- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
  COUNT_CALL();
  [self checkOpenForEncoding:__func__];
  return [[[SimulatedComputeCommandEncoder alloc] initWithCommandBuffer:self
                                                           dispatchType:MTLDispatchTypeSerial] autorelease];
}

- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)dispatchType {
  COUNT_CALL();
  [self checkOpenForEncoding:__func__];
  return [[[SimulatedComputeCommandEncoder alloc] initWithCommandBuffer:self dispatchType:dispatchType] autorelease];
}

- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
  COUNT_CALL();
  [self checkOpenForEncoding:__func__];
  return [[[SimulatedBlitCommandEncoder alloc] initWithCommandBuffer:self] autorelease];
}

- (SimulatedSharedEvent*)checkedEvent:(id<MTLEvent>)event function:(const char*)function {
  [self checkOpenForEncoding:function];
  if (![(id)event isKindOfClass:[SimulatedSharedEvent class]]) {
    violation("%s: the event is not one of this device", function);
  }
  [self retainUntilCompleted:event];
  return (SimulatedSharedEvent*)event;
}

- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
  COUNT_CALL();
  auto* checked = [self checkedEvent:event function:__func__];
  _commands.append<WaitCommand>(checked, value, self);
}

- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
  COUNT_CALL();
  auto* checked = [self checkedEvent:event function:__func__];
  _commands.append<SignalCommand>(checked, value, self, _accesses.mark());
}

- (void)pushDebugGroup:(NSString*)string {
  COUNT_CALL();
  ++_debugGroups;
}

- (void)popDebugGroup {
  COUNT_CALL();
  VALIDATE(_debugGroups > 0, "there is no debug group to pop");
  _debugGroups -= _debugGroups > 0;
}

@end

namespace mps_simulator {

SimulatedCommandBuffer* root_command_buffer(id<MTLCommandBuffer> command_buffer, const char* function) {
  if (object_getClass(command_buffer) == [SimulatedCommandBuffer class]) {
    return (SimulatedCommandBuffer*)command_buffer;
  }
  static const SEL root = @selector(rootCommandBuffer);
  if ([command_buffer respondsToSelector:root]) {
    id wrapped = [command_buffer performSelector:root];
    if (wrapped != command_buffer) {
      return root_command_buffer(wrapped, function);
    }
  }
  violation("%s: the command buffer is not one of this device", function);
}

void append_command(id<MTLCommandBuffer> command_buffer,
                    Command command,
                    const char* function,
                    id<MTLComputeCommandEncoder> encoder) {
  auto* buffer = root_command_buffer(command_buffer, function);
  const OneThread::Use use(buffer->_oneThread, function, "command buffer");
  if (!encoder) {
    [buffer checkOpenForEncoding:function];
    buffer->_commands.begin_pass();
  } else if (buffer->_openEncoder != (id)encoder) {
    violation("%s: the encoder is not the one that is open on the command buffer", function);
  }
  if (settings().hazards) {
    for (const auto& access : command.accesses) {
      buffer->_accesses.add(checked_buffer(access.buffer, function), access.begin, access.end, access.writes);
    }
  }
  buffer->_commands.append<HostCommand>(std::move(command));
  if (encoder) {
    [(SimulatedComputeCommandEncoder*)encoder forgetBindings];
  } else {
    buffer->_commands.end_pass();
  }
}

void retain_until_completed(id<MTLCommandBuffer> command_buffer, id object) {
  [root_command_buffer(command_buffer, "retain_until_completed()") retainUntilCompleted:object];
}

} // namespace mps_simulator
