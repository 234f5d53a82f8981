#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

// What the stand-in's device and engine share: operators that ran while a graph was captured.
namespace stand_in {

struct Call {
  c10::OperatorHandle op;
  std::vector<c10::IValue> inputs;
  std::vector<c10::IValue> outputs;
};

/// That of the capture that this thread works for, or none.
std::vector<Call>* recording();
/// The host reads the device: refused unless the capture freezes host reads.
void hostReads();
/// Runs the operator again, and puts its results where they were.
void repeat(const Call& call);
/// Remembers a call of the adapter's or the bindings', for the tests to compare.
void note(const std::string& call);

} // namespace stand_in
