// CRC32C (Castagnoli), as LevelDB's tables carry it; LevelDB does not export its own.
#ifndef SINTER_CACHE_STORE_CRC32C_H_
#define SINTER_CACHE_STORE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace sinter {

// By carry-less multiplication in wide registers where the processor has it, else by its own
// instruction for this checksum, else by tables.
uint32_t Crc32c(absl::string_view data);
uint32_t Crc32cStriped(absl::string_view data);   // without multiplication; exposed for the test
uint32_t Crc32cFallback(absl::string_view data);  // the tables; likewise

// LevelDB stores checksums of data that may hold checksums masked: rotated, plus a constant.
inline uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_CRC32C_H_
