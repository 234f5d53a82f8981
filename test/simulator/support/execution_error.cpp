#include "support/execution_error.h"

#include "support/error.h"
#include "support/raised_errors.h"

#include <cstring>
#include <string>

namespace mps_simulator {

namespace {

constexpr char kPrefix[] = "MPS simulator: ";

bool says_not_simulated(const c10::NotImplementedError& error) {
  return std::strncmp(error.what_without_backtrace(), kPrefix, sizeof(kPrefix) - 1) == 0;
}

} // namespace

void rethrow_as_execution_error(const std::exception_ptr& failure) {
  const c10::SourceLocation location{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  try {
    std::rethrow_exception(failure);
  } catch (const ValidationError&) {
    throw;
  } catch (const ExecutionError&) {
    throw;
  } catch (const c10::NotImplementedError& error) {
    if (says_not_simulated(error)) {
      throw;
    }
    // A CPU kernel that lacks a data type.
    const std::string message = kPrefix + std::string(error.what_without_backtrace());
    note_error("unsupported", message);
    throw c10::NotImplementedError(location, message);
  } catch (const c10::Error& error) {
    note_error("execution", error.what_without_backtrace());
    throw ExecutionError(location, error.what_without_backtrace());
  } catch (const std::exception& error) {
    note_error("execution", error.what());
    throw ExecutionError(location, error.what());
  }
}

bool is_own_error(const std::exception& error) {
  if (const auto* unsupported = dynamic_cast<const c10::NotImplementedError*>(&error)) {
    return says_not_simulated(*unsupported);
  }
  return dynamic_cast<const ValidationError*>(&error) != nullptr ||
      dynamic_cast<const ExecutionError*>(&error) != nullptr;
}

} // namespace mps_simulator
