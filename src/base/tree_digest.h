// TreeSha256: a digest as strong as SHA-256 in half the time or less, for bytes that are checked
// often.
#ifndef SINTER_SRC_BASE_TREE_DIGEST_H_
#define SINTER_SRC_BASE_TREE_DIGEST_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "src/base/digest.h"

namespace sinter {

// SHA-256 of sixteen messages side by side, by instructions that not every processor has.

constexpr size_t kShaLanes = 16;
constexpr size_t kShaBlock = 64;

// The chaining values of all messages: word by word, and of each word message by message.
struct ShaLanes {
  alignas(64) uint32_t word[8][kShaLanes];
};
ShaLanes StartLanes();
Digest DigestOfLane(const ShaLanes& lanes, size_t lane);

using LanePointers = std::array<const char*, kShaLanes>;
// Takes `blocks` blocks of each message into its chaining value, from where the pointers are.
using CompressLanes = void (*)(ShaLanes* lanes, const LanePointers& messages, size_t blocks);

// The ways that this processor knows, the fastest first; null behind them. With AVX-512 a message
// has a 32-bit lane of a register; with SHA extensions two messages at a time fill each other's
// wait for results.
std::array<CompressLanes, 3> WaysToCompressLanes();

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
