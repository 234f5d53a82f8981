// look_into_image FILE LIBRARY: prints the backend's function that a Mach-O file takes from a library. The file is laid out
// in memory as dyld does, somewhere else than it asks for.

#include "mac/image_names.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  const std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
  const auto* header = reinterpret_cast<const mach_header_64*>(content.data());
  std::vector<segment_command_64> segments;
  const auto* next = reinterpret_cast<const char*>(header + 1);
  uint64_t end = 0;
  for (uint32_t i = 0; i < header->ncmds; i++) {
    const auto* command = reinterpret_cast<const load_command*>(next);
    if (command->cmd == LC_SEGMENT_64) {
      segments.push_back(*reinterpret_cast<const segment_command_64*>(next));
      end = std::max(end, segments.back().vmaddr + segments.back().vmsize);
    }
    next += command->cmdsize;
  }
  const uint64_t begin = segments.front().vmaddr;
  std::vector<uint64_t> memory((end - begin) / sizeof(uint64_t) + 1);
  auto* mapped = reinterpret_cast<char*>(memory.data());
  for (const auto& segment : segments) {
    std::memcpy(mapped + segment.vmaddr - begin, content.data() + segment.fileoff, segment.filesize);
  }
  const auto& image = *reinterpret_cast<const mach_header_64*>(mapped);
  std::puts(torch_mps_graph::backendFunctionTakenFrom(image, torch_mps_graph::loadedContent(image), arguments[2]).c_str());
}
