// One run of a plan on the GPU.
#pragma once

#include "graph/executable.h"
#include "graph/plan.h"
#include "graph/tensor_data.h"

namespace mps_simulator::graph {

// Tensor data kept alive until the command that uses it is done.
class RetainedData {
 public:
  RetainedData() = default;
  explicit RetainedData(std::vector<MPSGraphTensorData*> items);
  RetainedData(RetainedData&& other) noexcept : items_(std::move(other.items_)) {
    other.items_.clear();
  }
  RetainedData& operator=(RetainedData&&) = delete;
  ~RetainedData();

  const std::vector<MPSGraphTensorData*>& items() const {
    return items_;
  }

 private:
  std::vector<MPSGraphTensorData*> items_;
};

// Schedules the run: nothing is computed before the command buffer is
// committed. `method` is the API call that errors name; `use` notes that the
// executable has work in flight.
void schedule(const char* method,
              MPSCommandBuffer* command_buffer,
              std::shared_ptr<const Plan> plan,
              std::vector<MPSGraphTensorData*> feeds,
              std::vector<MPSGraphTensorData*> results,
              ExecutableUse use = {});

// Violation unless `data` may hold the values of a tensor of this type.
void check_feed(const char* method, MPSGraphTensor* tensor, const TensorType& type, MPSGraphTensorData* data);
void check_result(const char* method, MPSGraphTensor* tensor, const TensorType& type, MPSGraphTensorData* data);

// A method that is given an MPSCommandBuffer may commit what is encoded so far
// and go on in the next command buffer of the queue, unless a descriptor
// forbids it. The seed decides whether it does so here; where a descriptor
// allows it by name, as the backend's does to keep the GPU busy, it happens
// also without a seed.
void commit_now_and_then(MPSCommandBuffer* command_buffer);
void commit_if_the_seed_says(MPSCommandBuffer* command_buffer);

// Results that lie in the memory of what is fed.
// Violation if a result shares some bytes with a feed that the plan reads, but does not have the same place: its
// kernels may write an element before others have read it. `method` is the API call that errors name.
void check_overlap(const char* method,
                   const Plan& plan,
                   const std::vector<MPSGraphTensorData*>& feeds,
                   const std::vector<MPSGraphTensorData*>& results);

} // namespace mps_simulator::graph
