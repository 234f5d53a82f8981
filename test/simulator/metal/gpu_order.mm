#import "metal/gpu_order.h"

#include "metal/buffer.h"
#include "metal/command_list.h"
#include "metal/event.h"
#include "metal/residency.h"
#include "support/error.h"
#include "support/process.h"
#include "support/settings.h"

namespace mps_simulator {

namespace {

// Of an event. A wait for an older signal is taken for a wait for the oldest of
// these.
constexpr size_t kMostSignals = 64;

PassSet with(PassSet set, uint64_t pass) {
  set.add(pass);
  return set;
}

} // namespace

void EventOrder::signal(uint64_t value, const PassSet& done) {
  if (signals_.size() >= kMostSignals) {
    signals_.pop_front();
  }
  signals_.emplace_back(value, done);
}

PassSet EventOrder::before(uint64_t value) const {
  for (const auto& [signaled, done] : signals_) {
    if (signaled >= value) {
      return done;
    }
  }
  return {};
}

GpuOrder& GpuOrder::instance() {
  static auto* instance = new GpuOrder;
  return *instance;
}

bool GpuOrder::is_on() {
  return settings().order && settings().validation;
}

void GpuOrder::buffer_gone(const SimulatedBuffer* buffer) {
  if (buffer->_untracked) {
    --untracked_;
  }
  forget(buffer->_pointer, buffer->_pointer + buffer->_length, buffer);
}

void GpuOrder::forget(const char* begin, const char* end, const void* resource) {
  if (device_lost_by_fork()) {
    return; // The state of the lock is unknown in such a child.
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (last_pass_) {
    untracked_memory_.forget(begin, end);
    tracked_.erase(resource);
  }
}

void GpuOrder::committed(CommandBufferOrder& order) {
  if (!is_on()) {
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  order.before = order.done = host_;
}

void GpuOrder::completed(CommandBufferOrder& order, PassSet& queue) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // The command buffers of a queue are completed in their order.
  queue.add(order.done);
  order.completed = queue;
}

void GpuOrder::observed(const CommandBufferOrder& order) {
  if (device_lost_by_fork()) {
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  host_.add(order.completed);
}

void GpuOrder::signals(EventOrder& event, uint64_t value, const CommandBufferOrder& order) {
  const std::lock_guard<std::mutex> lock(mutex_);
  event.signal(value, order.done);
}

void GpuOrder::waits(const EventOrder& event, uint64_t value, CommandBufferOrder& order) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto before = event.before(value);
  order.before.add(before);
  order.done.add(before);
}

void GpuOrder::host_signals(EventOrder& event, uint64_t value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  event.signal(value, host_);
}

void GpuOrder::host_sees(const EventOrder& event, uint64_t value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  host_.add(event.before(value));
}

// Metal's tracking delays a whole pass, so the accesses of all its commands are collected first.
void GpuOrder::add_tracked(const GpuCommand& first, GpuPass& pass) {
  std::unordered_map<const void*, bool> used; // whether it is written
  accesses_.clear();
  for (const auto* command = &first; command && command->pass == &pass; command = command->next) {
    command->collect_accesses(accesses_, /*about_to_run=*/false);
  }
  for (const auto& access : accesses_) {
    if (const void* resource = tracked_resource(access.buffer)) {
      used[resource] |= access.writes;
    }
  }
  pass.residency.each([&](const Residency::Use& use) {
    if (const void* resource = use.tracked) {
      used[resource] |= use.writes;
    }
  });
  for (const auto& [resource, writes] : used) {
    const auto known = tracked_.find(resource);
    if (known != tracked_.end()) {
      before_.add(known->second.writes);
      if (writes) {
        before_.add(known->second.reads);
      }
    }
  }
  const auto done = with(before_, pass.id);
  for (const auto& [resource, writes] : used) {
    auto& state = tracked_[resource];
    if (writes) {
      state.writes = done;
      state.reads = {};
    } else {
      state.reads.add(done);
    }
  }
}

void GpuOrder::start_pass(const GpuCommand& first, CommandBufferOrder& order) {
  auto& pass = *first.pass;
  pass.started = true;
  pass_ = &pass;
  position_ = 0;
  concurrent_memory_.clear();
  barriers_.clear();
  if (!untracked_) {
    // Nothing can conflict between passes.
    if (last_pass_) {
      tracked_.clear();
      untracked_memory_.clear();
    }
    return;
  }
  pass.id = ++last_pass_;
  before_ = order.before;
  before_.advance(pass.id);
  add_tracked(first, pass);
  order.done.add(with(before_, pass.id));
}

void GpuOrder::starts(const GpuCommand& command, CommandBufferOrder& order) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!command.pass->started) {
    start_pass(command, order);
  }
  command_ = &command;
  name_.reset();
  ++position_;
  if (!pass_->concurrent && !pass_->id) {
    return;
  }
  accesses_.clear();
  command.collect_accesses(accesses_, /*about_to_run=*/true);
  for (const auto& access : accesses_) {
    check(access);
  }
}

void GpuOrder::touches(const GpuAccess& access) {
  if (!is_on()) {
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (command_ && pass_) {
    check(access);
  }
}

void GpuOrder::check(const GpuAccess& access) {
  const bool between_passes = pass_->id && access.buffer->_untracked;
  if (!pass_->concurrent && !between_passes) {
    return;
  }
  if (!name_) {
    name_ = std::make_shared<const std::string>(command_->describe());
  }
  if (pass_->concurrent) {
    const auto is_ordered = [&](const Accessor& earlier) {
      if (earlier.id == position_) {
        return true;
      }
      const auto barrier = barriers_.find(access.buffer);
      return earlier.buffer == access.buffer && barrier != barriers_.end() && earlier.id < barrier->second;
    };
    concurrent_memory_.add(
        access, {position_, access.buffer, name_}, is_ordered, [&](const Accessor& earlier, bool wrote) {
          report(access, earlier, wrote, /*same_pass=*/true);
        });
  }
  if (between_passes) {
    untracked_memory_.add(
        access,
        {pass_->id, access.buffer, name_},
        [&](const Accessor& earlier) { return earlier.id == pass_->id || before_.contains(earlier.id); },
        [&](const Accessor& earlier, bool wrote) { report(access, earlier, wrote, /*same_pass=*/false); });
  }
}

void GpuOrder::report(const GpuAccess& access, const Accessor& earlier, bool wrote, bool same_pass) const {
  violation(
      "order on the GPU: %s %s bytes %td to %td of the buffer %s, %s which %s "
      "%s, and %s",
      name_->c_str(),
      access.writes ? "writes" : "reads",
      access.begin - access.buffer->_pointer,
      access.end - access.buffer->_pointer,
      describe_buffer(access.buffer).c_str(),
      earlier.buffer == access.buffer ? "some of" : "with memory of",
      earlier.name->c_str(),
      wrote ? "writes" : "reads",
      same_pass ? "there is no barrier between them in their concurrent encoder"
                : "nothing orders the two: Metal does not track the buffer, and there is no event or completion between them");
}

void GpuOrder::barrier(const SimulatedBuffer* const* buffers, size_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!buffers) {
    concurrent_memory_.clear();
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    barriers_[buffers[i]] = position_;
  }
}

} // namespace mps_simulator
