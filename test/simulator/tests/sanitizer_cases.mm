// Deliberate faults, one for each kind that a build with a sanitizer must
// report. Run by test/simulator/sanitizers in processes of their own; other
// builds do not detect them and do not run them.

#import "metal_objects.h"

#include <cstdint>
#include <cstdlib>
#include <thread>

using namespace mps_simulator::cases;

namespace {

// What the compiler cannot see through, so that it leaves the faults in.
template <typename T>
T opaque(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

int plain_counter = 0;

id<MTLBuffer> owned_buffer(id<MTLHeap> heap, NSUInteger length) {
  return [heap newBufferWithLength:length options:heap.resourceOptions];
}

// A thread's own array at a place that the buffer says.
void run_kernel_with_array(uint32_t place) {
  id<MTLComputePipelineState> state = pipeline(
      R"(
    #include <metal_stdlib>
    kernel void fill(device uint* place [[buffer(0)]], uint index [[thread_position_in_grid]]) {
      volatile uint values[4] = {1, 2, 3, 4};
      values[place[0]] = index;
      place[1] = values[3];
    })",
      "fill");
  id<MTLBuffer> buffer = shared_buffer(8);
  static_cast<uint32_t*>([buffer contents])[0] = place;
  run_compute([&](Encoder encoder) {
    bind(encoder, state, {buffer});
    dispatch(encoder);
  });
}

void count_on_two_threads(void (*count)()) {
  std::thread other(count);
  count();
  other.join();
}

} // namespace

CASE(planted_use_after_free) {
  auto* memory = opaque(static_cast<int*>(std::malloc(16)));
  std::free(memory);
  opaque(memory)[1] = 1;
}

CASE(planted_heap_overflow) {
  auto* memory = opaque(static_cast<int*>(std::malloc(16)));
  opaque(memory)[4] = 1;
  std::free(memory);
}

CASE(planted_signed_overflow) {
  opaque(opaque(INT32_MAX) + 1);
}

CASE(planted_use_of_freed_device_memory) {
  id<MTLHeap> heap = make_heap(1 << 16);
  id<MTLBuffer> buffer = owned_buffer(heap, 1024);
  auto* memory = static_cast<int*>([buffer contents]);
  [buffer release];
  opaque(memory)[1] = 1;
}

CASE(planted_device_memory_overflow) {
  id<MTLBuffer> buffer = owned_buffer(make_heap(1 << 16), 1024);
  opaque(static_cast<char*>([buffer contents]))[1024] = 1;
  [buffer release];
}

CASE(planted_kernel_overflow) {
  run_kernel_with_array(5);
}

CASE(planted_data_race) {
  count_on_two_threads([] {
    for (int i = 0; i < 1000; ++i) {
      opaque(&plain_counter)[0] += 1;
    }
  });
}

// The same without the faults: nothing may be reported.
CASE(nothing_planted) {
  auto* memory = opaque(static_cast<int*>(std::malloc(16)));
  opaque(memory)[3] = opaque(INT32_MAX - 1) + 1;
  std::free(memory);
  id<MTLHeap> heap = make_heap(1 << 16);
  [owned_buffer(heap, 1024) release];
  id<MTLBuffer> buffer = owned_buffer(heap, 1000);
  opaque(static_cast<char*>([buffer contents]))[999] = 1;
  [buffer release];
  run_kernel_with_array(3);
  count_on_two_threads([] {
    for (int i = 0; i < 1000; ++i) {
      __atomic_fetch_add(&plain_counter, 1, __ATOMIC_RELAXED);
    }
  });
}
