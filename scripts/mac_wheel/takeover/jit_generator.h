#pragma once

#include <memory>

namespace torch_mps_graph {

/// `torch.Generator(device=...)` in TorchScript. libtorch_cpu makes the official
/// backend's generator there without asking the hooks, so the interpreter's
/// operator is replaced. Undone by the destructor, unless kept.
class JitGenerator {
 public:
  JitGenerator();
  JitGenerator(const JitGenerator&) = delete;
  JitGenerator& operator=(const JitGenerator&) = delete;
  ~JitGenerator();

  void keep() noexcept;

 private:
  struct Official;
  std::unique_ptr<Official> official_;
};

} // namespace torch_mps_graph
