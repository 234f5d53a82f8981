// What a kernel may touch: each fault is planted and must be named, and each
// has a counterpart without the fault.

#import "metal_objects.h"

#include "metal/guarded_memory.h"
#include "support/settings.h"

#include <atomic>
#include <functional>
#include <thread>

using namespace mps_simulator;
using namespace mps_simulator::cases;

namespace {

void run(NSUInteger threads, const Encode& encode) {
  run_compute([&](Encoder encoder) {
    encode(encoder);
    dispatch(encoder, threads, 4);
  });
}

// out[i + shift] = in[i + shift]
id<MTLComputePipelineState> shift_pipeline() {
  return pipeline(
      R"(
        kernel void shifted(device const uchar* in [[buffer(0)]],
                            device uchar* out [[buffer(1)]],
                            constant int* shifts [[buffer(2)]],
                            uint i [[thread_position_in_grid]]) {
          out[int(i) + shifts[1]] = in[int(i) + shifts[0]];
        })",
      "shifted");
}

void encode_shifted(Encoder encoder, id<MTLBuffer> in, id<MTLBuffer> out, int read_shift, int write_shift) {
  bind(encoder, shift_pipeline(), {in, out});
  const int shifts[] = {read_shift, write_shift};
  [encoder setBytes:shifts length:sizeof(shifts) atIndex:2];
}

// Runs `length` threads on buffers of `length` bytes.
void run_shifted(NSUInteger length, int read_shift, int write_shift) {
  id<MTLBuffer> in = shared_buffer(length), out = shared_buffer(length);
  in.label = @"source";
  out.label = @"result";
  run(length, [&](Encoder encoder) { encode_shifted(encoder, in, out, read_shift, write_shift); });
  CHECK(static_cast<char*>([in contents])[0] == static_cast<char*>([out contents])[0]);
}

// One pointer to `in` and one to `out`, in the data at index 0.
constexpr const char* kPointers = R"(
  struct Pointers {
    device const float* in [[id(0)]];
    device float* out [[id(1)]];
  };
  kernel void through(constant Pointers& pointers [[buffer(0)]],
                      uint i [[thread_position_in_grid]]) {
    pointers.out[i] = pointers.in[i] + 1;
  })";

struct PointerCase {
  id<MTLBuffer> in = float_buffer(4), out = float_buffer(4, 100);
  // Made by an argument encoder, or written by the host.
  id<MTLBuffer> table = shared_buffer(16);

  explicit PointerCase(bool encoder) {
    in.label = @"points";
    out.label = @"sums";
    if (encoder) {
      id<MTLArgumentEncoder> arguments =
          [[kernel(kPointers, "through") newArgumentEncoderWithBufferIndex:0] autorelease];
      [arguments setArgumentBuffer:table offset:0];
      [arguments setBuffer:in offset:0 atIndex:0];
      [arguments setBuffer:out offset:0 atIndex:1];
    } else {
      auto* addresses = static_cast<uint64_t*>([table contents]);
      addresses[0] = in.gpuAddress;
      addresses[1] = out.gpuAddress;
    }
  }
  void run_with(const Encode& declare) {
    run(4, [&](Encoder encoder) {
      bind(encoder, pipeline(kPointers, "through"), {table});
      declare(encoder);
    });
    CHECK_EQUAL(floats(out)[3], 4);
  }
};

} // namespace

CASE(kernel_within_its_buffers_is_fine) {
  for (const NSUInteger length : {1, 5, 16, 62, 64, 4096, 5000}) {
    run_shifted(length, 0, 0);
  }
}

CASE(kernel_that_writes_beyond_a_buffer_is_named) {
  EXPECT_NAMED("kernel 'shifted' wrote beyond the end of the buffer \"result\" at index 1",
               "at offset 64, and its length is 64",
               { run_shifted(64, 0, 1); });
  // The process and the queue go on.
  run_shifted(64, 0, 0);
  EXPECT_NAMED("kernel 'shifted' wrote beyond the end", "length is 4096", { run_shifted(4096, 0, 2000000); });
}

CASE(kernel_that_writes_into_the_rest_of_a_page_is_named) {
  EXPECT_NAMED("kernel 'shifted' wrote beyond the end of the buffer \"result\" at index 1",
               "at offset 61, and its length is 61",
               { run_shifted(61, 0, 1); });
  EXPECT_NAMED("kernel 'shifted' wrote in front of the buffer \"result\" at index 1",
               "at offset -1, and its length is 64",
               { run_shifted(64, 0, -1); });
}

CASE(kernel_that_reads_beyond_a_buffer_is_named) {
  EXPECT_NAMED("kernel 'shifted' read beyond the end of the buffer \"source\" at index 0",
               "at offset 64, and its length is 64",
               { run_shifted(64, 1, 0); });
  EXPECT_NAMED("kernel 'shifted' read in front of the buffer \"source\" at index 0", "and its length is 8192", {
    run_shifted(8192, -1, 0);
  });
}

CASE(kernel_that_reads_in_front_of_a_short_buffer_is_named_with_the_guard_there) {
  const Setting in_front(settings().guard_side, GuardSide::start);
  EXPECT_NAMED("kernel 'shifted' read in front of the buffer \"source\" at index 0",
               "at offset -1, and its length is 64",
               { run_shifted(64, -1, 0); });
  run_shifted(64, 0, 0);
}

CASE(buffers_of_a_heap_do_not_run_into_each_other) {
  id<MTLHeap> heap = make_heap(1 << 16);
  id<MTLBuffer> buffers[3];
  std::generate_n(buffers, 3, [&] { return heap_buffer(heap, 256); });
  const auto shift = [&](int distance) {
    run(256, [&](Encoder encoder) { encode_shifted(encoder, buffers[0], buffers[1], 0, distance); });
  };
  shift(0);
  EXPECT_NAMED("kernel 'shifted' wrote beyond the end of the buffer at index 1", "length is 256", { shift(256); });
}

CASE(kernel_that_reads_beyond_bytes_is_named) {
  const auto run_with = [](NSUInteger length) {
    id<MTLBuffer> in = shared_buffer(64), out = shared_buffer(64);
    run(4, [&](Encoder encoder) {
      bind(encoder, shift_pipeline(), {in, out});
      const int shifts[8] = {};
      // The kernel reads two numbers, and no check of lengths can know.
      [encoder setBytes:shifts length:length atIndex:2];
    });
  };
  run_with(8);
  run_with(16);
  EXPECT_NAMED("kernel 'shifted' read beyond the end of the bytes at index 2", "at offset 4, and its length is 4", {
    run_with(4);
  });
}

CASE(declared_buffers_are_reached_through_pointers) {
  for (const bool encoder : {true, false}) {
    PointerCase pointers(encoder);
    pointers.run_with([&](Encoder encoder) {
      [encoder useResource:pointers.in usage:MTLResourceUsageRead];
      [encoder useResource:pointers.out usage:MTLResourceUsageRead | MTLResourceUsageWrite];
    });
    // Bound ones need no declaration.
    pointers.run_with([&](Encoder encoder) {
      [encoder setBuffer:pointers.in offset:0 atIndex:0];
      [encoder setBuffer:pointers.table offset:0 atIndex:0];
      const id<MTLResource> both[] = {pointers.in, pointers.out};
      [encoder useResources:both count:2 usage:MTLResourceUsageWrite];
    });
  }
}

CASE(undeclared_buffer_that_is_read_is_named) {
  for (const bool encoder : {true, false}) {
    PointerCase pointers(encoder);
    EXPECT_NAMED(
        "kernel 'through' read the buffer \"points\" that is not bound",
        "through a pointer in the data at index 0, but the encoder has declared "
        "it used neither by -useResource:usage: nor by -useHeap:",
        {
          pointers.run_with([&](Encoder encoder) { [encoder useResource:pointers.out usage:MTLResourceUsageWrite]; });
        });
    CHECK_EQUAL(floats(pointers.in)[1], 1);
  }
}

CASE(undeclared_buffer_that_is_written_is_named) {
  for (const bool encoder : {true, false}) {
    PointerCase pointers(encoder);
    EXPECT_NAMED("kernel 'through' wrote the buffer \"sums\" that is not bound", "declared it used neither", {
      pointers.run_with([&](Encoder encoder) { [encoder useResource:pointers.in usage:MTLResourceUsageRead]; });
    });
    EXPECT_NAMED("kernel 'through' wrote the buffer \"sums\" that is not bound",
                 "declared it used without MTLResourceUsageWrite",
                 {
                   pointers.run_with([&](Encoder encoder) {
                     const id<MTLResource> both[] = {pointers.in, pointers.out};
                     [encoder useResources:both count:2 usage:MTLResourceUsageRead];
                   });
                 });
  }
}

CASE(declaration_of_a_heap_lets_its_buffers_be_read) {
  id<MTLHeap> heap = make_heap(1 << 16);
  id<MTLHeap> other = make_heap(1 << 16);
  const auto from_heap = [&] {
    id<MTLBuffer> buffer = heap_buffer(heap, 16);
    std::copy_n(floats(float_buffer(4)), 4, floats(buffer));
    return buffer;
  };
  PointerCase reading(false);
  reading.in = from_heap();
  static_cast<uint64_t*>([reading.table contents])[0] = reading.in.gpuAddress;
  const auto read_using = [&](id<MTLHeap> used) {
    reading.run_with([&](Encoder encoder) {
      [encoder useResource:reading.out usage:MTLResourceUsageWrite];
      [encoder useHeap:used];
    });
  };
  read_using(heap);
  EXPECT_NAMED("kernel 'through' read a buffer that is not bound", "neither", { read_using(other); });

  PointerCase writing(false);
  writing.out = from_heap();
  static_cast<uint64_t*>([writing.table contents])[1] = writing.out.gpuAddress;
  const auto write_using = [&](const Encode& declare) {
    writing.run_with([&](Encoder encoder) {
      [encoder useResource:writing.in usage:MTLResourceUsageRead];
      declare(encoder);
    });
  };
  const Encode declare_heap = [&](Encoder encoder) { [encoder useHeap:heap]; };
  const Encode declare_buffer = [&](Encoder encoder) { [encoder useResource:writing.out usage:MTLResourceUsageWrite]; };
  EXPECT_NAMED("kernel 'through' wrote a buffer that is not bound", "without MTLResourceUsageWrite", {
    write_using(declare_heap);
  });
  write_using([&](Encoder encoder) {
    declare_heap(encoder);
    declare_buffer(encoder);
  });
  // The last declaration is what holds, of the heap or of the buffer.
  EXPECT_NAMED("kernel 'through' wrote", "without MTLResourceUsageWrite", {
    write_using([&](Encoder encoder) {
      declare_buffer(encoder);
      declare_heap(encoder);
    });
  });
  EXPECT_NAMED("kernel 'through' wrote", "without MTLResourceUsageWrite", {
    write_using([&](Encoder encoder) {
      declare_buffer(encoder);
      [encoder useResource:writing.out usage:MTLResourceUsageRead];
    });
  });
  write_using([&](Encoder encoder) {
    declare_buffer(encoder);
    declare_heap(encoder);
    declare_buffer(encoder);
  });
}

CASE(pointers_that_no_thread_follows_need_no_declaration) {
  constexpr const char* source = R"(
    struct Entry { device float* values; uint unused; };
    kernel void first(constant Entry* entries [[buffer(0)]],
                      device float* const* list [[buffer(1)]],
                      uint i [[thread_position_in_grid]]) {
      entries[0].values[i] = list[1][i];
    })";
  struct Entry {
    uint64_t values;
    uint32_t unused;
  };
  id<MTLBuffer> in = float_buffer(4, 7), out = float_buffer(4), stale = float_buffer(4);
  const auto run_with = [&](uint64_t followed) {
    run(4, [&](Encoder encoder) {
      [encoder setComputePipelineState:pipeline(source, "first")];
      const Entry entries[] = {{followed, 0}, {stale.gpuAddress, 0}};
      [encoder setBytes:entries length:sizeof(entries) atIndex:0];
      const uint64_t list[] = {stale.gpuAddress, in.gpuAddress, 0};
      [encoder setBytes:list length:sizeof(list) atIndex:1];
      [encoder useResource:in usage:MTLResourceUsageRead];
      [encoder useResource:out usage:MTLResourceUsageWrite];
    });
  };
  run_with(out.gpuAddress);
  CHECK_EQUAL(floats(out)[3], 10);
  EXPECT_NAMED(
      "kernel 'first' wrote a buffer that is not bound", "in the data at index 0", { run_with(stale.gpuAddress); });
  CHECK_EQUAL(floats(stale)[3], 3);
}

CASE(host_may_use_a_buffer_that_is_closed_to_a_kernel) {
  constexpr const char* source = R"(
    kernel void slow(device float* const* list [[buffer(0)]],
                     device uint* out [[buffer(1)]],
                     uint i [[thread_position_in_grid]]) {
      uint value = i;
      for (uint round = 0; round < 200000; ++round) {
        value = value * 1664525 + out[1] + 1013904223;
      }
      if (value == 12345) {
        list[0][0] = value;
      }
      out[0] = value;
    })";
  id<MTLBuffer> out = shared_buffer(16);
  // The host's view of the memory is the GPU's.
  const bool hazards = settings().hazards.exchange(false);
  id<MTLBuffer> unused = float_buffer(4);
  settings().hazards = hazards;
  std::atomic<bool> done{false};
  auto* value = floats(unused);
  std::thread host([&] {
    while (!done) {
      value[1] += 1;
    }
  });
  for (int i = 0; i < 20; ++i) {
    run(4, [&](Encoder encoder) {
      [encoder setComputePipelineState:pipeline(source, "slow")];
      const uint64_t list[] = {unused.gpuAddress};
      [encoder setBytes:list length:sizeof(list) atIndex:0];
      [encoder setBuffer:out offset:0 atIndex:1];
    });
  }
  done = true;
  host.join();
  CHECK(value[1] > 1);
}

CASE(kernel_that_reaches_a_released_buffer_is_named) {
  PointerCase pointers(false);
  id<MTLBuffer> gone = [metal_device() newBufferWithLength:64 options:MTLResourceStorageModeShared];
  gone.label = @"short-lived";
  static_cast<uint64_t*>([pointers.table contents])[0] = gone.gpuAddress;
  const Encode declare = [&](Encoder encoder) { [encoder useResource:pointers.out usage:MTLResourceUsageWrite]; };
  [gone release];
  EXPECT_NAMED(
      "kernel 'through' read the buffer \"short-lived\"", "which has been released", { pointers.run_with(declare); });
}
