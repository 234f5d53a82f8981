#include "shader/compiler.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" char** environ;

namespace mps_simulator::shader {
namespace {

namespace fs = std::filesystem;

// FNV-1a of 128 bits, in hexadecimal: nobody makes shaders that collide.
std::string digest(const std::string& text) {
  unsigned __int128 state = static_cast<unsigned __int128>(0x6c62272e07bb0142) << 64 | 0x62b821756295c58d;
  for (const unsigned char byte : text) {
    state = (state ^ byte) * (static_cast<unsigned __int128>(1) << 88 | 0x13b);
  }
  std::string result;
  for (int shift = 124; shift >= 0; shift -= 4) {
    result += "0123456789abcdef"[static_cast<unsigned>(state >> shift) & 15];
  }
  return result;
}

// A build with AddressSanitizer instruments the kernels, too. What is undefined
// behaviour in C++ is defined in Metal kernels, and their races are allowed, so
// the other sanitizers do not apply to them.
#if __has_feature(address_sanitizer)
constexpr const char* kSanitizer = "address";
#else
constexpr const char* kSanitizer = "";
#endif

std::string setting(const char* variable, const std::string& otherwise) {
  const char* value = std::getenv(variable);
  return value && *value ? value : otherwise;
}

fs::path cache_directory() {
  const std::string base = setting("XDG_CACHE_HOME", setting("HOME", "/tmp") + "/.cache");
  return setting("MPS_SIMULATOR_SHADER_CACHE", base + "/mps_simulator/shaders");
}

// The file behind a program's name.
fs::path find_program(const std::string& name) {
  std::error_code ignored;
  if (name.find('/') != std::string::npos) {
    return name;
  }
  std::istringstream path(setting("PATH", "/usr/bin:/bin"));
  for (std::string directory; std::getline(path, directory, ':');) {
    const fs::path candidate = fs::path(directory) / name;
    if (access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate, ignored)) {
      return candidate;
    }
  }
  throw std::runtime_error(
      "MPS simulator: cannot find the program '" + name +
      "', which compiles Metal shaders; install it or name another one in MPS_SIMULATOR_CLANG or "
      "MPS_SIMULATOR_PYTHON");
}

std::string file_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

bool fast_processor() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

// Everything but the source that the result depends on.
std::string toolchain_digest(const fs::path& directory, const fs::path& clang) {
  std::vector<fs::path> files;
  for (const char* part : {"include", "compiler"}) {
    for (const auto& entry : fs::recursive_directory_iterator(directory / part)) {
      const auto extension = entry.path().extension();
      if (entry.is_regular_file() && (extension == ".h" || extension == ".py")) {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  std::string text = fast_processor() ? "fast\n" : "plain\n";
  text += kSanitizer;
  for (const auto& file : files) {
    text += fs::relative(file, directory).string() + "\n" + digest(file_text(file)) + "\n";
  }
  struct stat status{};
  const fs::path real = fs::canonical(clang);
  stat(real.c_str(), &status);
  text += real.string() + " " + std::to_string(status.st_size) + " " + std::to_string(status.st_mtime);
  return digest(text);
}

struct Toolchain {
  fs::path directory = fs::path(MPS_SIMULATOR_SOURCE_DIR) / "shader";
  fs::path clang = find_program(setting("MPS_SIMULATOR_CLANG", MPS_SIMULATOR_CLANG));
  std::string python = find_program(setting("MPS_SIMULATOR_PYTHON", MPS_SIMULATOR_DEFAULT_PYTHON)).string();
  std::string key = toolchain_digest(directory, clang);
};

const Toolchain& toolchain() {
  static const Toolchain instance;
  return instance;
}

// A file that is removed with the object.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& directory, const char* prefix) : path_((directory / prefix).string() + "XXXXXX") {
    descriptor_ = mkostemp(path_.data(), O_CLOEXEC);
    if (descriptor_ < 0) {
      throw std::runtime_error(
          "MPS simulator: cannot write to the shader cache " + directory.string() + ": " + std::strerror(errno) +
          "; set MPS_SIMULATOR_SHADER_CACHE to a directory that can be written");
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    close(descriptor_);
    unlink(path_.c_str());
  }
  const std::string& path() const {
    return path_;
  }

 private:
  std::string path_;
  int descriptor_;
};

// Runs a program with files for its standard streams; returns its exit status.
int run(const std::vector<std::string>& command, const std::string& input, const std::string& output) {
  std::vector<char*> arguments;
  for (const auto& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  // A preloaded simulator must not load itself into its own compiler.
  std::vector<char*> environment;
  for (char** variable = environ; *variable; ++variable) {
    if (std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) {
      environment.push_back(*variable);
    }
  }
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_TRUNC, 0);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failure = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    throw std::runtime_error(
        "MPS simulator: cannot start " + command[0] + " to compile a Metal shader: " + std::strerror(failure));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      throw std::runtime_error(std::string("MPS simulator: lost the shader compiler: ") + std::strerror(errno));
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace

std::string compiled_library(const CompileRequest& request, bool fresh, std::string& error) {
  const Toolchain& tools = toolchain();
  std::string description =
      tools.key + "\n" + std::to_string(request.metal_version) + "\n" + std::to_string(request.fast_math) + "\n";
  for (const auto& [name, value] : request.macros) {
    description += name + "=" + value + "\n";
  }
  const fs::path cache = cache_directory();
  const fs::path library = cache / (digest(description + "\n" + request.source) + ".so");
  if (!fresh && fs::exists(library)) {
    return library.string();
  }
  std::error_code failure;
  fs::create_directories(cache, failure);
  const TemporaryFile input(cache, ".source-");
  const TemporaryFile output(cache, ".messages-");
  std::ofstream(input.path(), std::ios::binary) << request.source;
  std::vector<std::string> command{
      tools.python,
      "-S", // no site packages: they may load the simulator
      "-E",
      "-s",
      "-c",
      "import sys; sys.path.insert(0, sys.argv.pop(1)); "
      "from metal_compiler.driver import main; sys.exit(main())",
      (tools.directory / "compiler").string(),
      "--clang",
      tools.clang.string(),
      "--include",
      (tools.directory / "include").string(),
      "--toolchain",
      (cache / ("toolchain-" + tools.key.substr(0, 24))).string(),
      "--output",
      library.string(),
      "--version",
      std::to_string(request.metal_version)};
  if (request.fast_math) {
    command.emplace_back("--fast-math");
  }
  if (*kSanitizer) {
    command.insert(command.end(), {"--sanitizer", kSanitizer});
  }
  for (const auto& [name, value] : request.macros) {
    command.push_back("-D" + name + "=" + value);
  }
  const int status = run(command, input.path(), output.path());
  const std::string messages = file_text(output.path());
  if (status == 0) {
    return library.string();
  }
  if (status != 1 || messages.empty()) {
    throw std::runtime_error(
        "MPS simulator: compiling a Metal shader failed (status " + std::to_string(status) + "): " + messages);
  }
  error = messages;
  return {};
}

} // namespace mps_simulator::shader
