#pragma once

#include "metal/dispatch.h"
#include "metal/guarded_memory.h"

#include <string>
#include <vector>

@class SimulatedBuffer;
@class SimulatedHeap;

namespace mps_simulator {

// What is known about the memory of a live buffer.
struct MappedBuffer {
  const SimulatedBuffer* buffer = nullptr; // as an identity: it may be gone soon
  const SimulatedHeap* heap = nullptr;
  GuardedMemory memory; // without guards, `pages` is null
  bool released = false;
  std::string label;

  bool is_guarded() const {
    return memory.pages != nullptr;
  }
};

// Called as buffers come and go.
void map_buffer(SimulatedBuffer* buffer);
void unmap_buffer(const SimulatedBuffer* buffer);

// The live buffer that contains the address. False when there is none.
bool find_buffer_at(const void* address, MappedBuffer& found);
// ... or whose guards or rest of a page do. If no live one is near, one that
// was released lately.
bool find_buffer_near(const void* address, MappedBuffer& found);

// Pages of a buffer that a kernel could reach, but may not.
struct ClosedBuffer {
  MappedBuffer buffer;
  unsigned argument; // whose memory holds the pointer
  bool readable; // declared used, but not for writing
};

// Around one run of a kernel. On construction, data that is bound without a
// buffer moves next to a guard page, and buffers that the kernel's arguments
// point to are made inaccessible unless the encoder has bound them or declared
// them used.
class KernelChecks {
 public:
  explicit KernelChecks(const KernelRun& run);
  ~KernelChecks();
  KernelChecks(const KernelChecks&) = delete;
  KernelChecks& operator=(const KernelChecks&) = delete;

  // Raises a violation in terms of buffers; returns when no buffer is known for
  // the address.
  void explain(const shader::KernelFault& fault);
  // Raises a violation if the kernel has written next to a buffer.
  void finish();

 private:
  struct Bound {
    const shader::Argument* argument;
    bool bytes;
    MappedBuffer buffer; // of bytes: with the memory alone
  };

  void find_bound();
  void close_unused();
  void consider(const void* address, const Bound& from, bool writable);
  void open();
  std::string name_of(const MappedBuffer& buffer) const;
  [[noreturn]] void report_outside(const std::string& access, ptrdiff_t offset, size_t length, const std::string& name)
      const;

  const KernelRun& run_;
  std::vector<Bound> bound_;
  std::vector<ClosedBuffer> closed_;
  std::vector<MappedBuffer> reached_; // through pointers, and allowed
};

} // namespace mps_simulator
