// The shader compiler for ctypes: tests use it without Metal objects.
#include "shader/shader.h"

#include <cstring>
#include <exception>
#include <sstream>

using namespace mps_simulator::shader;

namespace {

struct Handle {
  std::shared_ptr<Library> library;
  std::string text;
};

thread_local std::string last_error;

const char* kept(Handle* handle, const std::string& text) {
  handle->text = text;
  return handle->text.c_str();
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

// Null on failure: see mps_simulator_shader_error. `macros` has NAME=VALUE lines.
void*
mps_simulator_shader_compile(const char* source, const char* macros, unsigned language_version, int fast_math) {
  last_error.clear();
  try {
    std::map<std::string, std::string> definitions;
    std::istringstream lines(macros ? macros : "");
    for (std::string line; std::getline(lines, line);) {
      const auto equals = line.find('=');
      definitions[line.substr(0, equals)] = equals == std::string::npos ? "1" : line.substr(equals + 1);
    }
    auto library = Library::compile(source, definitions, language_version, fast_math != 0, last_error);
    return library ? new Handle{std::move(library), {}} : nullptr;
  } catch (const std::exception& exception) {
    last_error = exception.what();
    return nullptr;
  }
}

const char* mps_simulator_shader_error() {
  return last_error.c_str();
}

void mps_simulator_shader_release(void* library) {
  delete static_cast<Handle*>(library);
}

// One name a line.
const char* mps_simulator_shader_function_names(void* library) {
  auto* handle = static_cast<Handle*>(library);
  std::string names;
  for (const auto& name : handle->library->function_names()) {
    names += name + "\n";
  }
  return kept(handle, names);
}

// First line: limits of the kernel. Then one line an argument. Null when there
// is no such kernel.
const char* mps_simulator_shader_describe(void* library, const char* name) {
  auto* handle = static_cast<Handle*>(library);
  try {
    const auto function = handle->library->function(name);
    if (!function) {
      return nullptr;
    }
    std::ostringstream text;
    text << function->max_total_threads_per_threadgroup() << ' ' << function->thread_execution_width() << ' '
         << function->static_threadgroup_memory_length() << '\n';
    for (const auto& argument : function->arguments()) {
      text << argument.index << ' ' << argument.threadgroup << ' ' << argument.writable << ' '
           << argument.minimum_length << ' ' << argument.name << '\n';
    }
    return kept(handle, text.str());
  } catch (const std::exception& exception) {
    last_error = exception.what();
    return nullptr;
  }
}

int64_t mps_simulator_shader_argument_offset(
    void* library,
    const char* name,
    unsigned index,
    unsigned identifier) {
  const auto function = static_cast<Handle*>(library)->library->function(name);
  return function ? function->argument_buffer_offset(index, identifier) : -1;
}

// `sizes`: grid, then threadgroup. 1 on success.
int mps_simulator_shader_run(
    void* library,
    const char* name,
    const uint64_t* sizes,
    void* const* pointers,
    const uint64_t* lengths,
    const uint64_t* threadgroup_lengths) {
  last_error.clear();
  try {
    const auto function = static_cast<Handle*>(library)->library->function(name);
    if (!function) {
      last_error = std::string("there is no kernel named '") + name + "'";
      return 0;
    }
    BoundBuffer buffers[kMaximumBindings];
    for (unsigned i = 0; i < kMaximumBindings; ++i) {
      buffers[i] = {pointers[i], lengths[i]};
    }
    function->run({{sizes[0], sizes[1], sizes[2]}, {sizes[3], sizes[4], sizes[5]}, buffers, threadgroup_lengths});
    return 1;
  } catch (const std::exception& exception) {
    last_error = exception.what();
    return 0;
  }
}

} // extern "C"
#pragma GCC visibility pop
