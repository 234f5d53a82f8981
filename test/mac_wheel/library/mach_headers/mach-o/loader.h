#pragma once

// What of Mach-O's loader.h the library reads, for its tests on Linux. Its
// build for macOS has Apple's own header.

#include <cstdint>

struct mach_header_64 {
  uint32_t magic;
  int32_t cputype;
  int32_t cpusubtype;
  uint32_t filetype;
  uint32_t ncmds;
  uint32_t sizeofcmds;
  uint32_t flags;
  uint32_t reserved;
};

struct load_command {
  uint32_t cmd;
  uint32_t cmdsize;
};

struct segment_command_64 {
  uint32_t cmd;
  uint32_t cmdsize;
  char segname[16];
  uint64_t vmaddr;
  uint64_t vmsize;
  uint64_t fileoff;
  uint64_t filesize;
  int32_t maxprot;
  int32_t initprot;
  uint32_t nsects;
  uint32_t flags;
};

union lc_str {
  uint32_t offset;
};

struct dylib {
  lc_str name;
  uint32_t timestamp;
  uint32_t current_version;
  uint32_t compatibility_version;
};

struct dylib_command {
  uint32_t cmd;
  uint32_t cmdsize;
  struct dylib dylib;
};

struct symtab_command {
  uint32_t cmd;
  uint32_t cmdsize;
  uint32_t symoff;
  uint32_t nsyms;
  uint32_t stroff;
  uint32_t strsize;
};

constexpr uint32_t MH_TWOLEVEL = 0x80;
constexpr uint32_t LC_SYMTAB = 0x2;
constexpr uint32_t LC_LOAD_DYLIB = 0xc;
constexpr uint32_t LC_SEGMENT_64 = 0x19;
constexpr uint32_t LC_LAZY_LOAD_DYLIB = 0x20;
constexpr uint32_t LC_LOAD_WEAK_DYLIB = 0x80000018;
constexpr uint32_t LC_REEXPORT_DYLIB = 0x8000001f;
constexpr uint32_t LC_LOAD_UPWARD_DYLIB = 0x80000023;
constexpr const char* SEG_TEXT = "__TEXT";
constexpr const char* SEG_LINKEDIT = "__LINKEDIT";
