#include "graph/encoding.h"

#include "graph/elementwise.h"
#include "graph/inference.h"
#include "metal/buffer.h"
#include "metal/command.h"
#include "support/counters.h"
#include "support/error.h"
#include "support/random.h"

#include <algorithm>

using namespace mps_simulator;
using namespace mps_simulator::graph;

// The backend declares this property of Apple's itself.
@interface MPSGraphExecutionDescriptor ()
@property(readwrite, atomic) BOOL enableCommitAndContinue;
@end

namespace mps_simulator::graph {

RetainedData::RetainedData(std::vector<MPSGraphTensorData*> items) : items_(std::move(items)) {
  for (MPSGraphTensorData* item : items_) {
    [item retain];
  }
}

RetainedData::~RetainedData() {
  for (MPSGraphTensorData* item : items_) {
    [item release];
  }
}

namespace {

// Where the elements of a tensor are, by address: two buffers may lie on the same memory.
class Bytes {
 public:
  explicit Bytes(const TensorMemory& memory)
      : Bytes(static_cast<const char*>(host_pointer(memory.buffer)) + memory.byte_offset,
              memory.sizes,
              memory.strides,
              c10::elementSize(memory.type)) {}

  explicit Bytes(const at::Tensor& tensor)
      : Bytes(static_cast<const char*>(tensor.const_data_ptr()),
              tensor.sizes(),
              tensor.strides(),
              tensor.element_size()) {}

  // Also for narrower elements of the same shape: PyTorch 2.6.0 converts a tensor
  // within its memory before it copies it to the host.
  bool takes_the_place_of(const Bytes& feed) const {
    if (begin_ != feed.begin_ || end_ > feed.end_) {
      return false;
    }
    const bool narrows = end_ < feed.end_;
    if (is_dense_ && feed.is_dense_) {
      return !narrows || (sizes_ == feed.sizes_ && element_ < feed.element_);
    }
    return !narrows && sizes_ == feed.sizes_ && strides_ == feed.strides_ && element_ == feed.element_;
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
    for_each_element([&](const char* place) { std::fill_n(touched.begin() + (place - begin), element_, true); });
    bool found = false;
    other.for_each_element([&](const char* place) {
      const auto first = touched.begin() + (place - begin);
      found = found || std::find(first, first + other.element_, true) != first + other.element_;
    });
    return found;
  }

  int64_t length() const {
    return end_ - begin_;
  }

  // Without an offset, which the memory knows.
  std::string describe(int64_t offset) const {
    return graph::describe(sizes_) + " at the bytes " + std::to_string(offset) + " to " +
        std::to_string(offset + length());
  }

 private:
  Bytes(const char* begin, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t element)
      : begin_(begin), end_(begin), sizes_(sizes), strides_(strides), element_(element) {
    const auto count = c10::multiply_integers(sizes);
    if (count) {
      end_ += element;
      for (size_t axis = 0; axis < sizes.size(); axis++) {
        end_ += (sizes[axis] - 1) * strides[axis] * element;
      }
    }
    is_dense_ = length() == count * element;
  }

  template <typename Visitor>
  void for_each_element(const Visitor& visit) const {
    Sizes index(sizes_.size());
    for (int64_t left = c10::multiply_integers(sizes_); left > 0; left--) {
      int64_t place = 0;
      for (size_t axis = 0; axis < index.size(); axis++) {
        place += index[axis] * strides_[axis];
      }
      visit(begin_ + place * element_);
      for (size_t axis = index.size(); axis-- > 0 && ++index[axis] == sizes_[axis];) {
        index[axis] = 0;
      }
    }
  }

  const char* begin_;
  const char* end_;
  at::IntArrayRef sizes_;
  at::IntArrayRef strides_;
  int64_t element_;
  bool is_dense_;
};

// A value that is a view of a feed must be taken out before a result is written
// over the feed.
at::Tensor detach_from(const at::Tensor& value, const Tensors& results) {
  const Bytes source(value);
  for (const at::Tensor& result : results) {
    if (source.overlaps(Bytes(result))) {
      return value.clone();
    }
  }
  return value;
}

// MPSGraph converts a result to the element type of its memory; the backend
// relies on it for indices. A conversion to another kind of type (from floating
// point to integer, for example) is taken for a mistake.
bool converts_to(at::ScalarType from, at::ScalarType to) {
  return at::isIntegralType(from, /*includeBool=*/true) == at::isIntegralType(to, /*includeBool=*/true) &&
      at::isComplexType(from) == at::isComplexType(to);
}

void write_result(const at::Tensor& result, const at::Tensor& original) {
  if (!converts_to(original.scalar_type(), result.scalar_type())) {
    violation("-[MPSGraph encodeToCommandBuffer]: a result of element type %s goes to memory of type %s",
              c10::toString(original.scalar_type()),
              c10::toString(result.scalar_type()));
  }
  at::Tensor value = convert(original, result.scalar_type());
  if (value.sizes() != result.sizes() && value.numel() == result.numel()) {
    value = value.reshape(result.sizes());
  }
  // With a stride of zero all elements share one place: any of them may be written last, and here that happens.
  at::Tensor memory = result;
  for (int64_t axis = 0; axis < memory.dim(); axis++) {
    if (memory.stride(axis) == 0 && memory.size(axis) > 1) {
      value = value.expand(memory.sizes()).narrow(axis, memory.size(axis) - 1, 1);
      memory = memory.narrow(axis, 0, 1);
    }
  }
  memory.copy_(value);
}

class Run {
 public:
  Run(const char* method,
      std::shared_ptr<const Plan> plan,
      std::vector<MPSGraphTensorData*> feeds,
      std::vector<MPSGraphTensorData*> results,
      ExecutableUse use)
      : method_(method),
        plan_(std::move(plan)),
        feeds_(std::move(feeds)),
        results_(std::move(results)),
        use_(std::move(use)) {}

  void operator()() const {
    use_.check(method_);
    const ComputingGuard guard;
    Tensors feeds = tensors(feeds_);
    const Tensors results = tensors(results_);
    Tensors values = plan_->run(std::move(feeds));
    for (at::Tensor& value : values) {
      value = detach_from(value, results);
    }
    for (size_t i = 0; i < results.size(); i++) {
      write_result(results[i], values[i]);
    }
  }

 private:
  static Tensors tensors(const RetainedData& data) {
    Tensors result;
    result.reserve(data.items().size());
    for (MPSGraphTensorData* item : data.items()) {
      result.push_back(memory_of(item).tensor());
    }
    return result;
  }

  const char* const method_;
  std::shared_ptr<const Plan> plan_;
  RetainedData feeds_;
  RetainedData results_;
  const ExecutableUse use_;
};

bool broadcasts_to(at::IntArrayRef from, at::IntArrayRef to) {
  if (from.size() > to.size()) {
    return false;
  }
  const size_t skipped = to.size() - from.size();
  for (size_t axis = 0; axis < from.size(); axis++) {
    if (from[axis] != to[axis + skipped] && from[axis] != 1) {
      return false;
    }
  }
  return true;
}

void add_accesses(std::vector<ByteAccess>& accesses, const std::vector<MPSGraphTensorData*>& items, bool writes) {
  for (MPSGraphTensorData* item : items) {
    const TensorMemory& memory = memory_of(item);
    const auto begin = static_cast<size_t>(memory.byte_offset);
    accesses.push_back({memory.buffer, begin, begin + Bytes(memory).length(), writes});
  }
}

} // namespace

void schedule(const char* method,
              MPSCommandBuffer* command_buffer,
              std::shared_ptr<const Plan> plan,
              std::vector<MPSGraphTensorData*> feeds,
              std::vector<MPSGraphTensorData*> results,
              ExecutableUse use) {
  check_overlap(method, *plan, feeds, results);
  std::vector<ByteAccess> accesses;
  if (settings().validation && (settings().hazards || settings().order)) {
    accesses.reserve(feeds.size() + results.size());
    add_accesses(accesses, feeds, false);
    add_accesses(accesses, results, true);
  }
  // A std::function copies what it holds: the run itself stays where it is.
  auto run = std::make_shared<Run>(method, std::move(plan), std::move(feeds), std::move(results), std::move(use));
  append_command(command_buffer, Command{"MPSGraph", [run = std::move(run)] { (*run)(); }, std::move(accesses)});
}

void check_feed(const char* method, MPSGraphTensor* tensor, const TensorType& type, MPSGraphTensorData* data) {
  if (!settings().validation) {
    return;
  }
  const TensorMemory& memory = memory_of(data);
  if (memory.type != type.type) {
    violation("%s: the placeholder %s has the element type %s, but is fed %s",
              method,
              describe(tensor).c_str(),
              c10::toString(type.type),
              c10::toString(memory.type));
  }
  bool fits = !type.ranked || memory.sizes.size() == type.sizes.size();
  for (size_t axis = 0; fits && type.ranked && axis < type.sizes.size(); axis++) {
    fits = type.sizes[axis] < 0 || type.sizes[axis] == memory.sizes[axis];
  }
  if (!fits) {
    violation("%s: the placeholder %s has the shape %s, but is fed %s",
              method,
              describe(tensor).c_str(),
              describe(type.sizes).c_str(),
              describe(memory.sizes).c_str());
  }
}

void check_result(const char* method, MPSGraphTensor* tensor, const TensorType& type, MPSGraphTensorData* data) {
  if (!settings().validation) {
    return;
  }
  const TensorMemory& memory = memory_of(data);
  if (!converts_to(type.type, memory.type)) {
    violation("%s: the result %s has the element type %s, but its memory %s",
              method,
              describe(tensor).c_str(),
              c10::toString(type.type),
              c10::toString(memory.type));
  }
  if (type.is_static() && c10::multiply_integers(type.sizes) != c10::multiply_integers(memory.sizes) &&
      !broadcasts_to(type.sizes, memory.sizes)) {
    violation("%s: the result %s has the shape %s, but its memory %s",
              method,
              describe(tensor).c_str(),
              describe(type.sizes).c_str(),
              describe(memory.sizes).c_str());
  }
}

namespace {

constexpr uint64_t kRunsPerCommit = 16;

} // namespace

void commit_now_and_then(MPSCommandBuffer* command_buffer) {
  static SeededSequence numbers;
  const uint64_t number = numbers.next();
  if (settings().seed == 1 || number % kRunsPerCommit == 0) {
    [command_buffer commitAndContinue];
  }
}

void commit_if_the_seed_says(MPSCommandBuffer* command_buffer) {
  static SeededChoice choice(kRunsPerCommit);
  if (choice.otherwise()) {
    [command_buffer commitAndContinue];
  }
}

namespace {

constexpr const char* encode_method = "-[MPSGraph encodeToCommandBuffer]";

struct TensorsAndData {
  std::vector<MPSGraphTensor*> tensors;
  std::vector<MPSGraphTensorData*> data;
};

// In the order of the tensors in the graph, so that equal dictionaries give
// equal plans whatever their own order is.
TensorsAndData sorted_entries(MPSGraphTensorDataDictionary* dictionary) {
  std::vector<std::pair<MPSGraphTensor*, MPSGraphTensorData*>> entries;
  entries.reserve(dictionary.count);
  for (MPSGraphTensor* tensor in dictionary) {
    entries.emplace_back(tensor, [dictionary objectForKey:tensor]);
  }
  std::sort(entries.begin(), entries.end(), [](const auto& left, const auto& right) {
    return left.first->_identifier < right.first->_identifier;
  });
  TensorsAndData result;
  result.tensors.reserve(entries.size());
  result.data.reserve(entries.size());
  for (const auto& [tensor, data] : entries) {
    result.tensors.push_back(tensor);
    result.data.push_back(data);
  }
  return result;
}

void check_owner(MPSGraph* graph, const std::vector<MPSGraphTensor*>& tensors) {
  for (MPSGraphTensor* tensor : tensors) {
    if (tensor->_producer->_owner != graph) {
      violation("%s: the tensor %s belongs to another graph", encode_method, describe(tensor).c_str());
    }
  }
}

TensorsAndData check_feeds(MPSGraph* graph, MPSGraphTensorDataDictionary* feeds) {
  TensorsAndData result = sorted_entries(feeds);
  check_owner(graph, result.tensors);
  for (size_t i = 0; i < result.tensors.size(); i++) {
    check_feed(encode_method, result.tensors[i], result.tensors[i]->_type, result.data[i]);
  }
  return result;
}

} // namespace

} // namespace mps_simulator::graph

@implementation MPSGraphExecutionDescriptor

- (instancetype)init {
  if ((self = [super init])) {
    _enableCommitAndContinue = YES;
  }
  return self;
}

- (void)dealloc {
  [_compilationDescriptor release];
  [super dealloc];
}

@end

@implementation MPSGraph (MPSGraphEncoding)

- (void)encodeToCommandBuffer:(MPSCommandBuffer*)commandBuffer
                        feeds:(MPSGraphTensorDataDictionary*)feeds
             targetOperations:(NSArray<MPSGraphOperation*>*)targetOperations
            resultsDictionary:(MPSGraphTensorDataDictionary*)resultsDictionary
          executionDescriptor:(MPSGraphExecutionDescriptor*)executionDescriptor {
  COUNT_CALL();
  if (targetOperations.count) {
    unsupported("%s with target operations", encode_method);
  }
  const TensorsAndData fed = check_feeds(self, feeds);
  const TensorsAndData results = sorted_entries(resultsDictionary);
  check_owner(self, results.tensors);
  for (size_t i = 0; i < results.tensors.size(); i++) {
    check_result(encode_method, results.tensors[i], results.tensors[i]->_type, results.data[i]);
  }
  schedule(encode_method, commandBuffer, cached_plan(self, fed.tensors, results.tensors), fed.data, results.data);
  if (!executionDescriptor) {
    commit_if_the_seed_says(commandBuffer);
  } else if (executionDescriptor.enableCommitAndContinue) {
    commit_now_and_then(commandBuffer);
  }
}

@end

namespace mps_simulator::graph {

void check_overlap(const char* method,
                   const Plan& plan,
                   const std::vector<MPSGraphTensorData*>& feeds,
                   const std::vector<MPSGraphTensorData*>& results) {
  if (!settings().validation) {
    return;
  }
  for (MPSGraphTensorData* result : results) {
    const Bytes written(memory_of(result));
    for (size_t i = 0; i < feeds.size(); i++) {
      if (plan.feeds[i] == Plan::unused) {
        continue;
      }
      const Bytes read(memory_of(feeds[i]));
      if (!written.takes_the_place_of(read) && written.overlaps(read)) {
        violation("%s: the result %s overlaps a part of the feed %s",
                  method,
                  written.describe(memory_of(result).byte_offset).c_str(),
                  read.describe(memory_of(feeds[i]).byte_offset).c_str());
      }
    }
  }
}

} // namespace mps_simulator::graph
