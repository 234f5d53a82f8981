// Devices, buffers and heaps.

#import "metal_objects.h"

#include "metal/buffer.h"
#include "metal/memory.h"
#include "support/settings.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

// nil is passed on purpose.
#pragma clang diagnostic ignored "-Wnonnull"

using namespace mps_simulator;
using namespace mps_simulator::cases;

namespace {

// The kernel of the operating system reports it without a fault.
bool is_readable(const void* address) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const bool readable = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

} // namespace

CASE(buffer_lies_in_host_memory) {
  id<MTLBuffer> buffer = shared_buffer(100);
  CHECK_EQUAL(buffer.length, 100);
  // One memory at two addresses, one for the host and one for the GPU.
  CHECK(static_cast<void*>([buffer contents]) != host_pointer(buffer));
  CHECK_EQUAL(buffer.gpuAddress, reinterpret_cast<uint64_t>(host_pointer(buffer)));
  static_cast<volatile char*>([buffer contents])[99] = 7;
  CHECK_EQUAL(static_cast<volatile char*>(host_pointer(buffer))[99], 7);
  // As aligned as its length lets it end at the end of a page.
  CHECK_EQUAL(buffer.gpuAddress % 16, 0);
  CHECK(buffer.storageMode == MTLStorageModeShared);
}

CASE(fresh_memory_is_poisoned) {
  id<MTLBuffer> buffer = shared_buffer(64);
  CHECK(std::isnan(floats(buffer)[0]));
  CHECK(std::isnan(floats(buffer)[15]));
  double wide = 0;
  std::memcpy(&wide, [buffer contents], sizeof(wide));
  CHECK(std::isnan(wide));
  settings().validation = false;
  id<MTLBuffer> plain = shared_buffer(64);
  settings().validation = true;
  CHECK_EQUAL(floats(plain)[0], 0);
}

CASE(purged_memory_is_poisoned) {
  id<MTLBuffer> buffer = float_buffer(4);
  CHECK([buffer setPurgeableState:MTLPurgeableStateKeepCurrent] == MTLPurgeableStateNonVolatile);
  CHECK_EQUAL(floats(buffer)[3], 3);
  [buffer setPurgeableState:MTLPurgeableStateEmpty];
  CHECK(std::isnan(floats(buffer)[3]));
  CHECK([buffer setPurgeableState:MTLPurgeableStateNonVolatile] == MTLPurgeableStateEmpty);
}

CASE(heap_hands_out_and_takes_back) {
  id<MTLHeap> heap = make_heap(64 * 1024);
  const auto whole = [heap maxAvailableSizeWithAlignment:256];
  CHECK_EQUAL(whole, heap.size);
  id<MTLBuffer> first = [heap newBufferWithLength:1000 options:MTLResourceStorageModeShared];
  id<MTLBuffer> second = [heap newBufferWithLength:5000 options:MTLResourceStorageModeShared];
  CHECK(first.heap == heap);
  CHECK_EQUAL(first.heapOffset, 0);
  CHECK_EQUAL(second.heapOffset, 1024);
  CHECK_EQUAL([heap maxAvailableSizeWithAlignment:1], whole - 1024 - 5120);
  CHECK([heap newBufferWithLength:whole options:MTLResourceStorageModeShared] == nil);
  std::memset([second contents], 0, 5000);
  char* freed = static_cast<char*>([first contents]);
  std::memset(freed, 0, 1000);
  [first release];
  CHECK(!is_readable(freed));
  id<MTLBuffer> third = [heap newBufferWithLength:900 options:MTLResourceStorageModeShared];
  CHECK_EQUAL(third.heapOffset, 0);
  [second release];
  [third release];
  CHECK_EQUAL([heap maxAvailableSizeWithAlignment:256], whole);
}

CASE(purged_heap_poisons_the_buffers_that_it_has) {
  id<MTLHeap> heap = make_heap(64 * 1024);
  id<MTLBuffer> released = [heap newBufferWithLength:64 options:MTLResourceStorageModeShared];
  id<MTLBuffer> kept = [heap newBufferWithLength:64 options:MTLResourceStorageModeShared];
  floats(kept)[0] = 1;
  [released release];
  [heap setPurgeableState:MTLPurgeableStateEmpty];
  CHECK(std::isnan(floats(kept)[0]));
  [kept release];
}

// MARK: Violations

CASE(violation_buffer_of_no_length) {
  EXPECT_VIOLATION("-[MTLDevice newBufferWithLength:options:]", "at least one byte", {
    [metal_device() newBufferWithLength:0 options:0];
  });
}

CASE(violation_buffer_too_long) {
  EXPECT_VIOLATION("-[MTLDevice newBufferWithLength:options:]", "maxBufferLength", {
    [metal_device() newBufferWithLength:metal_device().maxBufferLength + 1 options:0];
  });
}

CASE(violation_no_copy_alignment) {
  const size_t size = 2 * page_size();
  auto* memory = static_cast<char*>(std::aligned_alloc(page_size(), size));
  const char* call = "-[MTLDevice newBufferWithBytesNoCopy:length:options:deallocator:]";
  EXPECT_VIOLATION(call, "not aligned to a page", {
    [metal_device() newBufferWithBytesNoCopy:memory + 16 length:page_size() options:0 deallocator:nil];
  });
  EXPECT_VIOLATION(call, "not a multiple of the page size", {
    [metal_device() newBufferWithBytesNoCopy:memory length:100 options:0 deallocator:nil];
  });
  std::free(memory);
}

CASE(violation_heap_storage_mode) {
  EXPECT_VIOLATION("-[MTLHeap newBufferWithLength:options:]", "storage mode", {
    [make_heap(4096) newBufferWithLength:16 options:MTLResourceStorageModePrivate];
  });
}

CASE(violation_heap_of_no_size) {
  EXPECT_VIOLATION("-[MTLDevice newHeapWithDescriptor:]", "size is 0", { make_heap(0); });
}

CASE(unsupported_calls_name_themselves) {
  EXPECT_ERROR("-[MTLHeap newTextureWithDescriptor:] is not simulated",
               { [make_heap(4096) newTextureWithDescriptor:nil]; });
}

CASE(memory_is_plain_without_validation) {
  settings().validation = false;
  id<MTLBuffer> plain = shared_buffer(100);
  settings().validation = true;
  CHECK_EQUAL(plain.gpuAddress % page_size(), 0);
  CHECK(is_readable(static_cast<char*>([plain contents]) + 100));
}

CASE(guards_can_be_in_front) {
  settings().guard_side = GuardSide::start;
  id<MTLBuffer> buffer = shared_buffer(100);
  settings().guard_side = GuardSide::end;
  const auto* start = reinterpret_cast<const char*>(buffer.gpuAddress);
  CHECK_EQUAL(buffer.gpuAddress % page_size(), 0);
  CHECK(!is_readable(start - 1));
  CHECK(is_readable(start + 100));
  CHECK(!is_readable(start + page_size()));
}
