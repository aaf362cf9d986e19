// Scales of grouped products of e4m3: of the slots' rows and of the experts' matrices.
//
// Where a scale has a value for each 128 of K, the values of a stage come with it: copied by the
// threads that copy rows, read by those that add the stage's sums, which are summed apart. Others
// multiply the whole sums.
//
// Of Config, kRowScales and kWeightScales say which: 0 none, 1 of all of K, 2 of each 128 of K (of
// weights also of each 128 columns); and in elements kRowScaleStride, kRowScaleSlotStride and
// kRowScaleGroup (of K), kWeightScaleExpert, kWeightScaleColumn (of a column, or of 128) and
// kWeightScaleGroup. A stride of 0: they share a value.
#pragma once
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "ptx/types.cuh"
#include "tile/layout.cuh"

namespace sinter {

// The values of one stage. kBeside: W's columns of a tile that lie side by side.
template <class Config, int kBlockM, int kBlockN, int kBeside>
struct StageScales {
  static constexpr bool kOfRows = Config::kRowScales == 2, kOfWeights = Config::kWeightScales == 2;
  static constexpr bool kPresent = kOfRows || kOfWeights;
  // Columns of a tile with one value, and how many such sets there are.
  static constexpr int kRun = kBeside < 128 ? kBeside : 128, kRuns = kBlockN / kRun;
  static constexpr int kRowsBytes = kOfRows ? 4 * kBlockM : 0;
  static constexpr int kBytes = kPresent ? kRowsBytes + 16 : 0;
  static constexpr int kBlocks = ceil_div(Config::kN * (Config::kPair == 0 ? 1 : 2), 128);
  static_assert(!kOfWeights || kRuns <= 4, "16 bytes hold the values of a tile's columns");

  // What a thread copies: the value of its row, and of its run of columns. Null: none.
  struct Sources {
    const float *row = nullptr, *run = nullptr;
  };

  // The tile's columns begin at `column`, and its columns of up at `column + up`.
  static SINTER_DEVICE void run_of(Sources& from, const float* weight_scales, int thread, int group,
                                   int column, int up) {
    if constexpr (kOfWeights) {
      from.run = nullptr;
      if (thread >= kRuns) return;
      const int within = thread * kRun % kBeside;
      const int at = column + within + (thread * kRun < kBeside ? 0 : up);
      from.run = weight_scales + group * Config::kWeightScaleExpert +
                 min(at / 128, kBlocks - 1) * Config::kWeightScaleColumn;
    }
  }
  static SINTER_DEVICE void copy(const Sources& from, u32 to, int step, int thread) {
    if constexpr (kOfRows) {
      if (from.row != nullptr) {
        copy_word_async(to + 4 * thread, from.row + step * Config::kRowScaleGroup);
      }
    }
    if constexpr (kOfWeights) {
      if (from.run != nullptr) {
        copy_word_async(to + kRowsBytes + 4 * thread, from.run + step * Config::kWeightScaleGroup);
      }
    }
  }

  // What a thread's sums of a stage are multiplied by: of two rows, eight apart, and runs.
  struct Held {
    float rows[2], runs[kRuns];

    SINTER_DEVICE Held(u32 stage, int row) {
      rows[0] = rows[1] = 1;
      if constexpr (kOfRows) {
        rows[0] = __uint_as_float(load_shared_word(stage + 4 * row));
        rows[1] = __uint_as_float(load_shared_word(stage + 4 * (row + 8)));
      }
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        runs[run] =
            kOfWeights ? __uint_as_float(load_shared_word(stage + kRowsBytes + 4 * run)) : 1.0f;
      }
    }
    // Of accumulator `i` of the tile.
    SINTER_DEVICE float at(int i) const { return rows[i % 4 / 2] * runs[i / 4 * 8 / kRun]; }
  };

  // The same where operands are swapped, of kSlots rows: a thread has sums of two columns of each
  // run and of two neighbouring rows of each eight.
  template <int kSlots>
  struct HeldOfSlots {
    float rows[kSlots / 8][2], runs[kRuns];

    SINTER_DEVICE explicit HeldOfSlots(u32 stage) {
#pragma unroll
      for (int eight = 0; eight < kSlots / 8; ++eight) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const u32 at = stage + 32 * eight + 8 * (threadIdx.x % 4) + 4 * i;
          rows[eight][i] = kOfRows ? __uint_as_float(load_shared_word(at)) : 1.0f;
        }
      }
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        runs[run] =
            kOfWeights ? __uint_as_float(load_shared_word(stage + kRowsBytes + 4 * run)) : 1.0f;
      }
    }
    // sums += fresh, which are products of the columns of `run`.
    template <int kSums>
    SINTER_DEVICE void add(float (&sums)[kSums], const float (&fresh)[kSlots / 2], int run) const {
#pragma unroll
      for (int eight = 0; eight < kSlots / 8; ++eight) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float scale = rows[eight][i] * runs[run];
#pragma unroll
          for (int column = 0; column < 2; ++column) {
            float& sum = sums[4 * eight + 2 * column + i];
            const float more = fresh[4 * eight + 2 * column + i];
            sum = kPresent ? more * scale + sum : more + sum;
          }
        }
      }
    }
  };
};

// Of whole sums, the value of a slot's row; 1 where there is none.
template <class Config>
SINTER_DEVICE float row_scale(const float* scales, int slot) {
  if constexpr (Config::kRowScales == 1) {
    return scales[slot / Config::kSlots * Config::kRowScaleStride +
                  slot % Config::kSlots * Config::kRowScaleSlotStride];
  }
  return 1;
}
// The same of W's column `column`.
template <class Config>
SINTER_DEVICE float column_scale(const float* scales, int group, int column) {
  if constexpr (Config::kWeightScales == 1) {
    return scales[group * Config::kWeightScaleExpert + column * Config::kWeightScaleColumn];
  }
  return 1;
}

// What 128 elements of K are multiplied by where a thread sums a result alone, from `k` on.
template <class Config>
SINTER_DEVICE float group_scale(const float* of_rows, const float* of_weights, int slot, int expert,
                                int column, int k) {
  float scale = 1;
  if constexpr (Config::kRowScales == 2) {
    scale = of_rows[slot / Config::kSlots * Config::kRowScaleStride +
                    slot % Config::kSlots * Config::kRowScaleSlotStride +
                    k / 128 * Config::kRowScaleGroup];
  }
  if constexpr (Config::kWeightScales == 2) {
    scale *=
        of_weights[expert * Config::kWeightScaleExpert + column / 128 * Config::kWeightScaleColumn +
                   k / 128 * Config::kWeightScaleGroup];
  }
  return scale;
}

}  // namespace sinter
