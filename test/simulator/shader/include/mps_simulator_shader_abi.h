// What a compiled shader library and the runtime that loads it agree on.
// Included by both sides, hence nothing but built-in types.
#pragma once

namespace mps_simulator_shader_abi {

constexpr unsigned kVersion = 3;
constexpr unsigned kSimdWidth = 32;

struct Extent {
  unsigned x, y, z;
};

struct Buffer {
  void* pointer;
  unsigned long length;
};

struct Dispatch {
  const Buffer* buffers;
  void* const* threadgroup_memory;
  Extent grid; // in threads
  Extent threadgroup; // as dispatched
  Extent threadgroups; // per grid
  // Metal leaves open in which order threads run: with which thread and
  // threadgroup they begin here, along each axis, as a fraction of 2³².
  Extent start;
};

inline unsigned start_of(unsigned fraction, unsigned count) {
  return static_cast<unsigned>(static_cast<unsigned long>(fraction) * count >> 32);
}

// The place of a step on a way around that begins at `start`.
inline unsigned turned(unsigned step, unsigned start, unsigned count) {
  return step < count - start ? step + start : step - (count - start);
}

inline Extent start_of(Extent fraction, Extent count) {
  return {start_of(fraction.x, count.x), start_of(fraction.y, count.y), start_of(fraction.z, count.z)};
}

// Where one threadgroup lies. At the edges of the grid it may be smaller than
// the dispatched size.
struct Threadgroup {
  Extent position; // in threadgroups
  Extent size; // in threads
};

// Visits the threadgroups of a dispatch in their order, until one visit returns false.
template <class Visit>
inline void each_threadgroup(const Dispatch& dispatch, const Visit& visit) {
  const Extent groups = dispatch.threadgroups;
  const Extent start = start_of(dispatch.start, groups);
  const auto size = [](unsigned whole, unsigned full, unsigned at) {
    return whole - full * at < full ? whole - full * at : full;
  };
  for (unsigned deep = 0; deep < groups.z; ++deep) {
    const unsigned z = turned(deep, start.z, groups.z);
    for (unsigned down = 0; down < groups.y; ++down) {
      const unsigned y = turned(down, start.y, groups.y);
      for (unsigned across = 0; across < groups.x; ++across) {
        const unsigned x = turned(across, start.x, groups.x);
        const Extent threads{
            size(dispatch.grid.x, dispatch.threadgroup.x, x),
            size(dispatch.grid.y, dispatch.threadgroup.y, y),
            size(dispatch.grid.z, dispatch.threadgroup.z, z)};
        if (!visit(Threadgroup{{x, y, z}, threads})) {
          return;
        }
      }
    }
  }
}

enum class ArgumentKind : int { buffer, threadgroup_memory, built_in };

// Called for each pointer inside a structure or array.
using FoundPointer = void (*)(void* context, unsigned long offset, bool writable);

struct Argument {
  const char* name;
  ArgumentKind kind;
  unsigned index;
  bool writable;
  bool in_words; // constant memory, whose offset must be a multiple of 4
  unsigned long size; // of what it points or refers to; 0 for void
  bool structure; // ... and whether that is a structure
  long (*identifier_offset)(unsigned identifier); // null without [[id(n)]]
  void (*find_pointers)(void* context, FoundPointer found); // null where there are none
};

struct Kernel {
  const char* name;
  const Argument* arguments;
  unsigned argument_count;
  unsigned max_total_threads; // 0: not limited by the kernel
  // Needs its lanes to run as fibers: a barrier or a SIMD-group function may be
  // reached.
  bool cooperative;
  // The kernel itself when it declares threadgroup variables, otherwise null.
  const void* threadgroup_variables_of;
  // Runs all threads; null for cooperative kernels.
  void (*run_grid)(const Dispatch*);
  // Runs one thread of one threadgroup.
  void (*run_lane)(const Dispatch*, const Threadgroup*, unsigned x, unsigned y, unsigned z);
};

// Lanes meet here. All lanes of a SIMD-group (or of the threadgroup) that are
// not finished arrive, then `operation` runs once over their slots (null for
// lanes that did not come), then all go on.
enum class Scope : int { simdgroup, threadgroup };
using Operation = void (*)(void** slots);
struct Runtime {
  void (*arrive)(Scope scope, const void* site, void* slot, Operation operation);
  unsigned (*lane)(); // in the SIMD-group
};

struct Library {
  unsigned version;
  unsigned kernel_count;
  const Kernel* kernels;
  const Runtime** runtime; // set by the loader
};

} // namespace mps_simulator_shader_abi
