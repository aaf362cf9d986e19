// SHA-256 of sixteen messages side by side, by instructions that not every processor has.
#ifndef SINTER_SRC_BASE_SHA256_LANES_H_
#define SINTER_SRC_BASE_SHA256_LANES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/base/digest.h"

namespace sinter {

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

}  // namespace sinter

#endif  // SINTER_SRC_BASE_SHA256_LANES_H_
