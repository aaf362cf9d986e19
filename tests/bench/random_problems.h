// Random problems: the list that "never slower" is measured on.
#pragma once

#include "tests/support/common.h"

namespace sinter::bench {

constexpr uint64_t kNeverSlowerSeed = 2026;
constexpr int kNeverSlowerCount = 60;

// A problem list, a function of only its arguments: gated or not, layout and dtype by a coin; m in
// 1..2048, n, k and l in 64..16384 in steps of 8, each octave as likely as the next (so that small
// sizes occur as often as large ones) and even within it.
std::string RandomProblemList(uint64_t seed, int count);

}  // namespace sinter::bench
