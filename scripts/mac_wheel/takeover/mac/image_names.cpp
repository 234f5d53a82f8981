#include "image_names.h"

#include <mach-o/nlist.h>

#include <array>
#include <cstring>
#include <vector>

namespace torch_mps_graph {
namespace {

// As Itanium's ABI and Mach-O write the two namespaces of the backend.
constexpr std::array<const char*, 4> kPrefixes{
    "__ZN2at3mps",
    "__ZNK2at3mps",
    "__ZN2at6native3mps",
    "__ZNK2at6native3mps",
};

template <typename Visitor>
void forEachCommand(const mach_header_64& image, const Visitor& visit) {
  const auto* next = reinterpret_cast<const uint8_t*>(&image + 1);
  for (uint32_t i = 0; i < image.ncmds; i++) {
    const auto* command = reinterpret_cast<const load_command*>(next);
    visit(*command);
    next += command->cmdsize;
  }
}

struct Contents {
  std::vector<std::string> libraries;
  const symtab_command* symbols = nullptr;
};

Contents contentsOf(const mach_header_64& image) {
  Contents contents;
  forEachCommand(image, [&](const load_command& command) {
    switch (command.cmd) {
      case LC_SYMTAB:
        contents.symbols = reinterpret_cast<const symtab_command*>(&command);
        break;
      // Each counts for the numbers that symbols have their library by.
      case LC_LOAD_DYLIB:
      case LC_LOAD_WEAK_DYLIB:
      case LC_REEXPORT_DYLIB:
      case LC_LOAD_UPWARD_DYLIB:
      case LC_LAZY_LOAD_DYLIB: {
        const auto* dylib = reinterpret_cast<const dylib_command*>(&command);
        const std::string path =
            reinterpret_cast<const char*>(dylib) + dylib->dylib.name.offset;
        contents.libraries.push_back(path.substr(path.rfind('/') + 1));
        break;
      }
      default:
        break;
    }
  });
  return contents;
}

bool isOfBackend(const char* name) {
  for (const auto* prefix : kPrefixes) {
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) {
      return true;
    }
  }
  return false;
}

} // namespace

std::string backendFunctionTakenFrom(
    const mach_header_64& image,
    const uint8_t* content,
    const std::string& library) {
  const auto [libraries, symbols] = contentsOf(image);
  if (symbols == nullptr) {
    return "";
  }
  const bool is_flat = (image.flags & MH_TWOLEVEL) == 0;
  const auto* all =
      reinterpret_cast<const nlist_64*>(content + symbols->symoff);
  const auto* names = reinterpret_cast<const char*>(content + symbols->stroff);
  for (uint32_t i = 0; i < symbols->nsyms; i++) {
    const auto& symbol = all[i];
    const bool is_taken = (symbol.n_type & N_STAB) == 0 &&
        (symbol.n_type & N_TYPE) == N_UNDF && (symbol.n_type & N_EXT) != 0;
    if (!is_taken || !isOfBackend(names + symbol.n_un.n_strx)) {
      continue;
    }
    const size_t number = GET_LIBRARY_ORDINAL(symbol.n_desc);
    const bool is_of_any = is_flat || number == DYNAMIC_LOOKUP_ORDINAL;
    if (is_of_any ||
        (number >= 1 && number <= libraries.size() &&
         libraries[number - 1] == library)) {
      return names + symbol.n_un.n_strx;
    }
  }
  return "";
}

const uint8_t* loadedContent(const mach_header_64& image) {
  const auto* header = reinterpret_cast<const uint8_t*>(&image);
  const segment_command_64* text = nullptr;
  const segment_command_64* link_edit = nullptr;
  forEachCommand(image, [&](const load_command& command) {
    if (command.cmd != LC_SEGMENT_64) {
      return;
    }
    const auto* segment = reinterpret_cast<const segment_command_64*>(&command);
    if (std::strcmp(segment->segname, SEG_TEXT) == 0) {
      text = segment;
    } else if (std::strcmp(segment->segname, SEG_LINKEDIT) == 0) {
      link_edit = segment;
    }
  });
  if (text == nullptr || link_edit == nullptr) {
    return nullptr;
  }
  return header - text->vmaddr + link_edit->vmaddr - link_edit->fileoff;
}

} // namespace torch_mps_graph
