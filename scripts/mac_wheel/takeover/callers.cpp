#include "takeover.h"

#include <atomic>
#include <mutex>

#ifdef __APPLE__
#include "mac/image_names.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <mach-o/dyld.h>
#endif

namespace torch_mps_graph {
namespace {

std::atomic<bool> in_charge{false};

struct FirstCaller {
  std::mutex mutex;
  std::string sentence;
};

FirstCaller& firstCaller() {
  // Never destroyed: libraries may be loaded as long as the process lives.
  static auto* const only = new FirstCaller;
  return *only;
}

#ifdef __APPLE__

constexpr const char* kOfficial = "libtorch_cpu.dylib";
constexpr const char* kOwn = "libtorch_mps_graph.dylib";

std::string directoryOf(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) {
    return "";
  }
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

void look(const mach_header* header, intptr_t /*slide*/) {
  // Those of macOS's own cache know nothing of torch.
  if (header->magic != MH_MAGIC_64 ||
      (header->flags & MH_DYLIB_IN_CACHE) != 0) {
    return;
  }
  // Torch's own libraries may: what they call is known, and dealt with.
  static const std::string torch_directory =
      directoryOf(reinterpret_cast<const void*>(&look));
  if (directoryOf(header) == torch_directory) {
    return;
  }
  const auto& image = *reinterpret_cast<const mach_header_64*>(header);
  const auto* content = loadedContent(image);
  if (content == nullptr) {
    return;
  }
  const auto function =
      backendFunctionTakenFrom(image, content, in_charge ? kOfficial : kOwn);
  if (function.empty()) {
    return;
  }
  Dl_info info{};
  dladdr(header, &info);
  const std::string who =
      info.dli_fname != nullptr ? info.dli_fname : "a library";
  const std::string sentence = who +
      " calls functions of an MPS backend that is not in charge of the device (" +
      function + "), so its work is not ordered with the rest of torch's" +
      (in_charge
           ? ": build it again with this torch installed"
           : ": unset TORCH_MPS_GRAPH_DISABLE, or build it again with the official torch");
  {
    std::lock_guard<std::mutex> lock(firstCaller().mutex);
    if (firstCaller().sentence.empty()) {
      firstCaller().sentence = sentence;
    }
  }
  TORCH_WARN("torch.mps: ", sentence, ".");
}

#endif

} // namespace

void watchCallers(bool is_in_charge) {
  in_charge = is_in_charge;
#ifdef __APPLE__
  // Calls the function for the libraries that are there, too.
  static const bool once = [] {
    _dyld_register_func_for_add_image(&look);
    return true;
  }();
  (void)once;
#endif
}

std::string trouble() {
  {
    std::lock_guard<std::mutex> lock(firstCaller().mutex);
    if (!firstCaller().sentence.empty()) {
      return firstCaller().sentence;
    }
  }
  if (in_charge && officialStreamExists()) {
    return "something uses the stream of the official MPS backend, whose work is not ordered with that of this one: an "
           "extension that calls at::mps functions of libtorch_cpu";
  }
  return "";
}

} // namespace torch_mps_graph
