#include "graph/overlap.h"
#include "metal/buffer.h"
#include "support/error.h"

#include <algorithm>

namespace mps_simulator::graph {

namespace {

// The bytes of a tensor, by address: two buffers may lie on the same memory.
class Bytes {
 public:
  explicit Bytes(const TensorMemory& memory)
      : memory_(memory), begin_(static_cast<const char*>(host_pointer(memory.buffer)) + memory.byte_offset) {
    int64_t last = 0;
    for (size_t axis = 0; axis < memory.sizes.size(); axis++) {
      last += (memory.sizes[axis] - 1) * memory.strides[axis];
    }
    const auto count = c10::multiply_integers(memory.sizes);
    end_ = count ? begin_ + (last + 1) * element() : begin_;
    is_dense_ = end_ - begin_ == count * element();
  }

  // Also for narrower elements of the same shape: PyTorch 2.6.0 converts a tensor
  // within its memory before it copies it to the host.
  bool takes_the_place_of(const Bytes& feed) const {
    if (begin_ != feed.begin_ || end_ > feed.end_) {
      return false;
    }
    const bool narrows = end_ < feed.end_;
    if (is_dense_ && feed.is_dense_) {
      return !narrows || (memory_.sizes == feed.memory_.sizes && element() < feed.element());
    }
    return !narrows && has_same_layout_as(feed);
  }

  bool overlaps(const Bytes& other) const {
    if (begin_ >= other.end_ || other.begin_ >= end_) {
      return false;
    }
    if (is_dense_ && other.is_dense_) {
      return true;
    }
    // Two layouts with gaps may overlap without sharing an element.
    const char* begin = std::min(begin_, other.begin_);
    std::vector<bool> touched(std::max(end_, other.end_) - begin);
    for_each_element([&](const char* place) { std::fill_n(touched.begin() + (place - begin), element(), true); });
    bool found = false;
    other.for_each_element([&](const char* place) {
      const auto first = touched.begin() + (place - begin);
      found = found || std::find(first, first + other.element(), true) != first + other.element();
    });
    return found;
  }

  std::string describe() const {
    return graph::describe(memory_.sizes) + " at the bytes " + std::to_string(memory_.byte_offset) + " to " +
        std::to_string(memory_.byte_offset + (end_ - begin_));
  }

 private:
  int64_t element() const {
    return static_cast<int64_t>(c10::elementSize(memory_.type));
  }

  bool has_same_layout_as(const Bytes& other) const {
    return memory_.sizes == other.memory_.sizes && memory_.strides == other.memory_.strides &&
        element() == other.element();
  }

  template <typename Visitor>
  void for_each_element(const Visitor& visit) const {
    std::vector<int64_t> index(memory_.sizes.size());
    for (int64_t left = c10::multiply_integers(memory_.sizes); left > 0; left--) {
      int64_t place = 0;
      for (size_t axis = 0; axis < index.size(); axis++) {
        place += index[axis] * memory_.strides[axis];
      }
      visit(begin_ + place * element());
      for (size_t axis = index.size(); axis-- > 0 && ++index[axis] == memory_.sizes[axis];) {
        index[axis] = 0;
      }
    }
  }

  const TensorMemory& memory_;
  const char* begin_;
  const char* end_;
  bool is_dense_;
};

} // namespace

void check_overlap(const char* method,
                   const Plan& plan,
                   const std::vector<MPSGraphTensorData*>& feeds,
                   const std::vector<MPSGraphTensorData*>& results) {
  if (!settings().validation) {
    return;
  }
  for (size_t target = 0; target < results.size(); target++) {
    const Bytes written(memory_of(results[target]));
    for (size_t other = 0; plan.has_calls && other < target; other++) {
      const Bytes before(memory_of(results[other]));
      if (written.overlaps(before)) {
        violation("%s: the result %s overlaps the result %s, and either may be written first",
                  method,
                  written.describe().c_str(),
                  before.describe().c_str());
      }
    }
    for (size_t i = 0; i < feeds.size(); i++) {
      if (plan.feeds[i] == Plan::unused) {
        continue;
      }
      const Bytes read(memory_of(feeds[i]));
      if (!written.takes_the_place_of(read) && written.overlaps(read)) {
        violation("%s: the result %s overlaps a part of the feed %s",
                  method,
                  written.describe().c_str(),
                  read.describe().c_str());
      }
      if (plan.has_calls && written.overlaps(read) && !plan.is_read_before(i, target)) {
        violation("%s: the result %s takes the place of the feed %s, which another call may not have read yet",
                  method,
                  written.describe().c_str(),
                  read.describe().c_str());
      }
    }
  }
}

} // namespace mps_simulator::graph
