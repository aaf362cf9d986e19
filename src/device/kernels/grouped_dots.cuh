// Grouped products of what tensor cores do not take.
#pragma once
#include "kernels/grouped_product.cuh"

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
      float sum = 0, up = 0;
      if (static_cast<u32>(expert) < static_cast<u32>(Config::kExperts)) {
        using Columns = GroupedColumns<Config>;
        const float scale = row_scale<Config>(o.row_scales, slot);
        sum = whole_sum(o, dot(o, slot, expert, column * Columns::kStep + Columns::kGateAt), scale,
                        expert, column, Columns::kGateAt);
        if constexpr (Columns::kPair) {
          up = whole_sum(o, dot(o, slot, expert, column * Columns::kStep + Columns::kUpAt), scale,
                         expert, column, Columns::kUpAt);
        }
      }
      float x = end.result(sum, up);
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

}  // namespace sinter
