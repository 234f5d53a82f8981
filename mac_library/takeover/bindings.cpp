#include "bindings.h"
#include "constructors.h"

#include <torch/csrc/mps/Module.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>
#include <string>
#include <typeindex>

namespace torch_mps_graph {
namespace {

namespace py = pybind11;

// Both backends bind C++ classes of the same names, and pybind11 knows a class
// by its name. The official Python classes stay alive, since the end of one
// would make pybind11 forget the new one.
void forgetOfficialClasses(const py::module_& module) {
  auto& known = py::detail::get_internals().registered_types_cpp;
  for (const auto& item : module.attr("__dict__").cast<py::dict>()) {
    if (item.first.cast<std::string>().rfind("_mps_", 0) != 0 || !PyType_Check(item.second.ptr())) {
      continue;
    }
    if (const auto* type = py::detail::get_type_info(reinterpret_cast<PyTypeObject*>(item.second.ptr()))) {
      known.erase(std::type_index(*type->cpptype));
      item.second.inc_ref();
    }
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
    forgetOfficialClasses(module);
    replaceFunctions(module);
    torch::mps::initModule(module.ptr());
    replaceConstructors(module);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

} // namespace torch_mps_graph
