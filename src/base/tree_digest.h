// TreeSha256: a digest as strong as SHA-256 in half the time or less, for bytes that are checked
// often.
#ifndef SINTER_SRC_BASE_TREE_DIGEST_H_
#define SINTER_SRC_BASE_TREE_DIGEST_H_

#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/sha256_lanes.h"

namespace sinter {

// SHA-256 of the sixteen 32-byte SHA-256 of `data`'s parts, in order. Of its `n` blocks of 64
// bytes, the last one perhaps shorter, part i has blocks n * i / 16 to n * (i + 1) / 16. The parts
// joined are the data, so who finds two inputs with one digest has found a collision of SHA-256.
// The rounds of one message wait for one another; those of sixteen do not.
Digest TreeSha256(absl::string_view data);

// The same in one of the ways that this processor knows; null: in plain C++ or by libcrypto.
// Exposed for tests.
Digest TreeSha256By(CompressLanes compress, absl::string_view data);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_TREE_DIGEST_H_
