#pragma once

// Where the data of MPSGraphs lies, and how one tensor shows what another one
// holds. Objective-C++ only.

#include <ATen/mps/MPSCommandStep.h>

#include <c10/util/ArrayRef.h>

#include <optional>
#include <vector>

namespace at::mps {

/// One operation of an MPSGraph on the way from a tensor to a view of it.
struct MPSViewStep {
  enum class Kind { RESHAPE, TRANSPOSE, SLICE, BROADCAST };
  Kind kind;
  // the new shape; for TRANSPOSE two dimensions, for SLICE the first index in
  // each dimension
  std::vector<int64_t> numbers;
  // for SLICE the index after the last in each dimension
  std::vector<int64_t> ends;
};

/// The end of the bytes that begin at `place.begin`; those in between may
/// belong to it in part only.
size_t endOf(const MPSTensorLocation& place);
bool isDense(const MPSTensorLocation& place);
bool overlap(const MPSTensorLocation& one, const MPSTensorLocation& other);

/// How to get what `part` shows from a value of the shape `value_sizes` that
/// lies in `whole`; nothing if that can't be said. The element types have to be
/// the same.
std::optional<std::vector<MPSViewStep>> viewOf(
    const MPSTensorLocation& whole,
    c10::IntArrayRef value_sizes,
    const MPSTensorLocation& part);

} // namespace at::mps
