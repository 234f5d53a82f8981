#include "constructors.h"

#include <ATen/mps/MPSDevice.h>
#include <ATen/mps/MPSGeneratorImpl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <string>

namespace torch_mps_graph {
namespace {

namespace py = pybind11;

newfunc official_generator_new = nullptr;
newfunc official_storage_new = nullptr;

// Wrong devices and wrong types are for the official constructor to refuse.
bool meansMps(PyObject* device) {
  if (device == nullptr) {
    return false;
  }
  if (THPDevice_Check(device)) {
    return reinterpret_cast<THPDevice*>(device)->device.is_mps();
  }
  if (PyUnicode_Check(device)) {
    const auto name = py::cast<std::string>(py::handle(device));
    return name == "mps" || name == "mps:0";
  }
  return false;
}

PyObject* deviceArgument(PyObject* keywords) {
  return keywords == nullptr ? nullptr : PyDict_GetItemString(keywords, "device");
}

PyObject* generatorNew(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  HANDLE_TH_ERRORS
  auto* device = deviceArgument(keywords);
  if (device == nullptr && PyTuple_GET_SIZE(arguments) == 1) {
    device = PyTuple_GET_ITEM(arguments, 0);
  }
  if (!meansMps(device)) {
    return official_generator_new(type, arguments, keywords);
  }
  // The official constructor makes the object, around a generator of the CPU.
  const py::tuple nothing;
  auto* self = official_generator_new(type, nothing.ptr(), nullptr);
  if (self != nullptr) {
    reinterpret_cast<THPGenerator*>(self)->cdata = at::make_generator<at::MPSGeneratorImpl>();
  }
  return self;
  END_HANDLE_TH_ERRORS
}

PyObject* storageNew(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  HANDLE_TH_ERRORS
  if (!meansMps(deviceArgument(keywords))) {
    return official_storage_new(type, arguments, keywords);
  }
  // It takes an allocator by address in place of a device.
  auto changed = py::reinterpret_steal<py::dict>(PyDict_Copy(keywords));
  changed.attr("pop")("device");
  changed["allocator"] = reinterpret_cast<std::intptr_t>(at::mps::GetMPSAllocator());
  return official_storage_new(type, arguments, changed.ptr());
  END_HANDLE_TH_ERRORS
}

newfunc replace(const char* name, newfunc replacement) {
  const py::object object = py::module_::import("torch._C").attr(name);
  auto* type = reinterpret_cast<PyTypeObject*>(object.ptr());
  const auto official = type->tp_new;
  type->tp_new = replacement;
  PyType_Modified(type);
  return official;
}

} // namespace

void replaceConstructors() {
  official_generator_new = replace("Generator", generatorNew);
  official_storage_new = replace("StorageBase", storageNew);
}

} // namespace torch_mps_graph
