// The Python side of a USE_MPS build: imported right after torch._C, it gives
// that module what it would have, had the wheel been compiled with the backend.

#include "glue/bindings/constructors.h"
#include "graph/gradient.h"

#include <torch/csrc/autograd/python_engine.h>
#include <torch/csrc/mps/Module.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

namespace mps_simulator {
namespace {

void add_functions(const pybind11::module_& module, PyMethodDef* functions) {
  for (auto* function = functions; function->ml_name != nullptr; ++function) {
    // Replaces the wheel's function of the same name, if there is one: the
    // checkout's may be patched.
    module.attr(function->ml_name) = pybind11::reinterpret_steal<pybind11::object>(PyCFunction_New(function, nullptr));
  }
}

// The Python engine gives each node a Python stack in anomaly mode, which is global.
torch::autograd::Engine& engine_of_thread() {
  return graph::is_gradient_running() ? torch::autograd::Engine::get_base_engine()
                                      : torch::autograd::python::PythonEngine::get_python_engine();
}

} // namespace
} // namespace mps_simulator

PYBIND11_MODULE(mps_bindings, module) {
  auto torch_module = pybind11::module_::import("torch._C");
  mps_simulator::add_functions(torch_module, torch::mps::python_functions());
  torch::mps::initModule(torch_module.ptr());
  torch_module.attr("_has_mps") = true;
  mps_simulator::replace_constructors();
  torch::autograd::set_default_engine_stub(mps_simulator::engine_of_thread);
}
