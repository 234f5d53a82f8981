#include "constructors.h"
#include "takeover.h"

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

// Both backends bind functions and C++ classes of the same names. A function
// that is there would become the first overload of a new one, and so be the one
// that is called. Of the classes, pybind11 knows each by its C++ name; the
// official Python classes stay alive, since the end of one would make pybind11
// forget the new one.
void removeOfficial(const py::module_& module) {
  std::vector<std::pair<std::string, py::object>> all;
  for (const auto& item : module.attr("__dict__").cast<py::dict>()) {
    const auto name = item.first.cast<std::string>();
    if (name.rfind("_mps_", 0) == 0 || name.rfind("_MPS", 0) == 0) {
      all.emplace_back(name, py::reinterpret_borrow<py::object>(item.second));
    }
  }
  auto& known = py::detail::get_internals().registered_types_cpp;
  for (auto& [name, official] : all) {
    py::delattr(module, name.c_str());
    if (!PyType_Check(official.ptr())) {
      continue;
    }
    if (const auto* type = py::detail::get_type_info(reinterpret_cast<PyTypeObject*>(official.ptr()))) {
      known.erase(std::type_index(*type->cpptype));
    }
    official.release();
  }
}

void replaceFunctions(const py::module_& module) {
  for (auto* function = torch::mps::python_functions(); function->ml_name != nullptr; ++function) {
    module.attr(function->ml_name) = py::reinterpret_steal<py::object>(PyCFunction_New(function, nullptr));
  }
}

// A capture can't see the work of extensions that call the other backend.
void refuseCapturesInTrouble(const py::module_& module) {
  auto graph = module.attr("_MPSGraph");
  auto begin = py::object(graph.attr("capture_begin"));
  graph.attr("capture_begin") = py::cpp_function(
      [begin](const py::object& self, const py::args& arguments, const py::kwargs& named) {
        const auto why = trouble();
        TORCH_CHECK(why.empty(), "torch.mps graph capture: ", why, ".");
        return begin(self, *arguments, **named);
      },
      py::name("capture_begin"),
      py::is_method(graph));
}

} // namespace

std::string replaceBindings() {
  try {
    auto module = py::module_::import("torch._C");
    removeOfficial(module);
    replaceFunctions(module);
    torch::mps::initModule(module.ptr());
    refuseCapturesInTrouble(module);
    replaceConstructors();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

} // namespace torch_mps_graph
