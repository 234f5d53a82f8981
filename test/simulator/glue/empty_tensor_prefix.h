#pragma once

// EmptyTensor.cpp compiles its body for macOS only. These macros turn it on,
// but in other headers they would select code for a system that this is not, so
// whatever that file includes is included first.

#include <ATen/ATen.h>
#include <ATen/Tensor.h>
#include <ATen/Utils.h>
#include <ATen/mps/EmptyTensor.h>
#include <ATen/mps/MPSDevice.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/mps/Copy.h>
#include <torch/library.h>

#define __APPLE__ 1
// A builtin of clang; redefining it is the purpose here.
#pragma clang diagnostic ignored "-Wbuiltin-macro-redefined"
#undef __is_target_os
#define __is_target_os(name) 1
