#include <ATen/mps/MPSTensorView.h>
#include <c10/util/accumulate.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <tuple>

namespace at::mps {

namespace {

using Kind = MPSViewStep::Kind;

struct Dimension {
  int64_t size;
  int64_t stride;
  size_t index; // among those of the tensor
};

// Those of more than one element, the largest stride first.
std::vector<Dimension> sortedDimensions(const MPSTensorLocation& place) {
  std::vector<Dimension> dimensions;
  for (const auto i : c10::irange(place.sizes.size())) {
    if (place.sizes[i] != 1) {
      dimensions.push_back({place.sizes[i], place.strides[i], i});
    }
  }
  std::sort(dimensions.begin(), dimensions.end(), [](const auto& one, const auto& other) {
    return std::tie(other.stride, one.index) < std::tie(one.stride, other.index);
  });
  return dimensions;
}

// Sizes and strides of the dimensions of more than one element.
std::vector<std::pair<int64_t, int64_t>> layoutOf(const MPSTensorLocation& place) {
  std::vector<std::pair<int64_t, int64_t>> layout;
  for (const auto i : c10::irange(place.sizes.size())) {
    if (place.sizes[i] != 1) {
      layout.emplace_back(place.sizes[i], place.strides[i]);
    }
  }
  return layout;
}

// Follows the shape of a tensor while operations are added.
class ViewBuilder {
 public:
  explicit ViewBuilder(std::vector<int64_t> sizes) : sizes_(std::move(sizes)) {}

  void reshape(std::vector<int64_t> sizes) {
    if (sizes != sizes_) {
      sizes_ = sizes;
      steps_.push_back({Kind::RESHAPE, std::move(sizes), {}});
    }
  }

  void slice(std::vector<int64_t> begins, std::vector<int64_t> ends) {
    const bool from_the_start = std::all_of(begins.begin(), begins.end(), [](int64_t begin) { return begin == 0; });
    if (from_the_start && ends == sizes_) {
      return; // nothing is left out
    }
    for (const auto i : c10::irange(sizes_.size())) {
      sizes_[i] = ends[i] - begins[i];
    }
    steps_.push_back({Kind::SLICE, std::move(begins), std::move(ends)});
  }

  /// `order` names for each new dimension the old one.
  void permute(const std::vector<size_t>& order) {
    std::vector<size_t> now(order.size());
    for (const auto i : c10::irange(now.size())) {
      now[i] = i;
    }
    for (const auto i : c10::irange(order.size())) {
      const size_t from = std::find(now.begin(), now.end(), order[i]) - now.begin();
      if (from != i) {
        std::swap(now[i], now[from]);
        std::swap(sizes_[i], sizes_[from]);
        steps_.push_back({Kind::TRANSPOSE, {static_cast<int64_t>(i), static_cast<int64_t>(from)}, {}});
      }
    }
  }

  void broadcast(std::vector<int64_t> sizes) {
    if (sizes != sizes_) {
      sizes_ = sizes;
      steps_.push_back({Kind::BROADCAST, std::move(sizes), {}});
    }
  }

  std::vector<MPSViewStep> take() {
    return std::move(steps_);
  }

 private:
  std::vector<int64_t> sizes_;
  std::vector<MPSViewStep> steps_;
};

// The dimensions of `part` as pieces of the dimensions of a tensor whose elements lie one after the other: each is a
// range of indices in a dimension that reaches from one stride to the next larger one.
bool cutOut(ViewBuilder& view, int64_t count, int64_t offset, const std::vector<Dimension>& dimensions) {
  std::vector<int64_t> sizes, begins, ends;
  int64_t room = count;
  for (const auto& dimension : dimensions) {
    if (dimension.stride <= 0 || room % dimension.stride != 0) {
      return false;
    }
    sizes.push_back(room / dimension.stride);
    begins.push_back(offset / dimension.stride);
    ends.push_back(begins.back() + dimension.size);
    if (ends.back() > sizes.back()) {
      return false;
    }
    offset %= dimension.stride;
    room = dimension.stride;
  }
  if (room > 1) {
    sizes.push_back(room);
    begins.push_back(offset);
    ends.push_back(offset + 1);
  } else if (sizes.empty()) {
    sizes = {1}, begins = {0}, ends = {1};
  }
  view.reshape(std::move(sizes));
  view.slice(std::move(begins), std::move(ends));
  return true;
}

} // namespace

size_t endOf(const MPSTensorLocation& place) {
  int64_t last = 0;
  for (const auto i : c10::irange(place.sizes.size())) {
    if (place.sizes[i] == 0) {
      return place.begin;
    }
    last += (place.sizes[i] - 1) * place.strides[i];
  }
  return place.begin + static_cast<size_t>(last + 1) * place.itemsize;
}

bool isDense(const MPSTensorLocation& place) {
  const auto dimensions = sortedDimensions(place);
  int64_t stride = 1;
  for (auto dimension = dimensions.rbegin(); dimension != dimensions.rend(); ++dimension) {
    if (dimension->stride != stride) {
      return false;
    }
    stride *= dimension->size;
  }
  return true;
}

bool overlap(const MPSTensorLocation& one, const MPSTensorLocation& other) {
  return one.region == other.region && std::max(one.begin, other.begin) < std::min(endOf(one), endOf(other));
}

std::optional<std::vector<MPSViewStep>> viewOf(const MPSTensorLocation& whole,
                                               c10::IntArrayRef value_sizes,
                                               const MPSTensorLocation& part) {
  const int64_t count = c10::multiply_integers(whole.sizes);
  if (part.type != whole.type || part.region != whole.region || count == 0 || endOf(part) == part.begin ||
      c10::multiply_integers(value_sizes) != count) {
    return std::nullopt;
  }
  ViewBuilder view(value_sizes.vec());
  view.reshape(whole.sizes);
  if (part.begin == whole.begin && layoutOf(part) == layoutOf(whole)) {
    view.reshape(part.sizes);
    return view.take();
  }
  if (!isDense(whole) || part.begin < whole.begin || (part.begin - whole.begin) % whole.itemsize != 0) {
    return std::nullopt;
  }
  // in the order of memory
  std::vector<int64_t> long_sizes;
  std::vector<size_t> order;
  for (const auto i : c10::irange(whole.sizes.size())) {
    if (whole.sizes[i] != 1) {
      long_sizes.push_back(whole.sizes[i]);
    }
  }
  for (const auto& dimension : sortedDimensions(whole)) {
    const auto before = std::count_if(whole.sizes.begin(),
                                      whole.sizes.begin() + static_cast<int64_t>(dimension.index),
                                      [](int64_t size) { return size != 1; });
    order.push_back(before);
  }
  if (!long_sizes.empty()) {
    view.reshape(long_sizes);
    view.permute(order);
  }
  std::vector<Dimension> moving;
  for (const auto& dimension : sortedDimensions(part)) {
    if (dimension.stride != 0) {
      moving.push_back(dimension);
    }
  }
  const auto offset = static_cast<int64_t>((part.begin - whole.begin) / whole.itemsize);
  if (!cutOut(view, count, offset, moving)) {
    return std::nullopt;
  }
  // in the order of the part
  std::vector<int64_t> sizes;
  for (const auto& dimension : moving) {
    sizes.push_back(dimension.size);
  }
  if (!sizes.empty()) {
    view.reshape(sizes);
    std::vector<size_t> permutation(moving.size());
    for (const auto i : c10::irange(moving.size())) {
      permutation[i] = i;
    }
    std::sort(permutation.begin(), permutation.end(), [&](size_t one, size_t other) {
      return moving[one].index < moving[other].index;
    });
    view.permute(permutation);
  }
  auto without_broadcasts = part.sizes;
  for (const auto i : c10::irange(part.sizes.size())) {
    if (part.strides[i] == 0) {
      without_broadcasts[i] = 1;
    }
  }
  view.reshape(std::move(without_broadcasts));
  view.broadcast(part.sizes);
  return view.take();
}

} // namespace at::mps
