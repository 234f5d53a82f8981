// The series' bindings, put on a torch._C that was built without them.

#include <torch/csrc/mps/ExecutableCache.h>
#include <torch/csrc/mps/Graphs.h>
#include <torch/csrc/mps/StaticMemory.h>
#include <torch/csrc/utils/pybind.h>

PYBIND11_MODULE(stand_in_bindings, module) {
  module.def("install", [](py::module target) {
    torch::mps::initExecutableCacheBindings(target);
    torch::mps::initGraphBindings(target);
    torch::mps::initStaticMemoryBindings(target);
  });
}
