#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace mps_simulator::shader {

struct Size3 {
  uint64_t x, y, z;
};

// What one buffer index is bound to. `pointer` already includes the binding's
// offset; `length` counts the bytes from there to the end of the buffer.
struct BoundBuffer {
  void* pointer = nullptr;
  uint64_t length = 0;
};

// A pointer inside the structure, or array, that an argument points to.
struct PointerMember {
  uint64_t offset;
  bool writable; // what it points to
};

struct Argument {
  std::string name;
  unsigned index; // of a buffer, or of threadgroup memory
  bool threadgroup;
  bool writable;
  bool in_words; // constant memory, whose offset must be a multiple of 4
  // Bytes that the binding must at least have: the size of what a reference
  // refers to, of one element for a pointer, 0 where it is not known (void*).
  uint64_t minimum_length;
  // In each of the elements, which are minimum_length apart.
  std::vector<PointerMember> pointers;
};

constexpr unsigned kMaximumBindings = 31;

struct Dispatch {
  Size3 grid; // in threads
  Size3 threadgroup;
  const BoundBuffer* buffers; // kMaximumBindings of them
  const uint64_t* threadgroup_lengths; // kMaximumBindings of them
  // Any number: another one, another order of threads and threadgroups. With
  // zero they run one after the other.
  uint64_t order = 0;
};

// A kernel touched an address that it may not.
class KernelFault : public std::runtime_error {
 public:
  KernelFault(const std::string& message, uintptr_t address, bool write)
      : std::runtime_error(message), address(address), write(write) {}

  uintptr_t address;
  bool write;
};

class Library;

// One kernel. It keeps its library loaded.
class Function {
 public:
  virtual ~Function() = default;
  virtual const std::string& name() const = 0;
  virtual const std::vector<Argument>& arguments() const = 0;
  virtual unsigned max_total_threads_per_threadgroup() const = 0;
  virtual unsigned thread_execution_width() const = 0;
  virtual uint64_t static_threadgroup_memory_length() const = 0;
  // Size of the structure behind a buffer argument; 0 when the argument is not
  // a pointer or reference to a structure, or does not exist.
  virtual uint64_t argument_buffer_length(unsigned index) const = 0;
  // Byte offset of the member [[id(identifier)]] in that structure, or -1.
  virtual int64_t argument_buffer_offset(unsigned index, unsigned identifier) const = 0;
  // Runs every thread of the grid on the calling thread. Throws
  // std::runtime_error when the kernel faults or is misused.
  virtual void run(const Dispatch& dispatch) const = 0;
};

class Library {
 public:
  virtual ~Library() = default;
  // Returns null and sets `error` (in the compiler's words, with the lines of
  // `source`) when the text does not compile. `language_version` is an
  // MTLLanguageVersion, or a plain __METAL_VERSION__ such as 310; 0 means the
  // newest one.
  static std::shared_ptr<Library> compile(
      const std::string& source,
      const std::map<std::string, std::string>& macros,
      unsigned language_version,
      bool fast_math,
      std::string& error);
  virtual std::vector<std::string> function_names() const = 0;
  // Null when there is no kernel of that name.
  virtual std::shared_ptr<Function> function(const std::string& name) const = 0;
};

} // namespace mps_simulator::shader
