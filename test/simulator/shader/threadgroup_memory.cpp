#include "shader/threadgroup_memory.h"

#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <new>
#include <sys/mman.h>

namespace mps_simulator::shader {
namespace {

constexpr size_t kPages = 32 * 1024;
constexpr size_t kGuard = 1024 * 1024;
constexpr size_t kAlignment = 16;
constexpr size_t kMargin = 256;
constexpr int kPattern = 0xa5;

} // namespace

ThreadgroupMemory::ThreadgroupMemory() {
  void* memory = mmap(nullptr, kGuard + kPages + kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  reserved_ = static_cast<char*>(memory);
  // One page more, for the margin of the longest memory.
  if (mprotect(reserved_ + kGuard - 4096, 4096 + kPages, PROT_READ | PROT_WRITE) != 0) {
    throw std::bad_alloc();
  }
}

char* ThreadgroupMemory::reserve(size_t length) {
  length_ = length;
  start_ = reserved_ + kGuard + kPages - (length + kAlignment - 1) / kAlignment * kAlignment;
  std::memset(start_ - kMargin, kPattern, kMargin);
  return start_;
}

bool ThreadgroupMemory::is_near(uintptr_t address) const {
  const auto first = reinterpret_cast<uintptr_t>(reserved_);
  return address >= first && address < first + kGuard + kPages + kGuard;
}

size_t ThreadgroupMemory::overwritten_in_front() const {
  for (size_t distance = 1; distance <= kMargin; ++distance) {
    if (start_[-static_cast<ptrdiff_t>(distance)] != static_cast<char>(kPattern)) {
      return distance;
    }
  }
  return 0;
}

namespace {

// Out of what follows the function in the mangled name: its length, itself, and
// perhaps a number.
std::string plain_name(const char* mangled) {
  char* name = nullptr;
  const auto length = std::strtoul(mangled, &name, 10);
  return std::string(name, strnlen(name, length));
}

} // namespace

std::vector<ThreadgroupVariable> threadgroup_variables(const std::string& path, char* base, const void* function) {
  std::ifstream stream(path, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  std::vector<ThreadgroupVariable> result;
  if (file.size() < sizeof(Elf64_Ehdr)) {
    return result;
  }
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(file.data() + header->e_shoff);
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) {
      continue;
    }
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(file.data() + sections[i].sh_offset);
    const size_t count = sections[i].sh_size / sizeof(Elf64_Sym);
    const char* names = file.data() + sections[sections[i].sh_link].sh_offset;
    const auto offset = static_cast<Elf64_Addr>(static_cast<const char*>(function) - base);
    // Identical functions may have been folded: several names at one address.
    for (size_t j = 0; j < count; ++j) {
      if (ELF64_ST_TYPE(symbols[j].st_info) != STT_FUNC || symbols[j].st_value != offset) {
        continue;
      }
      const char* name = names + symbols[j].st_name;
      if (std::strncmp(name, "_Z", 2) != 0) {
        continue;
      }
      const std::string prefix = "_ZZ" + std::string(name + 2) + "E";
      for (size_t k = 0; k < count; ++k) {
        const char* variable = names + symbols[k].st_name;
        if (ELF64_ST_TYPE(symbols[k].st_info) == STT_OBJECT &&
            std::strncmp(variable, prefix.c_str(), prefix.size()) == 0) {
          const std::string own = plain_name(variable + prefix.size());
          const bool margin = own.rfind("__mps_simulator_margin_", 0) == 0;
          result.push_back({own, base + symbols[k].st_value, symbols[k].st_size, margin});
        }
      }
    }
  }
  return result;
}

} // namespace mps_simulator::shader
