#include "glue/bindings/constructors.h"

#include <ATen/mps/MPSDevice.h>
#include <ATen/mps/MPSGeneratorImpl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/pybind.h>

#include <string>

namespace mps_simulator {
namespace {

newfunc wheel_generator_new = nullptr;
newfunc wheel_storage_new = nullptr;

// A device argument that means MPS: torch.device("mps"), "mps" or "mps:0". The
// wheel's constructor checks everything else, wrong types included.
bool means_mps(PyObject* device) {
  if (device == nullptr) {
    return false;
  }
  if (THPDevice_Check(device)) {
    return reinterpret_cast<THPDevice*>(device)->device.is_mps();
  }
  if (PyUnicode_Check(device)) {
    const std::string name = pybind11::cast<std::string>(pybind11::handle(device));
    return name == "mps" || name == "mps:0";
  }
  return false;
}

PyObject* device_argument(PyObject* keywords) {
  return keywords == nullptr ? nullptr : PyDict_GetItemString(keywords, "device");
}

PyObject* generator_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  HANDLE_TH_ERRORS
  auto* device = device_argument(keywords);
  if (device == nullptr && PyTuple_GET_SIZE(arguments) == 1) {
    device = PyTuple_GET_ITEM(arguments, 0);
  }
  if (!means_mps(device)) {
    return wheel_generator_new(type, arguments, keywords);
  }
  // The wheel's constructor lays the object out; only its generator changes.
  pybind11::tuple nothing;
  auto* self = wheel_generator_new(type, nothing.ptr(), nullptr);
  if (self != nullptr) {
    reinterpret_cast<THPGenerator*>(self)->cdata = at::make_generator<at::MPSGeneratorImpl>();
  }
  return self;
  END_HANDLE_TH_ERRORS
}

PyObject* storage_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  HANDLE_TH_ERRORS
  if (!means_mps(device_argument(keywords))) {
    return wheel_storage_new(type, arguments, keywords);
  }
  // The wheel knows allocators by address, whatever their device.
  auto changed = pybind11::reinterpret_steal<pybind11::dict>(PyDict_Copy(keywords));
  changed.attr("pop")("device");
  changed["allocator"] = reinterpret_cast<std::intptr_t>(at::mps::GetMPSAllocator());
  return wheel_storage_new(type, arguments, changed.ptr());
  END_HANDLE_TH_ERRORS
}

newfunc replace(const char* name, newfunc replacement) {
  auto object = pybind11::module_::import("torch._C").attr(name);
  auto* type = reinterpret_cast<PyTypeObject*>(object.ptr());
  auto previous = type->tp_new;
  type->tp_new = replacement;
  PyType_Modified(type);
  return previous;
}

} // namespace

void replace_constructors() {
  wheel_generator_new = replace("Generator", generator_new);
  wheel_storage_new = replace("StorageBase", storage_new);
}

} // namespace mps_simulator
