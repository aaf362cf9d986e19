// PairSha256: a digest as strong as SHA-256 in half the time, for bytes that are checked often.
#ifndef SINTER_SRC_BASE_PAIR_DIGEST_H_
#define SINTER_SRC_BASE_PAIR_DIGEST_H_

#include "absl/strings/string_view.h"
#include "src/base/digest.h"

namespace sinter {

// SHA-256 of the two 32-byte SHA-256 of `data`'s halves; the first half is the first
// 64 * ceil(size / 128) bytes, at most all. Who finds two inputs of one length with one digest has
// found a collision of SHA-256. A processor with SHA extensions waits for each round of one
// message; two messages fill the wait.
Digest PairSha256(absl::string_view data);
// The same without these extensions, exposed for tests.
Digest PairSha256Fallback(absl::string_view data);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_PAIR_DIGEST_H_
