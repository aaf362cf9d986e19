// Which bytes of a table LevelDB may see. LevelDB trusts every length in a block whose checksum is
// right, adds two of them in 32 bits, unpacks a block before anybody can ask how large it becomes,
// and allocates whatever size the index names. So each block is checked here first, and only the
// form in which our own tables are written passes.
#ifndef SINTER_CACHE_STORE_TABLE_CHECK_H_
#define SINTER_CACHE_STORE_TABLE_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

constexpr uint64_t kTableFooterBytes = 48;
constexpr uint64_t kBlockTrailerBytes = 5;  // compression type, CRC32C
constexpr uint64_t kMostBlockBytes = uint64_t{256} << 20;

// Where the index of a table of `table_bytes` begins, according to the footer; the index ends where
// the footer begins. DATA_LOSS. Checks no checksum.
absl::StatusOr<uint64_t> CheckFooter(absl::string_view footer, uint64_t table_bytes);

enum class BlockRole {
  kRecord,  // exactly one entry
  kIndex,   // any number; their values name blocks that adjoin from byte 0 and end before the index
};

// `block` with its trailer must be uncompressed, filled by its entries, of which none shares a
// prefix with the one before, and have a restart point for each. `index_at` is the result of
// CheckFooter. DATA_LOSS with what is wrong.
absl::Status CheckBlock(absl::string_view block, BlockRole role, uint64_t index_at);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_TABLE_CHECK_H_
