#include "bindings.h"
#include "constructors.h"

#include <torch/csrc/mps/Module.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

namespace torch_mps_graph {
namespace {

namespace py = pybind11;

// Both backends bind C++ classes of the same names. pybind11 knows a class by
// its name, and torch._C has one by the Python name. The official Python classes
// stay alive, since the end of one would make pybind11 forget the new one.
void removeOfficialClasses(const py::module_& module) {
  std::vector<std::pair<std::string, py::object>> classes;
  for (const auto& item : module.attr("__dict__").cast<py::dict>()) {
    const auto name = item.first.cast<std::string>();
    const bool of_the_backend = name.rfind("_mps_", 0) == 0 || name.rfind("_MPS", 0) == 0;
    if (of_the_backend && PyType_Check(item.second.ptr())) {
      classes.emplace_back(name, py::reinterpret_borrow<py::object>(item.second));
    }
  }
  auto& known = py::detail::get_internals().registered_types_cpp;
  for (auto& [name, official] : classes) {
    if (const auto* type = py::detail::get_type_info(reinterpret_cast<PyTypeObject*>(official.ptr()))) {
      known.erase(std::type_index(*type->cpptype));
    }
    py::delattr(module, name.c_str());
    official.release();
  }
}

void replaceFunctions(const py::module_& module) {
  for (auto* function = torch::mps::python_functions(); function->ml_name != nullptr; ++function) {
    module.attr(function->ml_name) = py::reinterpret_steal<py::object>(PyCFunction_New(function, nullptr));
  }
}

} // namespace

std::string replaceBindings() {
  try {
    auto module = py::module_::import("torch._C");
    removeOfficialClasses(module);
    replaceFunctions(module);
    torch::mps::initModule(module.ptr());
    replaceConstructors(module);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

} // namespace torch_mps_graph
