// Byte sizes as people write them: the one reader of options and environment variables.
#ifndef SINTER_SRC_BASE_BYTE_SIZE_H_
#define SINTER_SRC_BASE_BYTE_SIZE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// "500000000", "500MB", "2GiB", "64k": decimal digits, then nothing, B, or k M G T alone or before
// iB (powers of 1024) or B (powers of 1000, as disks are sold). Upper or lower case; one blank may
// stand between. INVALID_ARGUMENT showing the text; OUT_OF_RANGE beyond 2^64 - 1.
absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_BYTE_SIZE_H_
