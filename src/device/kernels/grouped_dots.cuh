// Grouped products without tensor cores: of what these do not take, and of so few rows that
// reading weights is all there is to do.
#pragma once
#include "kernels/grouped_operands.cuh"

namespace sinter {

// Any types, extents and strides of rows, one thread a result: correct, not fast.
template <class Config>
struct GroupedDots {
  static constexpr int kThreads = 128;
  static constexpr int kTilesN = ceil_div(Config::kN, kThreads);

  static SINTER_DEVICE void run(const GroupedOperands<Config>& o, int m) {
    using Ids = typename GroupsOf<Config>::Type;
    using Routing = GroupRouting<Config::kExperts, 1>;
    __shared__ typename Routing::Shared routing;  // by ends: tiles of one row
    const Ids ids(o);
    wait_for_predecessors();
    launch_dependents();
    if constexpr (Config::kByEnds) Routing::template count<kThreads>(routing, ids, m, [] {});
    const long long units = static_cast<long long>(m) * Config::kSlots * kTilesN;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x) {
      const int slot = static_cast<int>(unit / kTilesN);
      const int column =
          static_cast<int>(unit % kTilesN) * kThreads + static_cast<int>(threadIdx.x);
      if (column >= Config::kN) continue;
      int expert;
      if constexpr (Config::kByEnds) {
        expert = Routing::group_at(routing, slot);
      } else {
        expert = ids.at(slot);
      }
      const GroupedEnd<Config> end(o, slot);
      const bool there = static_cast<u32>(expert) < static_cast<u32>(Config::kExperts);
      float sum = 0, up = 0;
      if (there) {
        using Columns = GroupedColumns<Config>;
        const float scale = row_scale<Config>(o.row_scales, slot);
        sum = whole_sum(o, dot(o, slot, expert, column * Columns::kStep), scale, expert, column, 0);
        if constexpr (Columns::kPair) {
          up = whole_sum(o, dot(o, slot, expert, column * Columns::kStep + Columns::kUpAt), scale,
                         expert, column, Columns::kUpAt);
        }
      }
      float x = end.result_of(sum, up, there ? expert : Config::kExperts, column);
      if constexpr (Config::kCodes > 0) {  // a block has a group
        static_assert(Config::kN % kThreads == 0 && kThreads == 128, "columns are whole groups");
        __shared__ u32 of_warps[kThreads / 32];
        const u32 mine = warp_max(magnitude(x));
        __syncthreads();
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
        __syncthreads();
        const CodeScale code = GroupedEnd<Config>::scale_of(
            larger(larger(of_warps[0], of_warps[1]), larger(of_warps[2], of_warps[3])));
        if (threadIdx.x == 0) end.store_scale(column, code.scale);
        x *= code.inverse;
      }
      end.store_one(column, x);
    }
  }

 private:
  static SINTER_DEVICE float dot(const GroupedOperands<Config>& o, int slot, int expert,
                                 int column) {
    constexpr long long kStep = Config::kInputMajor ? Config::kWeightStride : 1;
    const auto* row =
        o.rows + slot_offset<Config>(slot, Config::kRowStride, Config::kRowSlotStride);
    const auto* weights = o.weights + expert * Config::kExpertStride +
                          (Config::kInputMajor ? column : column * Config::kWeightStride);
    const auto sum_of = [&](int first, int end) {
      float sums[8] = {};
      for (int k = first; k < end; k += 8) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          sums[i] = fmaf(Config::Rows::unpack(row[k + i]),
                         Config::Weights::unpack(weights[(k + i) * kStep]), sums[i]);
        }
      }
      return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
             ((sums[2] + sums[6]) + (sums[3] + sums[7]));
    };
    if constexpr (Config::kRowScales != 2 && Config::kWeightScales != 2) {
      return sum_of(0, Config::kK);
    }
    float sum = 0;
    for (int k = 0; k < Config::kK; k += 128) {
      sum = fmaf(sum_of(k, k + 128),
                 group_scale<Config>(o.row_scales, o.weight_scales, slot, expert, column, k), sum);
    }
    return sum;
  }
};

// Of rows of 16 bits or e4m3 and [experts, columns, k], a warp some neighbouring results of a slot.
// Each slot reads the matrix of its expert: all loads of the chip are on their way at once, of any
// number of columns.
template <class Config>
struct GroupedWarpDots {
  using Columns = GroupedColumns<Config>;
  using Element = typename Config::Weights;
  using Ids = typename GroupsOf<Config>::Type;
  static constexpr int kThreads = 256, kWarps = kThreads / 32;
  static constexpr int kAtOnce = 8;                   // loads of a lane that are on their way
  static constexpr int kOf = Columns::kPair ? 2 : 1;  // columns of W, of a result
  static constexpr int kSpan = 32 * Element::kVector;
  static constexpr int kVectors = ceil_div(Config::kK, kSpan);  // of a lane, of a column
  static constexpr int kColumns = kVectors * kOf < kAtOnce ? kAtOnce / (kVectors * kOf) : 1;
  static constexpr int kBatches = ceil_div(kVectors * kOf, kAtOnce);
  static constexpr int kBatch = ceil_div(kVectors, kBatches);
  // Batches of vectors that all lanes have, and the vectors behind them.
  static constexpr int kWhole = Config::kK / (kSpan * kBatch), kRest = kVectors - kWhole * kBatch;
  static constexpr int kTilesN = ceil_div(Config::kN, kColumns);
  // Whether the products of a vector are summed apart, and then have scales of 128 of K.
  static constexpr bool kScaled = Config::kRowScales == 2 || Config::kWeightScales == 2;
  static_assert(!Config::kByEnds && !Config::kInputMajor, "vectors of weights along K");
  static_assert(Config::kCodes == 0, "a warp has no 128 columns");

  static SINTER_DEVICE void run(const GroupedOperands<Config>& o, int m) {
    const Ids ids(o);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    bool waits = true;
    if constexpr (!Config::kEarly) wait(waits);
    const int slots = m * Config::kSlots, walkers = static_cast<int>(gridDim.x) * kWarps;
    const int walker = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
    const auto expert_of = [&](int slot) { return slot < slots ? ids.early_at(slot) : 0; };
    int slot = walker / kTilesN, tile = walker % kTilesN, expert = expert_of(slot);
    while (slot < slots) {
      int next = slot + walkers / kTilesN, next_tile = tile + walkers % kTilesN;
      if (next_tile >= kTilesN) {
        ++next;
        next_tile -= kTilesN;
      }
      const int next_expert = expert_of(next);
      const int first = tile * kColumns;
      const bool there = static_cast<u32>(expert) < static_cast<u32>(Config::kExperts);
      float sums[kColumns][kOf] = {};
      if (there) add(o, slot, expert, first, lane, waits, sums);
      wait(waits);
      float y = 0, up = 0;
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
#pragma unroll
        for (int of = 0; of < kOf; ++of) {
          const float sum = warp_total(sums[column][of]);
          if (lane == column) (of == 0 ? y : up) = sum;
        }
      }
      const int column = first + lane;
      if (lane < kColumns && column < Config::kN) {
        const GroupedEnd<Config> end(o, slot);
        if (there) {
          const float scale = row_scale<Config>(o.row_scales, slot);
          y = whole_sum(o, y, scale, expert, column, 0);
          if constexpr (kOf > 1) up = whole_sum(o, up, scale, expert, column, Columns::kUpAt);
        }
        end.store_one(column, end.result_of(y, up, there ? expert : Config::kExperts, column));
      }
      slot = next;
      tile = next_tile;
      expert = next_expert;
    }
  }

 private:
  // Once.
  static SINTER_DEVICE void wait(bool& waits) {
    if (!waits) return;
    wait_for_predecessors();
    launch_dependents();
    waits = false;
  }

  static SINTER_DEVICE float warp_total(float x) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, lanes);
    return x;
  }

  // Adds a lane's part of K.
  static SINTER_DEVICE void add(const GroupedOperands<Config>& o, int slot, int expert, int first,
                                int lane, bool& waits, float (&sums)[kColumns][kOf]) {
    int k = lane * Element::kVector;
#pragma unroll 1
    for (int batch = 0; batch < kWhole; ++batch, k += kBatch * kSpan) {
      add_vectors<kBatch, true>(o, slot, expert, first, k, waits, sums);
    }
    if constexpr (kRest > 0) {
      add_vectors<kRest, Config::kK % kSpan == 0>(o, slot, expert, first, k, waits, sums);
    }
  }

  // The next `kCount` vectors of a lane, from `k` on; some lanes have no last one unless all do.
  // Weights, which are complete, are asked for before rows are waited for.
  template <int kCount, bool kAllLanes>
  static SINTER_DEVICE void add_vectors(const GroupedOperands<Config>& o, int slot, int expert,
                                        int first, int k, bool& waits,
                                        float (&sums)[kColumns][kOf]) {
    const auto* const row =
        o.rows + slot_offset<Config>(slot, Config::kRowStride, Config::kRowSlotStride) + k;
    const auto* const weights = o.weights + expert * Config::kExpertStride +
                                first * Columns::kStep * Config::kWeightStride + k;
    const auto has_vector = [&](int i) {
      return kAllLanes || i + 1 < kCount || k + i * kSpan < Config::kK;
    };
    const auto has_column = [&](int column) {
      return Config::kN % kColumns == 0 || first + column < Config::kN;
    };
    const auto at = [](int column, int of) {  // of W, behind the first result's
      return column * Columns::kStep + (of == 0 ? 0 : Columns::kUpAt);
    };
    // The assembler moves no load across these barriers: a batch's weights are on their way
    // together, and registers hold one batch.
    __syncwarp();
    Word4 read[kCount][kColumns][kOf];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
#pragma unroll
        for (int of = 0; of < kOf; ++of) {
          read[i][column][of] = load(weights + at(column, of) * Config::kWeightStride + i * kSpan,
                                     has_vector(i) && has_column(column));
        }
      }
    }
    wait(waits);
    __syncwarp();
    float scales[kCount][kColumns][kOf];
    if constexpr (kScaled) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
#pragma unroll
        for (int column = 0; column < kColumns; ++column) {
#pragma unroll
          for (int of = 0; of < kOf; ++of) {
            const bool there = has_vector(i) && has_column(column);
            scales[i][column][of] =
                there ? group_scale<Config>(o.row_scales, o.weight_scales, slot, expert,
                                            first * Columns::kStep + at(column, of), k + i * kSpan)
                      : 0.0f;
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const Word4 x = load(row + i * kSpan, has_vector(i));
#pragma unroll
      for (int column = 0; column < kColumns; ++column) {
#pragma unroll
        for (int of = 0; of < kOf; ++of) {
          const Word4 w = read[i][column][of];
          float& sum = sums[column][of];
          const float before = kScaled ? 0.0f : sum;
          const float after = dot(x.x, w.x, dot(x.y, w.y, dot(x.z, w.z, dot(x.w, w.w, before))));
          sum = kScaled ? fmaf(after, scales[i][column][of], sum) : after;
        }
      }
    }
  }

  // Zeros of what is not `there`. Loads stay before what needs their results.
  template <class Stored>
  static SINTER_DEVICE Word4 load(const Stored* from, bool there) {
    if (!there) return {0, 0, 0, 0};
    return load_now(reinterpret_cast<const Word4*>(from));
  }
  static SINTER_DEVICE float dot(u32 x, u32 w, float sum) {
    using Pair = typename Element::Pair;
#pragma unroll
    for (int bits = 0; bits < 32; bits += 8 * static_cast<int>(sizeof(Pair))) {
      const Pair rows = static_cast<Pair>(x >> bits), weights = static_cast<Pair>(w >> bits);
      sum = fmaf(Element::low(rows), Element::low(weights), sum);
      sum = fmaf(Element::high(rows), Element::high(weights), sum);
    }
    return sum;
  }
};

}  // namespace sinter
