#pragma once

#include "metal/residency.h"

#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace mps_simulator {

struct GpuAccess;

// One unit of GPU work. Lives in the memory of its list.
class GpuCommand {
 public:
  virtual ~GpuCommand() = default;
  virtual void run() = 0;
  // False while the command waits for an event.
  virtual bool ready() {
    return true;
  }
  // What the command needs to be ready, for a message.
  virtual std::string waits_for() const {
    return "nothing";
  }
  // Events change in null mode too; otherwise their users would wait forever.
  virtual bool runs_in_null_mode() const {
    return false;
  }

  // What it reads and writes. An indirect command may know only when it is about
  // to run.
  virtual void collect_accesses(std::vector<GpuAccess>& accesses, bool about_to_run) const {}
  // For a message.
  virtual std::string describe() const {
    return "a command";
  }

  GpuCommand* next = nullptr;
  GpuPass* pass = nullptr; // none for what is between passes
  unsigned place = 0; // in its pass, from 1
};

// The commands of one command buffer in order, and the bytes that they use. An
// append costs a pointer bump: encoding time is what null mode measures.
class CommandList {
 public:
  CommandList() = default;
  CommandList(const CommandList&) = delete;
  CommandList& operator=(const CommandList&) = delete;
  ~CommandList() {
    clear();
  }

  // Aligned for any type, valid until clear().
  void* allocate(size_t size) {
    size = (size + kAlignment - 1) & ~(kAlignment - 1);
    if (__builtin_expect(size > static_cast<size_t>(end_ - cursor_), 0)) {
      grow(size);
    }
    char* memory = cursor_;
    cursor_ += size;
    return memory;
  }

  template <class T, class... Arguments>
  T* append(Arguments&&... arguments) {
    auto* command = new (allocate(sizeof(T))) T(std::forward<Arguments>(arguments)...);
    if (last_) {
      last_->next = command;
    } else {
      first_ = command;
    }
    last_ = command;
    if (pass_) {
      command->pass = pass_;
      command->place = ++pass_->commands;
    }
    ++size_;
    needs_null_mode_ |= command->runs_in_null_mode();
    return command;
  }

  // What is appended from now on belongs to a pass, or to none.
  GpuPass* begin_pass() {
    return pass_ = new (allocate(sizeof(GpuPass))) GpuPass;
  }
  void end_pass() {
    pass_ = nullptr;
  }

  // The commands behind `before`, or all if it is null, in an order that `next`,
  // which gives any numbers, decides.
  void shuffle_behind(GpuCommand* before, c10::function_ref<uint64_t()> next);

  GpuCommand* first() const {
    return first_;
  }
  GpuCommand* last() const {
    return last_;
  }
  size_t size() const {
    return size_;
  }
  bool has_null_mode_commands() const {
    return needs_null_mode_;
  }
  void clear();

 private:
  static constexpr size_t kAlignment = 16;
  struct Chunk;

  void grow(size_t size);

  Chunk* chunks_ = nullptr;
  char* cursor_ = nullptr;
  char* end_ = nullptr;
  GpuCommand* first_ = nullptr;
  GpuCommand* last_ = nullptr;
  GpuPass* pass_ = nullptr;
  size_t size_ = 0;
  bool needs_null_mode_ = false;
};

} // namespace mps_simulator
