// The series' bindings, put on a torch._C that was built without them.

#include <torch/csrc/utils/pybind.h>

namespace torch::mps {
void initExecutableCacheBindings(py::module& module);
void initGraphBindings(py::module& module);
void initStaticMemoryBindings(py::module& module);
} // namespace torch::mps

PYBIND11_MODULE(stand_in_bindings, module) {
  module.def("install", [](py::module target) {
    torch::mps::initExecutableCacheBindings(target);
    torch::mps::initGraphBindings(target);
    torch::mps::initStaticMemoryBindings(target);
  });
}
