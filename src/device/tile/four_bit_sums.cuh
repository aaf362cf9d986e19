// Sums of a product's slices in shared memory, and what becomes of them.
#pragma once
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/four_bits.cuh"
#include "tile/layout.cuh"

namespace sinter {

// Sums of f32 of each matrix and slice of a block, [kBlockM, kBlockN], whose rows are kPad apart.
// Config is a kernel's; a tile of it has kColumns.
template <class Config, int kColumns>
struct FourBitSums {
  using Result = typename Config::Result;
  using Weights = FourBits<typename Config::Element, Config::kForm>;
  static constexpr int kMatrices = Config::kPair ? 2 : 1;
  static constexpr int kSlices = Config::kSlices, kSplit = Config::kSplit;
  static constexpr int kBlockN = kColumns * Config::kTiles;
  static constexpr int kPad = kBlockN + 4;
  static constexpr int kBytes = kMatrices * kSlices * Config::kBlockM * kPad * 4;

  // Where the sum of `row` and `column`, of the block, lies.
  static SINTER_DEVICE u32 address(u32 sums, int matrix, int slice, int row, int column) {
    return sums + (((matrix * kSlices + slice) * Config::kBlockM + row) * kPad + column) * 4;
  }

  // Writes the results of a cluster's rows and columns, from the first ones on. `sums`: where they
  // lie in each of its blocks, which have all stored theirs. Each of kThreads threads calls it.
  template <int kThreads, class End>
  static SINTER_DEVICE void store(u32 sums, int first_row, int first_column, int rank, int m,
                                  const End& end, typename Result::Stored* out) {
    constexpr int kQuads = kBlockN / 4;
    const int rows = m - first_row < Config::kBlockM ? m - first_row : Config::kBlockM;
    const int first = rank * kThreads + static_cast<int>(threadIdx.x);
    for (int i = first; i < rows * kQuads; i += kSplit * kThreads) {
      const int of_rows = i / kQuads, of_block = i % kQuads * 4, column = first_column + of_block;
      if (column >= Config::kN) continue;
      float y[4], up[4] = {};
      total(sums, 0, of_rows, of_block, y);
      if constexpr (Config::kPair) total(sums, 1, of_rows, of_block, up);
      const int row = first_row + of_rows;
      auto* const to = out + row * Config::kOutStride + column;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (column + c < Config::kN) y[c] = end.at(row, column + c, y[c], up[c]);
      }
      if constexpr (Config::kN % 4 == 0 && Config::kOutStride % 4 == 0) {
        using Pair = typename Result::Pair;
        reinterpret_cast<Pair*>(to)[0] = Result::pack(y[0], y[1]);
        reinterpret_cast<Pair*>(to)[1] = Result::pack(y[2], y[3]);
      } else {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (column + c < Config::kN) to[c] = store_one(y[c]);
        }
      }
    }
  }

 private:
  static SINTER_DEVICE typename Result::Stored store_one(float x) {
    if constexpr (sizeof(typename Result::Stored) == 4) return x;
    return static_cast<typename Result::Stored>(Result::pack(x, 0));
  }

  // Adds the sums of slices, of the lowest rank first, for four columns.
  static SINTER_DEVICE void total(u32 sums, int matrix, int row, int column, float (&of)[4]) {
    const auto of_part = [&](int part) {
      const u32 at = address(sums, matrix, part % kSlices, row, column);
      return kSplit > 1 ? load_remote(map_to_rank(at, part / kSlices)) : load_shared(at);
    };
    total_of_codes<Weights, kSplit * kSlices>(of_part, of);
  }
};

}  // namespace sinter
