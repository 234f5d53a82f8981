// Objects that one thread at a time may use.
#pragma once

#include "support/error.h"

#include <atomic>
#include <string>

namespace mps_simulator {

// Lies in the object.
class OneThread {
 public:
  // From its construction to its end a thread uses the object; calls in between may do so again. Violation if another
  // thread does.
  class Use {
   public:
    Use(OneThread& object, const char* function, const char* description) {
      if (!settings().validation) {
        return;
      }
      const void* user = nullptr;
      if (object.user_.compare_exchange_strong(user, this_thread())) {
        object_ = &object;
      } else if (user != this_thread()) {
        violation("%s: another thread is using the %s", function, description);
      }
    }
    ~Use() {
      if (object_) {
        object_->user_ = nullptr;
      }
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    OneThread* object_ = nullptr;
  };

 private:
  static const void* this_thread() {
    static thread_local char address;
    return &address;
  }

  std::atomic<const void*> user_{nullptr};
};

} // namespace mps_simulator
