// One run of a plan on the GPU.
#pragma once

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

// Schedules the run: nothing is computed before the command buffer is committed.
void schedule(
    MPSCommandBuffer* command_buffer,
    std::shared_ptr<const Plan> plan,
    std::vector<MPSGraphTensorData*> feeds,
    std::vector<MPSGraphTensorData*> results);

// Violation unless `data` may hold the values of a tensor of this type.
void check_feed(const char* method, MPSGraphTensor* tensor, const TensorType& type, MPSGraphTensorData* data);
void check_result(const char* method, MPSGraphTensor* tensor, const TensorType& type, MPSGraphTensorData* data);

// MPSGraph may commit what is encoded so far when the descriptor allows it.
// Whether it does so here is a matter of the seed.
void commit_now_and_then(MPSCommandBuffer* command_buffer);

} // namespace mps_simulator::graph
