#include "takeover.h"

#include <ATen/detail/MPSHooksInterface.h>
#include <mac_library_generated/official_library.h>

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#ifdef __APPLE__
#include <mach-o/loader.h>
#else
#include <elf.h>
#include <link.h>
#endif

namespace torch_mps_graph {
namespace {

using Identity = std::array<uint8_t, 16>;

// A function that only libtorch_cpu has, whatever else is loaded.
std::optional<Dl_info> loadedLibrary() {
  Dl_info info{};
  const auto* function = reinterpret_cast<const void*>(&at::detail::getMPSHooks);
  if (dladdr(function, &info) == 0 || info.dli_fbase == nullptr) {
    return std::nullopt;
  }
  return info;
}

#ifdef __APPLE__

// What the linker made of the content: LC_UUID.
std::optional<Identity> identityOf(const void* image) {
  const auto* header = static_cast<const mach_header_64*>(image);
  const auto* next = reinterpret_cast<const uint8_t*>(header + 1);
  for (uint32_t i = 0; i < header->ncmds; i++) {
    const auto* command = reinterpret_cast<const load_command*>(next);
    if (command->cmd == LC_UUID) {
      Identity identity{};
      std::memcpy(identity.data(), reinterpret_cast<const uuid_command*>(next)->uuid, identity.size());
      return identity;
    }
    next += command->cmdsize;
  }
  return std::nullopt;
}

#else

// The first 16 bytes of the build id. For the simulator; macOS has LC_UUID.
std::optional<Identity> identityOf(const void* image) {
  const auto base = reinterpret_cast<uintptr_t>(image);
  const auto* header = static_cast<const ElfW(Ehdr)*>(image);
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(base + header->e_phoff);
  for (int i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type != PT_NOTE) {
      continue;
    }
    auto next = base + segments[i].p_vaddr;
    const auto end = next + segments[i].p_memsz;
    while (next + sizeof(ElfW(Nhdr)) <= end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(next);
      const auto content = next + sizeof(*note) + (note->n_namesz + 3U) / 4 * 4;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz >= sizeof(Identity)) {
        Identity identity{};
        std::memcpy(identity.data(), reinterpret_cast<const void*>(content), identity.size());
        return identity;
      }
      next = content + (note->n_descsz + 3U) / 4 * 4;
    }
  }
  return std::nullopt;
}

#endif

} // namespace

std::string whyNotTheOfficialLibrary() {
  const auto library = loadedLibrary();
  const auto identity = library ? identityOf(library->dli_fbase) : std::nullopt;
  if (!identity) {
    return "libtorch_cpu has no build identity that this library could compare with its own";
  }
  static_assert(sizeof(kOfficialTorchCpuUuid) == sizeof(Identity));
  if (std::memcmp(identity->data(), kOfficialTorchCpuUuid, identity->size()) != 0) {
    return std::string("libtorch_cpu is not the one that this library was linked with (") + library->dli_fname +
        "): install the wheel of this library and no other torch over it";
  }
  return "";
}

bool officialStreamExists() {
  // at::mps::MPSStreamImpl::_stream, which is made at first use. This library
  // has one of its own, which is not exported and so not found here.
  constexpr const char* name = "_ZN2at3mps13MPSStreamImpl7_streamE";
  void* found = nullptr;
  if (const auto library = loadedLibrary()) {
    if (void* handle = dlopen(library->dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      found = dlsym(handle, name);
      dlclose(handle);
    }
  }
  if (found == nullptr) {
    found = dlsym(RTLD_DEFAULT, name);
  }
  return found != nullptr && *static_cast<void* const*>(found) != nullptr;
}

} // namespace torch_mps_graph
