#include <ATen/mps/MPSCommandGraphAhead.h>
#include <c10/util/Exception.h>

#include <dispatch/dispatch.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace at::mps {

struct MPSReadyReplays::All {
  std::mutex mutex;
  std::condition_variable changed;
  dispatch_queue_t queue = dispatch_queue_create("mps graph encoding", nullptr);
  // the graphs that have ready replays, or will have; the least recently replayed first
  std::vector<MPSReadyReplays*> graphs;
  // replays that are ready or will be
  size_t count = 0;
  bool exits = false;
  const pid_t process = getpid();

  bool isForked() const {
    return process != getpid();
  }
};

MPSReadyReplays::All& MPSReadyReplays::all() {
  // never destroyed: graphs may outlive all statics
  static auto* instance = new All();
  // Metal must not be used while the process takes down what it is made of.
  static struct AtExit {
    ~AtExit() {
      if (instance->isForked()) {
        return;
      }
      std::unique_lock<std::mutex> lock(instance->mutex);
      instance->exits = true;
      instance->changed.wait(lock, [] {
        return std::all_of(
            instance->graphs.begin(), instance->graphs.end(), [](const auto* graph) { return graph->begun_ == 0; });
      });
    }
  } at_exit;
  return *instance;
}

MPSReadyReplays::MPSReadyReplays(size_t wanted, std::function<MPSReadyReplay()> encode)
    : wanted_(std::min(wanted, kMostReady)), encode_(std::move(encode)) {}

MPSReadyReplays::~MPSReadyReplays() {
  close();
}

void MPSReadyReplays::prepare() {
  noteReplay();
  fill();
}

void MPSReadyReplays::prepareAfter(id<MTLCommandBuffer> command_buffer) {
  noteReplay();
  is_due_ = true;
  const auto weak = weak_from_this();
  [command_buffer addScheduledHandler:^(id<MTLCommandBuffer>) {
    const auto replays = weak.lock();
    if (replays && replays->is_due_.exchange(false)) {
      replays->fill();
    }
  }];
}

void MPSReadyReplays::noteReplay() {
  auto& all = MPSReadyReplays::all();
  if (all.isForked()) {
    return;
  }
  std::lock_guard<std::mutex> lock(all.mutex);
  all.graphs.erase(std::remove(all.graphs.begin(), all.graphs.end(), this), all.graphs.end());
  all.graphs.push_back(this);
}

void MPSReadyReplays::fill() {
  std::deque<MPSReadyReplay> dropped;
  std::lock_guard<std::mutex> lock(all().mutex);
  begin(dropped);
}

void MPSReadyReplays::begin(std::deque<MPSReadyReplay>& dropped) {
  auto& all = MPSReadyReplays::all();
  lacks_room_ = false;
  if (is_closed_ || all.exits || all.isForked()) {
    return;
  }
  while (ready_.size() + begun_ < wanted_) {
    if (all.count == kMostReady) {
      const auto own = std::find(all.graphs.begin(), all.graphs.end(), this);
      const auto other =
          std::find_if(all.graphs.begin(), own, [](const auto* graph) { return !graph->ready_.empty(); });
      if (other == own) {
        lacks_room_ = true;
        break;
      }
      dropped.push_back(std::move((*other)->ready_.back()));
      (*other)->ready_.pop_back();
      all.count--;
    }
    all.count++;
    begun_++;
    dispatch_async(all.queue, ^{
      encodeOne();
    });
  }
}

void MPSReadyReplays::encodeOne() {
  auto& all = MPSReadyReplays::all();
  MPSReadyReplay made;
  std::deque<MPSReadyReplay> dropped;
  bool has_failed = false;
  try {
    @autoreleasepool {
      made = encode_();
    }
  } catch (const std::exception&) {
    // the next replay encodes for itself, and raises where it can be caught
    has_failed = true;
  }
  std::lock_guard<std::mutex> lock(all.mutex);
  if (has_failed) {
    is_closed_ = true;
    all.count--;
  } else {
    ready_.push_back(std::move(made));
  }
  begun_--;
  // The last graph finds no room while all that is to be ready waits to be encoded.
  if (!all.graphs.empty() && all.graphs.back()->lacks_room_) {
    all.graphs.back()->begin(dropped);
  }
  // under the lock: the graph may be gone as soon as it is open
  all.changed.notify_all();
}

std::optional<MPSReadyReplay> MPSReadyReplays::take() {
  auto& all = MPSReadyReplays::all();
  std::unique_lock<std::mutex> lock(all.mutex);
  all.changed.wait(lock, [&] { return !ready_.empty() || begun_ == 0; });
  if (ready_.empty()) {
    return std::nullopt;
  }
  auto taken = std::move(ready_.front());
  ready_.pop_front();
  all.count--;
  return taken;
}

void MPSReadyReplays::drop() {
  auto& all = MPSReadyReplays::all();
  if (all.isForked()) {
    // a thread that this process lacks may hold the lock, and Metal objects can't be released here
    new auto(std::exchange(ready_, {}));
    return;
  }
  is_due_ = false;
  // freed without the lock
  std::deque<MPSReadyReplay> dropped;
  std::unique_lock<std::mutex> lock(all.mutex);
  all.changed.wait(lock, [&] { return begun_ == 0; });
  all.graphs.erase(std::remove(all.graphs.begin(), all.graphs.end(), this), all.graphs.end());
  all.count -= ready_.size();
  std::swap(dropped, ready_);
}

void MPSReadyReplays::close() {
  if (auto& all = MPSReadyReplays::all(); !all.isForked()) {
    std::lock_guard<std::mutex> lock(all.mutex);
    is_closed_ = true;
  }
  drop();
}

size_t MPSReadyReplays::count() const {
  std::lock_guard<std::mutex> lock(all().mutex);
  return ready_.size();
}

} // namespace at::mps
