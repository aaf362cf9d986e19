#pragma once
#include "ptx/types.cuh"

namespace sinter {

// Element (row, column) of the transpose is (column, row), which lane 4 column + row / 2 holds.
inline u32 transpose_8x8(u32 pair) {
  const int lane = static_cast<int>(threadIdx.x % 32), row = lane / 4, column = 2 * (lane % 4);
  const auto element = [&](int c) {
    const u32 word = hardware::machine.Shuffle(lane, pair, 4 * c + row / 2);
    return row % 2 == 0 ? word & 0xFFFF : word >> 16;
  };
  const u32 low = element(column), high = element(column + 1);
  return low | high << 16;
}

}  // namespace sinter
