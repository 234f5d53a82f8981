#include "metal/host_view.h"

#include "metal/memory.h"
#include "shader/faults.h"
#include "support/error.h"
#include "support/settings.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace mps_simulator {

namespace {

// A signal handler waits for it, so its holder must never touch a view.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) {
      __builtin_ia32_pause();
    }
  }
  void unlock() {
    flag_.clear(std::memory_order_release);
  }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

SpinLock views_lock;

// By their ends, for a look-up by address.
std::map<char*, HostView*>& views() {
  static auto* instance = new std::map<char*, HostView*>;
  return *instance;
}

// Written by a signal handler.
char fault_text[512];
void* fault_instruction = nullptr;
std::atomic<bool> fault_pending{false};

// Maps a file of memory over the pages and again elsewhere. Null on failure.
char* map_twice(char* pages, size_t length) {
  const int file = memfd_create("mps_simulator_buffer", MFD_CLOEXEC);
  if (file < 0) {
    return nullptr;
  }
  char* view = nullptr;
  if (ftruncate(file, static_cast<off_t>(length)) == 0) {
    void* second = mmap(address_hint(), length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (second != MAP_FAILED) {
      view = static_cast<char*>(second);
      // What surrounds the buffer in its first and last page stays.
      const size_t page = page_size();
      std::memcpy(view, pages, page);
      std::memcpy(view + length - page, pages + length - page, page);
      if (mmap(pages, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
        munmap(view, length);
        view = nullptr;
      }
    }
  }
  close(file);
  return view;
}

bool overlaps(const ViewAccess& access, size_t begin, size_t end) {
  return access.begin < end && begin < access.end;
}

} // namespace

std::shared_ptr<HostView> HostView::create(char* pages, size_t length) {
  if (!settings().hazards || !settings().validation || settings().null_mode) {
    return nullptr;
  }
  char* address = map_twice(pages, length);
  if (!address) {
    return nullptr;
  }
  std::shared_ptr<HostView> view(new HostView(address, length));
  view->protection_ = PROT_READ | PROT_WRITE;
  shader::set_access_handler(&HostView::handle_fault);
  const std::lock_guard<SpinLock> lock(views_lock);
  views().emplace(address + length, view.get());
  return view;
}

HostView::~HostView() {
  {
    const std::lock_guard<SpinLock> lock(views_lock);
    views().erase(address_ + length_);
  }
  munmap(address_, length_);
}

void HostView::set_name(const std::string& name) {
  const std::lock_guard<SpinLock> lock(views_lock);
  std::snprintf(name_, sizeof(name_), "%s", name.c_str());
}

void HostView::protect() {
  int wanted = PROT_READ | PROT_WRITE;
  if (accesses_.empty()) {
    opened_ = false;
  } else if (!opened_) {
    const bool writes =
        std::any_of(accesses_.begin(), accesses_.end(), [](const ViewAccess& access) { return access.writes; });
    wanted = writes ? PROT_NONE : PROT_READ;
  }
  if (wanted != protection_ && mprotect(address_, length_, wanted) == 0) {
    protection_ = wanted;
  }
}

void HostView::add(const std::vector<ViewAccess>& accesses, const std::string& user_name) {
  shader::set_access_handler(&HostView::handle_fault);
  const std::lock_guard<SpinLock> lock(views_lock);
  accesses_.insert(accesses_.end(), accesses.begin(), accesses.end());
  std::snprintf(user_name_, sizeof(user_name_), "%s", user_name.c_str());
  // New work is checked again: the pages were opened for the work before.
  opened_ = false;
  protect();
}

void HostView::remove(const ViewAccess& access) {
  const std::lock_guard<SpinLock> lock(views_lock);
  const auto found = std::find_if(accesses_.begin(), accesses_.end(), [&](const ViewAccess& other) {
    return other.user == access.user && other.begin == access.begin && other.end == access.end &&
        other.writes == access.writes;
  });
  if (found != accesses_.end()) {
    accesses_.erase(found);
  }
  protect();
}

bool HostView::in_use(const HostView* view, size_t begin, size_t end) {
  const std::lock_guard<SpinLock> lock(views_lock);
  return std::any_of(view->accesses_.begin(), view->accesses_.end(), [&](const ViewAccess& access) {
    return overlaps(access, begin, end);
  });
}

bool HostView::handle_fault(void* address, bool is_write, void* instruction) {
  auto* place = static_cast<char*>(address);
  const std::lock_guard<SpinLock> lock(views_lock);
  const auto next = views().upper_bound(place);
  if (next == views().end() || place < next->second->address_) {
    return false;
  }
  auto* view = next->second;
  const auto offset = static_cast<size_t>(place - view->address_);
  for (const auto& access : view->accesses_) {
    // One instruction may touch up to 64 bytes, of which only the first one's
    // address is known.
    if (!overlaps(access, offset, offset + 1) || !(is_write || access.writes)) {
      continue;
    }
    if (!fault_pending.load(std::memory_order_relaxed)) {
      std::snprintf(
          fault_text,
          sizeof(fault_text),
          "the host %s byte %zu of the buffer %s while %s, committed and not "
          "completed, %s it",
          is_write ? "wrote" : "read",
          offset - access.begin,
          view->name_,
          view->user_name_,
          access.writes ? "writes" : "reads");
      fault_instruction = instruction;
      fault_pending.store(true, std::memory_order_release);
    }
    break;
  }
  view->opened_ = true;
  view->protect();
  return true;
}

bool HostView::has_fault() {
  return fault_pending.load(std::memory_order_acquire);
}

std::string HostView::take_fault() {
  const std::lock_guard<SpinLock> lock(views_lock);
  if (!fault_pending.load(std::memory_order_relaxed)) {
    return "";
  }
  std::string text = fault_text;
  Dl_info information{};
  if (fault_instruction && dladdr(fault_instruction, &information)) {
    text += " (in ";
    text += information.dli_sname ? information.dli_sname : "code";
    if (information.dli_fname) {
      text += " of ";
      text += information.dli_fname;
    }
    text += ")";
  }
  fault_pending.store(false, std::memory_order_relaxed);
  return text;
}

void report_host_fault(const char* function) {
  const std::string fault = HostView::take_fault();
  if (!fault.empty()) {
    violation("%s: %s", function, fault.c_str());
  }
}

} // namespace mps_simulator
