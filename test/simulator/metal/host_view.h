#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mps_simulator {

class HostView;

// A stretch of a buffer that committed GPU work touches, in bytes from the
// view's start.
struct ViewAccess {
  size_t begin;
  size_t end;
  bool writes;
  const void* user; // the command buffer
};

// The mapping through which the host sees a shared buffer; the GPU's thread has
// another one of the same memory. While committed work reads the buffer the
// host may not write it, and while work writes it the host may do neither: the
// pages of this mapping then fault, and the access is recorded and allowed.
class HostView {
 public:
  // `pages` is private memory of the device, whole pages of it, which become
  // shared with the view. Null with MPS_SIMULATOR_HAZARDS off, and when the
  // system refuses.
  static std::shared_ptr<HostView> create(char* pages, size_t length);
  ~HostView();
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  char* address() const {
    return address_;
  }
  size_t length() const {
    return length_;
  }
  // The buffer's name in messages.
  void set_name(const std::string& name);

  void add(const std::vector<ViewAccess>& accesses, const std::string& user_name);
  void remove(const ViewAccess& access);

  // What the host did to a buffer in use, once; empty when it did nothing.
  static std::string take_fault();
  static bool has_fault();
  // For a write that the simulator itself makes on behalf of the host.
  static bool in_use(const HostView* view, size_t begin, size_t end);

 private:
  HostView(char* address, size_t length) : address_(address), length_(length) {}
  // The lock is held.
  void protect();
  static bool handle_fault(void* address, bool is_write, void* instruction);

  char* address_;
  size_t length_;
  char name_[96] = "";
  char user_name_[64] = "";
  std::vector<ViewAccess> accesses_;
  int protection_;
  // An access that was allowed, or has been noted, opened the pages until the
  // work is done.
  bool opened_ = false;
};

// Throws the violation for what the host did since the last call; the message
// names `function`, the call in which it is noticed.
void report_host_fault(const char* function);

inline void check_host_fault(const char* function) {
  if (__builtin_expect(HostView::has_fault(), 0)) {
    report_host_fault(function);
  }
}

} // namespace mps_simulator
