// CRC32C (Castagnoli), as LevelDB's tables carry it; LevelDB does not export its own.
#ifndef SINTER_CACHE_STORE_CRC32C_H_
#define SINTER_CACHE_STORE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace sinter {

// By the processor's own instruction where there is one (8 GB/s), else by tables (1 GB/s).
uint32_t Crc32c(absl::string_view data);
uint32_t Crc32cFallback(absl::string_view data);  // the tables, exposed for the test

// LevelDB stores checksums of data that may hold checksums masked: rotated, plus a constant.
inline uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_CRC32C_H_
