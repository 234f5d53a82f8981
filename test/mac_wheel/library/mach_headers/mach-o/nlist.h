#pragma once

// What of Mach-O's nlist.h the library reads, for its tests on Linux.

#include <cstdint>

struct nlist_64 {
  union {
    uint32_t n_strx;
  } n_un;
  uint8_t n_type;
  uint8_t n_sect;
  uint16_t n_desc;
  uint64_t n_value;
};

constexpr uint8_t N_STAB = 0xe0;
constexpr uint8_t N_TYPE = 0x0e;
constexpr uint8_t N_EXT = 0x01;
constexpr uint8_t N_UNDF = 0x00;
constexpr unsigned DYNAMIC_LOOKUP_ORDINAL = 0xfe;

constexpr unsigned GET_LIBRARY_ORDINAL(uint16_t description) {
  return description >> 8;
}
