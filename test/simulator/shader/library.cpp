#include "shader/compiler.h"
#include "shader/faults.h"
#include "shader/lanes.h"
#include "shader/shader.h"
#include "shader/threadgroup_memory.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include <dlfcn.h>
#include <unistd.h>

namespace mps_simulator::shader {
namespace {

namespace abi = mps_simulator_shader_abi;

constexpr unsigned kMaximumThreads = 1024;
constexpr uint64_t kMaximumThreadgroupMemory = 32768;
constexpr unsigned kNewestVersion = 320;

// Threadgroup memory begins as NaN, or -1, so that a kernel that relies on zeros fails.
constexpr int kPoison = 0xff;

// Cooperative kernels keep their threadgroup variables in static memory.
std::mutex& cooperative_kernel_mutex() {
  static std::mutex mutex;
  return mutex;
}

// A dlopen handle.
class Loaded {
 public:
  explicit Loaded(const std::string& path) : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_) {
      library_ = static_cast<abi::Library*>(dlsym(handle_, "mps_simulator_shader_library"));
    }
    if (library_ && library_->version == abi::kVersion) {
      *library_->runtime = lane_runtime();
      Dl_info information{};
      dladdr(library_, &information);
      base_ = static_cast<char*>(information.dli_fbase);
    } else {
      library_ = nullptr;
    }
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() {
    if (handle_) {
      dlclose(handle_);
    }
  }
  const abi::Library* library() const {
    return library_;
  }
  const std::string& path() const {
    return path_;
  }
  char* base() const {
    return base_;
  }

 private:
  std::string path_;
  void* handle_;
  abi::Library* library_ = nullptr;
  char* base_ = nullptr;
};

uint64_t align(uint64_t size) {
  return (size + 15) / 16 * 16;
}

unsigned narrow(uint64_t value) {
  if (value > std::numeric_limits<unsigned>::max()) {
    throw std::runtime_error("MPS simulator: a grid has 2^32 or more threads in one dimension");
  }
  return static_cast<unsigned>(value);
}

abi::Extent narrow(const Size3& size) {
  return {narrow(size.x), narrow(size.y), narrow(size.z)};
}

// By index, made when it is first used. Guarded by the mutex above.
ThreadgroupMemory& threadgroup_memory_at(unsigned index) {
  static std::unique_ptr<ThreadgroupMemory> memories[kMaximumBindings];
  if (!memories[index]) {
    memories[index] = std::make_unique<ThreadgroupMemory>();
  }
  return *memories[index];
}

// What the margins of threadgroup variables hold.
constexpr int kMarginPattern = 0xa5;

void add_pointer(void* context, unsigned long offset, bool writable) {
  static_cast<std::vector<PointerMember>*>(context)->push_back({offset, writable});
}

class LoadedFunction final : public Function {
 public:
  LoadedFunction(std::shared_ptr<const Loaded> loaded, const abi::Kernel& kernel)
      : loaded_(std::move(loaded)), kernel_(kernel), name_(kernel.name) {
    for (unsigned i = 0; i < kernel.argument_count; ++i) {
      const abi::Argument& argument = kernel.arguments[i];
      if (argument.kind != abi::ArgumentKind::built_in) {
        if (argument.index >= kMaximumBindings) {
          fail(
              ": argument '" + std::string(argument.name) + "' has index " + std::to_string(argument.index) +
              ", the largest is " + std::to_string(kMaximumBindings - 1));
        }
        arguments_.push_back(
            {argument.name,
             argument.index,
             argument.kind == abi::ArgumentKind::threadgroup_memory,
             argument.writable,
             argument.in_words,
             argument.size,
             {}});
        if (argument.find_pointers) {
          argument.find_pointers(&arguments_.back().pointers, &add_pointer);
        }
      }
    }
    if (kernel.threadgroup_variables_of) {
      variables_ = threadgroup_variables(loaded_->path(), loaded_->base(), kernel.threadgroup_variables_of);
      for (const auto& variable : variables_) {
        static_length_ += variable.margin ? 0 : align(variable.size);
      }
    }
  }

  const std::string& name() const override {
    return name_;
  }
  const std::vector<Argument>& arguments() const override {
    return arguments_;
  }
  unsigned max_total_threads_per_threadgroup() const override {
    return kernel_.max_total_threads ? std::min(kernel_.max_total_threads, kMaximumThreads) : kMaximumThreads;
  }
  unsigned thread_execution_width() const override {
    return abi::kSimdWidth;
  }
  uint64_t static_threadgroup_memory_length() const override {
    return static_length_;
  }
  uint64_t argument_buffer_length(unsigned index) const override {
    const abi::Argument* argument = structure(index);
    return argument ? argument->size : 0;
  }
  int64_t argument_buffer_offset(unsigned index, unsigned identifier) const override {
    const abi::Argument* argument = structure(index);
    return argument && argument->identifier_offset ? argument->identifier_offset(identifier) : -1;
  }

  void run(const Dispatch& dispatch) const override {
    const Size3& grid = dispatch.grid;
    const Size3& size = dispatch.threadgroup;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
      return;
    }
    if (size.x == 0 || size.y == 0 || size.z == 0) {
      fail(": a threadgroup of no threads");
    }
    const unsigned limit = max_total_threads_per_threadgroup();
    if (size.x > limit || size.y > limit || size.z > limit || size.x * size.y * size.z > limit) {
      fail(
          ": a threadgroup of " + std::to_string(size.x) + "x" + std::to_string(size.y) + "x" +
          std::to_string(size.z) + " threads, at most " + std::to_string(limit) + " are allowed");
    }
    abi::Buffer buffers[kMaximumBindings] = {};
    void* threadgroup_memory[kMaximumBindings] = {};
    uint64_t memory_length = 0;
    for (const auto& argument : arguments_) {
      if (!argument.threadgroup) {
        const BoundBuffer& bound = dispatch.buffers[argument.index];
        buffers[argument.index] = {bound.pointer, bound.length};
        continue;
      }
      const uint64_t length = dispatch.threadgroup_lengths[argument.index];
      if (length == 0) {
        fail(": no length is set for the " + described(argument));
      }
      memory_length += align(length);
    }
    if (memory_length + static_length_ > kMaximumThreadgroupMemory) {
      fail(
          ": " + std::to_string(memory_length + static_length_) +
          " bytes of threadgroup memory, at most " + std::to_string(kMaximumThreadgroupMemory) + " are allowed");
    }
    const abi::Extent full = narrow(size);
    const abi::Extent whole = narrow(grid);
    const abi::Extent groups{
        narrow((grid.x + size.x - 1) / size.x),
        narrow((grid.y + size.y - 1) / size.y),
        narrow((grid.z + size.z - 1) / size.z)};
    const abi::Dispatch description{buffers, threadgroup_memory, whole, full, groups, start(dispatch.order)};
    if (!kernel_.cooperative) {
      run_plain(description);
      return;
    }
    const std::lock_guard<std::mutex> lock(cooperative_kernel_mutex());
    for (const auto& argument : arguments_) {
      if (argument.threadgroup) {
        threadgroup_memory[argument.index] =
            threadgroup_memory_at(argument.index).reserve(dispatch.threadgroup_lengths[argument.index]);
      }
    }
    run_cooperative_groups(description);
  }

 private:
  [[noreturn]] void fail(const std::string& how) const {
    throw std::runtime_error("kernel '" + name_ + "'" + how);
  }

  static std::string described(const Argument& argument) {
    return "threadgroup memory '" + argument.name + "' at index " + std::to_string(argument.index);
  }

  // Three independent fractions of 2³².
  static abi::Extent start(uint64_t order) {
    const auto fraction = [&] {
      order *= 0x9E3779B97F4A7C15ull;
      return static_cast<unsigned>(order >> 32);
    };
    const unsigned x = fraction();
    const unsigned y = fraction();
    return {x, y, fraction()};
  }

  const abi::Argument* structure(unsigned index) const {
    for (unsigned i = 0; i < kernel_.argument_count; ++i) {
      const abi::Argument& argument = kernel_.arguments[i];
      if (argument.kind == abi::ArgumentKind::buffer && argument.index == index && argument.structure) {
        return &argument;
      }
    }
    return nullptr;
  }

  [[noreturn]] void report_fault(const FaultGuard& guard) const {
    std::string message = "kernel '" + name_ + "' ";
    if (guard.signal != SIGSEGV && guard.signal != SIGBUS) {
      message += "stopped with signal " + std::to_string(guard.signal);
    } else if (guard.address == FaultGuard::kUnknownAddress) {
      message += "accessed memory that it may not, at an address that cannot exist";
    } else if (is_stack_guard(guard.address)) {
      message += "overflowed the stack of a thread";
    } else {
      char address[32];
      std::snprintf(address, sizeof address, "0x%zx", static_cast<size_t>(guard.address));
      message += std::string("accessed memory that it may not, at address ") + address;
    }
    for (const auto& argument : arguments_) {
      if (argument.threadgroup && guard.address != FaultGuard::kUnknownAddress) {
        const ThreadgroupMemory& memory = threadgroup_memory_at(argument.index);
        if (memory.is_near(guard.address)) {
          const auto offset = static_cast<int64_t>(guard.address - reinterpret_cast<uintptr_t>(memory.start()));
          fail(
              std::string(guard.write ? " wrote" : " read") + (offset < 0 ? " in front of" : " beyond") + " the " +
              described(argument) + ": at offset " + std::to_string(offset) + ", and its length is " +
              std::to_string(memory.length()));
        }
      }
    }
    throw KernelFault(message, guard.address, guard.write);
  }

  void run_plain(const abi::Dispatch& dispatch) const {
    FaultGuard guard;
    if (sigsetjmp(guard.frame(), 0) == 0) {
      kernel_.run_grid(&dispatch);
    } else {
      report_fault(guard);
    }
  }

  void run_cooperative_groups(const abi::Dispatch& dispatch) const {
    FaultGuard guard;
    const char* volatile failure = nullptr;
    if (sigsetjmp(guard.frame(), 0) == 0) {
      failure = run_all_groups(dispatch);
    } else {
      abandon_lanes();
      report_fault(guard);
    }
    report_overwritten();
    if (failure) {
      fail(std::string(" cannot go on: ") + failure);
    }
  }

  void report_overwritten() const {
    for (const auto& argument : arguments_) {
      if (!argument.threadgroup) {
        continue;
      }
      if (const size_t distance = threadgroup_memory_at(argument.index).overwritten_in_front()) {
        fail(" wrote in front of the " + described(argument) + ": at offset -" + std::to_string(distance));
      }
    }
    for (const auto& margin : variables_) {
      if (!margin.margin) {
        continue;
      }
      for (char* byte = margin.start; byte < margin.start + margin.size; ++byte) {
        if (*byte != static_cast<char>(kMarginPattern)) {
          fail(" wrote " + place_of(byte));
        }
      }
    }
  }

  // In terms of the threadgroup variable next to it.
  std::string place_of(const char* byte) const {
    const ThreadgroupVariable* nearest = nullptr;
    size_t least = SIZE_MAX;
    for (const auto& variable : variables_) {
      if (variable.margin) {
        continue;
      }
      const auto distance =
          static_cast<size_t>(byte < variable.start ? variable.start - byte : byte - (variable.start + variable.size));
      if (distance < least) {
        least = distance;
        nearest = &variable;
      }
    }
    if (!nearest) {
      return "outside of its threadgroup variables";
    }
    return std::string(byte < nearest->start ? "in front of" : "beyond") + " the threadgroup variable '" +
        nearest->name + "': at offset " + std::to_string(byte - nearest->start) + ", and its length is " +
        std::to_string(nearest->size);
  }

  const char* run_all_groups(const abi::Dispatch& dispatch) const {
    for (const auto& variable : variables_) {
      if (variable.margin) {
        std::memset(variable.start, kMarginPattern, variable.size);
      }
    }
    const char* failure = nullptr;
    abi::each_threadgroup(dispatch, [&](const abi::Threadgroup& threadgroup) {
      for (const auto& argument : arguments_) {
        if (argument.threadgroup) {
          const ThreadgroupMemory& memory = threadgroup_memory_at(argument.index);
          std::memset(memory.start(), kPoison, memory.length());
        }
      }
      for (const auto& variable : variables_) {
        if (!variable.margin) {
          std::memset(variable.start, kPoison, variable.size);
        }
      }
      failure = run_cooperative(kernel_, dispatch, threadgroup);
      return !failure;
    });
    return failure;
  }

  std::shared_ptr<const Loaded> loaded_;
  const abi::Kernel& kernel_;
  std::string name_;
  std::vector<Argument> arguments_;
  std::vector<ThreadgroupVariable> variables_;
  uint64_t static_length_ = 0;
};

class LoadedLibrary final : public Library {
 public:
  explicit LoadedLibrary(std::shared_ptr<const Loaded> loaded) : loaded_(std::move(loaded)) {}

  std::vector<std::string> function_names() const override {
    std::vector<std::string> names;
    const abi::Library& library = *loaded_->library();
    for (unsigned i = 0; i < library.kernel_count; ++i) {
      names.emplace_back(library.kernels[i].name);
    }
    return names;
  }

  std::shared_ptr<Function> function(const std::string& name) const override {
    const abi::Library& library = *loaded_->library();
    for (unsigned i = 0; i < library.kernel_count; ++i) {
      if (name == library.kernels[i].name) {
        return std::make_shared<LoadedFunction>(loaded_, library.kernels[i]);
      }
    }
    return nullptr;
  }

 private:
  std::shared_ptr<const Loaded> loaded_;
};

// MTLLanguageVersion has the major version in its upper half, __METAL_VERSION__
// in its hundreds.
unsigned metal_version(unsigned language_version) {
  if (language_version == 0) {
    return kNewestVersion;
  }
  if (language_version >= 1u << 16) {
    return (language_version >> 16) * 100 + (language_version & 0xffff) * 10;
  }
  return language_version;
}

} // namespace

std::shared_ptr<Library> Library::compile(
    const std::string& source,
    const std::map<std::string, std::string>& macros,
    unsigned language_version,
    bool fast_math,
    std::string& error) {
  error.clear();
  const CompileRequest request{source, macros, metal_version(language_version), fast_math};
  for (const bool fresh : {false, true}) {
    const std::string path = compiled_library(request, fresh, error);
    if (path.empty()) {
      return nullptr;
    }
    auto loaded = std::make_shared<const Loaded>(path);
    if (loaded->library()) {
      return std::make_shared<LoadedLibrary>(std::move(loaded));
    }
    // A damaged file in the cache is made again, once.
    unlink(path.c_str());
  }
  const char* reason = dlerror();
  throw std::runtime_error(
      std::string("MPS simulator: a compiled Metal library cannot be loaded: ") + (reason ? reason : "wrong format"));
}

} // namespace mps_simulator::shader
