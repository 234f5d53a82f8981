// How kernels are called and described. The compiler driver ends every
// translation unit with one MPS_SIMULATOR_KERNEL per kernel and a table of them.
#pragma once
#include "../mps_simulator_shader_abi.h"
#include "vectors.h"

namespace mps_simulator_shader {

namespace abi = mps_simulator_shader_abi;
using metal::vec;

// What the driver found written at a parameter.
enum class Source {
  buffer,
  threadgroup_memory,
  thread_position_in_grid,
  thread_position_in_threadgroup,
  thread_index_in_threadgroup,
  threadgroup_position_in_grid,
  threads_per_grid,
  threads_per_threadgroup,
  thread_index_in_simdgroup,
  simdgroup_index_in_threadgroup,
  none,
};

// `index` is -1 where the kernel leaves it to the compiler.
template <Source source_, int index_ = -1, bool constant_ = false>
struct Parameter {
  static constexpr bool constant = constant_;
  static constexpr Source source = source_;
  static constexpr int index = index_;
};

struct Thread {
  const abi::Dispatch* dispatch;
  const abi::Threadgroup* threadgroup;
  abi::Extent position; // in the threadgroup
};

constexpr unsigned flatten(abi::Extent position, abi::Extent size) {
  return (position.z * size.y + position.y) * size.x + position.x;
}

template <class T>
constexpr bool is_index_type =
    metal::__is_one_of<T, uint, ushort, ulong, vec<uint, 2>, vec<uint, 3>, vec<ushort, 2>, vec<ushort, 3>>;

template <class T>
inline T from_extent(abi::Extent value) {
  if constexpr (metal::__component_count<T> == 1) {
    return static_cast<T>(value.x);
  } else if constexpr (metal::__component_count<T> == 2) {
    return T(value.x, value.y);
  } else {
    return T(value.x, value.y, value.z);
  }
}

template <Source source>
__attribute__((always_inline)) inline auto built_in(const Thread& thread) {
  const abi::Dispatch& dispatch = *thread.dispatch;
  const abi::Threadgroup& group = *thread.threadgroup;
  const abi::Extent size = group.size;
  if constexpr (source == Source::thread_position_in_grid) {
    return abi::Extent{
        group.position.x * dispatch.threadgroup.x + thread.position.x,
        group.position.y * dispatch.threadgroup.y + thread.position.y,
        group.position.z * dispatch.threadgroup.z + thread.position.z};
  } else if constexpr (source == Source::thread_position_in_threadgroup) {
    return thread.position;
  } else if constexpr (source == Source::thread_index_in_threadgroup) {
    return flatten(thread.position, size);
  } else if constexpr (source == Source::threadgroup_position_in_grid) {
    return group.position;
  } else if constexpr (source == Source::threads_per_grid) {
    return dispatch.grid;
  } else if constexpr (source == Source::threads_per_threadgroup) {
    return size;
  } else if constexpr (source == Source::thread_index_in_simdgroup) {
    return flatten(thread.position, size) % abi::kSimdWidth;
  } else {
    static_assert(source == Source::simdgroup_index_in_threadgroup);
    return flatten(thread.position, size) / abi::kSimdWidth;
  }
}

template <class T, Source source>
__attribute__((always_inline)) inline T built_in_as(const Thread& thread) {
  const auto value = built_in<source>(thread);
  if constexpr (metal::is_same_v<metal::remove_cv_t<decltype(value)>, abi::Extent>) {
    return from_extent<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

// Bound memory, before the kernel's own type is put on it.
constexpr bool is_memory(Source source) {
  return source == Source::buffer || source == Source::threadgroup_memory;
}

constexpr bool is_position(Source source) {
  return source == Source::thread_position_in_grid || source == Source::thread_position_in_threadgroup ||
      source == Source::threadgroup_position_in_grid || source == Source::threads_per_grid ||
      source == Source::threads_per_threadgroup;
}

template <class T, Source source>
constexpr bool check() {
  static_assert(
      source != Source::none,
      "a pointer or reference argument of a kernel must be to the device, constant or threadgroup address space");
  if constexpr (is_memory(source)) {
    static_assert(
        metal::is_pointer_v<T> || metal::is_reference_v<T>,
        "a buffer or threadgroup argument of a kernel must be a pointer or a reference");
  } else if constexpr (source != Source::none) {
    static_assert(
        is_index_type<metal::remove_cv_t<T>>,
        "a built-in input of a kernel must be ushort or uint, or a vector of 2 or 3 of them");
    static_assert(
        is_position(source) || metal::__component_count<T> == 1, "this built-in input of a kernel is a scalar");
  }
  return true;
}

template <class T, Source source>
__attribute__((always_inline)) inline T argument(const Thread& thread, void* memory) {
  if constexpr (is_memory(source)) {
    if constexpr (metal::is_reference_v<T>) {
      return *static_cast<metal::remove_reference_t<T>*>(const_cast<void*>(static_cast<const void*>(memory)));
    } else {
      return static_cast<T>(memory);
    }
  } else {
    return built_in_as<metal::remove_cv_t<T>, source>(thread);
  }
}

// Gives every memory argument without an index the lowest free one of its kind.
template <unsigned count>
struct Resolved {
  int index[count + 1];
};
template <class... Parameters>
constexpr Resolved<sizeof...(Parameters)> resolve() {
  constexpr unsigned count = sizeof...(Parameters);
  const Source sources[count + 1] = {Parameters::source..., Source::none};
  Resolved<count> result{{Parameters::index..., 0}};
  const Source kinds[2] = {Source::buffer, Source::threadgroup_memory};
  for (const Source kind : kinds) {
    ulong taken = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (sources[i] == kind && result.index[i] >= 0) {
        taken |= 1ul << result.index[i];
      }
    }
    for (unsigned i = 0; i < count; ++i) {
      if (sources[i] == kind && result.index[i] < 0) {
        int free = 0;
        while (taken >> free & 1) {
          ++free;
        }
        taken |= 1ul << free;
        result.index[i] = free;
      }
    }
  }
  return result;
}

template <class T, class = void>
struct IdentifierOffset {
  static constexpr long (*function)(unsigned) = nullptr;
};
template <class T>
struct IdentifierOffset<T, metal::void_t<decltype(&T::__mps_simulator_identifier_offset)>> {
  static constexpr long (*function)(unsigned) = &T::__mps_simulator_identifier_offset;
};

// The compiler driver gives each structure a function that names its members.
template <class T, class = void>
constexpr bool names_members = false;
struct NoVisitor {
  template <class T>
  constexpr void member(unsigned long) {}
};
template <class T>
constexpr bool names_members<T, metal::void_t<decltype(T::__mps_simulator_members(metal::declval<NoVisitor>()))>> =
    true;

template <class T>
struct ArrayOf {
  static constexpr unsigned long count = 0;
};
template <class T, unsigned long size>
struct ArrayOf<T[size]> {
  using Element = T;
  static constexpr unsigned long count = size;
};
template <class T, unsigned long size>
struct ArrayOf<metal::array<T, size>> : ArrayOf<T[size]> {};

template <class T>
void find_pointers_in(void* context, abi::FoundPointer found, unsigned long offset);

struct PointerVisitor {
  void* context;
  abi::FoundPointer found;
  unsigned long offset;

  template <class T>
  void member(unsigned long at) {
    find_pointers_in<metal::remove_cv_t<T>>(context, found, offset + at);
  }
};

template <class T>
void find_pointers_in(void* context, abi::FoundPointer found, unsigned long offset) {
  if constexpr (metal::is_pointer_v<T>) {
    found(context, offset, !metal::is_const_v<metal::remove_pointer_t<T>>);
  } else if constexpr (ArrayOf<T>::count > 0) {
    using Element = metal::remove_cv_t<typename ArrayOf<T>::Element>;
    if constexpr (metal::is_pointer_v<Element> || metal::is_class_v<Element> || ArrayOf<Element>::count > 0) {
      for (unsigned long i = 0; i < ArrayOf<T>::count; ++i) {
        find_pointers_in<Element>(context, found, offset + i * sizeof(Element));
      }
    }
  } else if constexpr (names_members<T>) {
    T::__mps_simulator_members(PointerVisitor{context, found, offset});
  }
}

template <class T>
void find_pointers(void* context, abi::FoundPointer found) {
  find_pointers_in<T>(context, found, 0);
}

template <class T>
constexpr unsigned long size_of() {
  if constexpr (metal::is_void_v<metal::remove_cv_t<T>>) {
    return 0;
  } else {
    return sizeof(T);
  }
}

template <class T, class Parameter>
constexpr abi::Argument describe(const char* name, int index) {
  using Pointee = metal::remove_pointer_t<metal::remove_cvref_t<T>>;
  if constexpr (!is_memory(Parameter::source)) {
    return {name, abi::ArgumentKind::built_in, 0, false, false, 0, false, nullptr, nullptr};
  } else {
    using Referred = metal::conditional_t<metal::is_reference_v<T>, metal::remove_reference_t<T>, Pointee>;
    using Bare = metal::remove_cv_t<Referred>;
    constexpr bool structure = metal::is_class_v<Bare> && metal::__component_count<Bare> == 0;
    return {
        name,
        Parameter::source == Source::buffer ? abi::ArgumentKind::buffer : abi::ArgumentKind::threadgroup_memory,
        static_cast<unsigned>(index),
        !metal::is_const_v<Referred>,
        // PyTorch binds arrays of smaller elements at any of them.
        Parameter::constant && (metal::is_reference_v<T> || size_of<Referred>() >= 4),
        size_of<Referred>(),
        structure,
        IdentifierOffset<Bare>::function,
        metal::is_pointer_v<Bare> || structure ? &find_pointers<Bare> : nullptr};
  }
}

template <class, unsigned... numbers>
struct Sequence {};

template <auto function, class... Parameters>
struct Kernel;

template <class... Arguments, void (*function)(Arguments...), class... Parameters>
struct Kernel<function, Parameters...> {
  static constexpr unsigned count = sizeof...(Arguments);
  static_assert(count == sizeof...(Parameters), "an instantiation of a kernel differs from its template");
  static_assert((check<Arguments, Parameters::source>() && ...), "");
  static constexpr Resolved<count> resolved = resolve<Parameters...>();
  using Numbers = __make_integer_seq<Sequence, unsigned, count>;
  static constexpr bool only_position_in_grid =
      ((is_memory(Parameters::source) || Parameters::source == Source::thread_position_in_grid) && ...);

  struct Memory {
    void* pointers[count + 1];
  };

  template <unsigned... numbers>
  __attribute__((always_inline)) static Memory bound(const abi::Dispatch* dispatch, Sequence<unsigned, numbers...>) {
    return {
        {(Parameters::source == Source::buffer                   ? dispatch->buffers[resolved.index[numbers]].pointer
              : Parameters::source == Source::threadgroup_memory ? dispatch->threadgroup_memory[resolved.index[numbers]]
                                                                 : nullptr)...,
         nullptr}};
  }
  template <unsigned... numbers>
  __attribute__((always_inline)) static void call(
      const Thread& thread,
      const Memory& memory,
      Sequence<unsigned, numbers...>) {
    function(argument<Arguments, Parameters::source>(thread, memory.pointers[numbers])...);
  }

  static void run_lane(
      const abi::Dispatch* dispatch,
      const abi::Threadgroup* threadgroup,
      unsigned x,
      unsigned y,
      unsigned z) {
    call(Thread{dispatch, threadgroup, {x, y, z}}, bound(dispatch, Numbers()), Numbers());
  }

  static void run_threadgroup(
      const abi::Dispatch* dispatch,
      const abi::Threadgroup& threadgroup,
      const Memory& memory) {
    const abi::Extent size = threadgroup.size;
    const abi::Extent start = abi::start_of(dispatch->start, size);
    // A long row is two stretches, so that loops over them can be vectorized. They
    // meet at a whole block, so that the same threads are left over from the
    // vectors each time: functions such as exp differ there in the last bit.
    constexpr unsigned block = 64;
    const bool is_long = size.x >= block;
    const unsigned middle = start.x / block * block;
    const unsigned begins[2] = {middle, 0};
    const unsigned ends[2] = {size.x, middle};
    for (unsigned deep = 0; deep < size.z; ++deep) {
      const unsigned z = abi::turned(deep, start.z, size.z);
      for (unsigned down = 0; down < size.y; ++down) {
        const unsigned y = abi::turned(down, start.y, size.y);
        if (!is_long) {
#pragma clang loop vectorize(disable) unroll(disable)
          for (unsigned across = 0; across < size.x; ++across) {
            call(Thread{dispatch, &threadgroup, {abi::turned(across, start.x, size.x), y, z}}, memory, Numbers());
          }
          continue;
        }
#pragma clang loop unroll(disable)
        for (unsigned stretch = 0; stretch < 2; ++stretch) {
          for (unsigned x = begins[stretch]; x < ends[stretch]; ++x) {
            call(Thread{dispatch, &threadgroup, {x, y, z}}, memory, Numbers());
          }
        }
      }
    }
  }

  static void run_grid(const abi::Dispatch* dispatch) {
    const Memory memory = bound(dispatch, Numbers());
    if constexpr (only_position_in_grid) {
      // These threads do not depend on threadgroups: one long loop.
      abi::Dispatch whole = *dispatch;
      whole.threadgroup = dispatch->grid;
      run_threadgroup(&whole, abi::Threadgroup{{0, 0, 0}, dispatch->grid}, memory);
    } else {
      abi::each_threadgroup(*dispatch, [&](const abi::Threadgroup& threadgroup) {
        run_threadgroup(dispatch, threadgroup, memory);
        return true;
      });
    }
  }

  struct Arguments_ {
    abi::Argument list[count + 1];
  };
  template <unsigned... numbers>
  static constexpr Arguments_ make(const char* const* names, Sequence<unsigned, numbers...>) {
    return {{describe<Arguments, Parameters>(names[numbers], resolved.index[numbers])..., {}}};
  }
  static constexpr Arguments_ arguments(const char* const* names) {
    return make(names, Numbers());
  }
  template <bool cooperative>
  static constexpr abi::Kernel record(
      const char* name,
      const Arguments_& arguments,
      unsigned max_total_threads,
      const void* threadgroup_variables_of) {
    if constexpr (cooperative) {
      return {name, arguments.list, count, max_total_threads, true, threadgroup_variables_of, nullptr, &run_lane};
    } else {
      return {name, arguments.list, count, max_total_threads, false, threadgroup_variables_of, &run_grid, nullptr};
    }
  }
};

} // namespace mps_simulator_shader
