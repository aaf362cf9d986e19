// Products of rows with the matrices that ids name: result[slot] = W[id of slot] row of slot.
// Blocks are persistent: each walks the tiles of (slots of one expert) x (columns), columns first,
// so that an expert's matrix is read from memory once. How many tiles there are the device knows
// alone: a grid serves any routing.
//
// Rows lie where their slots say, so they are copied one by one; columns of weights too, in the
// order in which a thread then has eight neighbouring ones (permuted_column).
#pragma once
#include "kernels/grouped_routing.cuh"
#include "ptx/element.cuh"
#include "ptx/sync.cuh"
#include "ptx/wgmma.cuh"
#include "tile/activation.cuh"
#include "tile/layout.cuh"

namespace sinter {

// 16 bytes from global to shared memory; zeros of `bytes` 0, where nothing is read.
SINTER_DEVICE void copy_async(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
SINTER_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
SINTER_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// What codegen writes of a kernel as Config:
//   Rows, Weights, Result, Factor     element types
//   Activation                        of the gate; Identity
//   kExperts, kSlots, kN, kK          kN: columns of the result; kSlots: ids of a row
//   kGate                             0: no pair; of a pair W has 2 kN columns: 1 gate first, 2 up
//   kFactor                           whether results are multiplied by a number of each slot
//   kInputMajor                       W is [experts, k, n]
//   kBlockM, kBlockN, kStages
//   and, in elements: kRowStride, kRowSlotStride (0: slots share a row), kIdStride, kIdSlotStride,
//   kExpertStride, kWeightStride (of W's second dim), kFactorStride, kFactorSlotStride, kOutStride,
//   kOutSlotStride
template <class Config>
struct GroupedOperands {
  const typename Config::Rows::Stored* rows;
  const typename Config::Weights::Stored* weights;
  const int* ids;
  const typename Config::Factor::Stored* factors;
  typename Config::Result::Stored* out;
};

// Element offset of a slot where rows are `row_stride` and slots of a row `slot_stride` apart.
template <class Config>
SINTER_DEVICE long long slot_offset(int slot, long long row_stride, long long slot_stride) {
  return slot / Config::kSlots * row_stride + slot % Config::kSlots * slot_stride;
}

// From sums to stored results.
template <class Config>
struct GroupedEnd {
  using Result = typename Config::Result;
  const GroupedOperands<Config>& operands;
  int slot;
  float factor = 1;
  long long at;

  SINTER_DEVICE GroupedEnd(const GroupedOperands<Config>& o, int s) : operands(o), slot(s) {
    at = slot_offset<Config>(slot, Config::kOutStride, Config::kOutSlotStride);
    if constexpr (Config::kFactor) {
      factor = Config::Factor::unpack(operands.factors[slot_offset<Config>(
          slot, Config::kFactorStride, Config::kFactorSlotStride)]);
    }
  }

  SINTER_DEVICE float result(float sum, float up) const {
    float x = Config::Activation::apply(sum);
    if constexpr (Config::kGate != 0) x *= up;
    if constexpr (Config::kFactor) x *= factor;
    return x;
  }

  SINTER_DEVICE void store_one(int column, float x) const {
    if constexpr (Result::kBytes == 4) {
      operands.out[at + column] = x;
    } else {
      operands.out[at + column] = static_cast<typename Result::Stored>(Result::pack(x, 0.0f));
    }
  }

  // Eight neighbouring columns from a multiple of 8 on.
  SINTER_DEVICE void store(int column, const float (&x)[8]) const {
    constexpr bool kVectors =
        Config::kN % 8 == 0 && Config::kOutStride % 8 == 0 && Config::kOutSlotStride % 8 == 0;
    if constexpr (!kVectors) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (column + i < Config::kN) store_one(column + i, x[i]);
      }
    } else {
      if (column >= Config::kN) return;
      if constexpr (Result::kBytes == 4) {
        Float4* to = reinterpret_cast<Float4*>(operands.out + at + column);
        to[0] = {x[0], x[1], x[2], x[3]};
        to[1] = {x[4], x[5], x[6], x[7]};
      } else {
        *reinterpret_cast<Word4*>(operands.out + at + column) = {
            Result::pack(x[0], x[1]), Result::pack(x[2], x[3]), Result::pack(x[4], x[5]),
            Result::pack(x[6], x[7])};
      }
    }
  }
};

template <class Config>
struct GroupedProduct {
  using Element = typename Config::Weights;
  static constexpr int kBlockM = Config::kBlockM, kBlockN = Config::kBlockN;
  static constexpr int kWarpgroups = kBlockM / kWarpgroupRows, kThreads = 128 * kWarpgroups;
  static constexpr int kBlockK = Element::kSwizzleSpan;
  static constexpr int kSteps = ceil_div(Config::kK, kBlockK);
  static constexpr int kColumns = Config::kGate != 0 ? kBlockN / 2 : kBlockN;  // of the result
  static constexpr int kTilesN = ceil_div(Config::kN, kColumns);
  static constexpr int kRowsBytes = kBlockM * kRowBytes,
                       kStageBytes = kRowsBytes + kBlockN * kRowBytes;
  static constexpr int kAhead = Config::kStages - 2;  // two stages are with the tensor cores
  static constexpr int kRowsAtOnce = kThreads / 8;    // of 128 bytes, copied by one instruction
  static constexpr int kRowCopies = kBlockM / kRowsAtOnce, kWeightCopies = kBlockN / kRowsAtOnce;
  // Of W's columns, where gate and up begin.
  static constexpr int kGateAt = Config::kGate == 2 ? Config::kN : 0;
  static constexpr int kUpAt = Config::kGate == 1 ? Config::kN : 0;
  static constexpr int kSharedBytes = Config::kStages * kStageBytes + 1024;  // aligned by hand
  static_assert(Config::kStages >= 3, "a stage is loaded while two are multiplied");
  static_assert(Element::kBytes == 2 && kBlockN % 32 == 0, "columns are permuted in sets of 32");

  using Mma = Wgmma<kBlockN, Element, false, Config::kInputMajor>;
  using Routing = GroupRouting<Config::kExperts, kBlockM, kThreads>;
  using Ids = GroupIds<Config::kSlots, Config::kIdStride, Config::kIdSlotStride>;
  using Stored = typename Element::Stored;
  using Sums = float[kBlockN / 2];

  // What a thread copies of a tile.
  struct Sources {
    const Stored* rows[kRowCopies];  // null: no such row
    const Stored* weights;           // of the expert, its first column here
    int column;                      // of the result, of the tile's first
  };

  static SINTER_DEVICE void run(const GroupedOperands<Config>& o, int m) {
    extern __shared__ unsigned char raw[];
    __shared__ typename Routing::Shared shared;
    const u32 ring = (shared_address(raw) + 1023u) & ~1023u;
    const int total = m * Config::kSlots;
    const Ids ids{o.ids};
    wait_for_predecessors();
    Routing::count(shared, ids, total);
    const int units = shared.first_tile[Routing::kGroups] * kTilesN;
    int tile = -1, group = 0, count = 0;
    for (int unit = static_cast<int>(blockIdx.x); unit < units;
         unit += static_cast<int>(gridDim.x)) {
      __syncthreads();  // the stages and the slots of the tile before are free
      if (unit / kTilesN != tile) {
        tile = unit / kTilesN;
        group = Routing::group_at(shared, tile);
        count =
            Routing::take(shared, ids, total, group, (tile - shared.first_tile[group]) * kBlockM);
      }
      if (unit + static_cast<int>(gridDim.x) >= units) launch_dependents();
      const int column = unit % kTilesN * kColumns;
      Sums sums;
#pragma unroll
      for (float& sum : sums) sum = 0;
      if (group < Config::kExperts) multiply(o, ring, shared.slots, group, count, column, sums);
      store(o, shared.slots, count, column, sums);
    }
  }

 private:
  static SINTER_DEVICE void multiply(const GroupedOperands<Config>& o, u32 ring, const int* slots,
                                     int group, int count, int column, Sums& sums) {
    Sources from;
#pragma unroll
    for (int i = 0; i < kRowCopies; ++i) {
      const int row = static_cast<int>(threadIdx.x) / 8 + i * kRowsAtOnce;
      from.rows[i] = row < count ? o.rows + slot_offset<Config>(slots[row], Config::kRowStride,
                                                                Config::kRowSlotStride)
                                 : nullptr;
    }
    from.weights = o.weights + group * Config::kExpertStride;
    from.column = column;
#pragma unroll
    for (int step = 0; step < kAhead; ++step) {
      if (step < kSteps) load(from, ring + step * kStageBytes, step);
      commit_copies();
    }
    int stage = 0, free = kAhead;
    const int warpgroup = static_cast<int>(uniform(threadIdx.x / 128));
    for (int step = 0; step < kSteps; ++step) {
      wait_for_copies<kAhead - 1>();
      fence_proxy_async_shared();
      wgmma_wait<1>();  // of the step before the last, whose stage is loaded below
      __syncthreads();
      issue(ring + stage * kStageBytes, warpgroup, step > 0, sums);
      if (step + kAhead < kSteps) load(from, ring + free * kStageBytes, step + kAhead);
      commit_copies();
      stage = stage + 1 == Config::kStages ? 0 : stage + 1;
      free = free + 1 == Config::kStages ? 0 : free + 1;
    }
    wgmma_wait<0>();
  }

  static SINTER_DEVICE void issue(u32 stage, int warpgroup, bool more, Sums& sums) {
    const u32 at = uniform(stage);
    const u32 weights = at + kRowsBytes;
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockK / Element::kWgmmaK; ++step) {
      const u64 a = descriptor(at + k_major_step(kBlockM, warpgroup * kWarpgroupRows, step),
                               kKMajorLeading, kKMajorStride);
      u64 b;
      if constexpr (Config::kInputMajor) {
        b = descriptor(weights + n_major_step<Element>(kBlockK, 0, step), n_major_leading(kBlockK),
                       kNMajorStride);
      } else {
        b = descriptor(weights + k_major_step(kBlockN, 0, step), kKMajorLeading, kKMajorStride);
      }
      Mma::mma(sums, a, b, more || step != 0);
    }
    wgmma_commit();
  }

  static SINTER_DEVICE void load(const Sources& from, u32 stage, int step) {
    const int chunk = static_cast<int>(threadIdx.x) % 8, first = static_cast<int>(threadIdx.x) / 8;
    const int k = step * kBlockK + chunk * Element::kVector;
    const bool inside = Config::kK % kBlockK == 0 || k < Config::kK;
#pragma unroll
    for (int i = 0; i < kRowCopies; ++i) {
      if (from.rows[i] == nullptr) continue;  // what is multiplied there is not stored
      const int row = first + i * kRowsAtOnce;
      copy_async(stage + swizzled_offset<Element>(kBlockM, row, chunk * Element::kVector),
                 inside ? from.rows[i] + k : from.rows[i], inside ? 16 : 0);
    }
    if constexpr (Config::kInputMajor) {
      load_input_major(from, stage + kRowsBytes, step);
    } else {
#pragma unroll
      for (int i = 0; i < kWeightCopies; ++i) {
        const int place = first + i * kRowsAtOnce;
        const int half = place / kColumns, within = place % kColumns;
        // permuted_column's inverse, of a row of the stage.
        const int column = within / kPermutedSet * kPermutedSet + within % 8 / 2 * 8 +
                           within % kPermutedSet / 8 * 2 + within % 2 + from.column;
        if (Config::kN % kColumns != 0 && column >= Config::kN) continue;
        const Stored* source =
            from.weights + (column + (half == 0 ? kGateAt : kUpAt)) * Config::kWeightStride;
        copy_async(
            stage + kRowsBytes + swizzled_offset<Element>(kBlockN, place, chunk * Element::kVector),
            inside ? source + k : source, inside ? 16 : 0);
      }
    }
  }

  // W is [k, n] of each expert: 64 columns of kBlockK rows follow one another.
  static SINTER_DEVICE void load_input_major(const Sources& from, u32 stage, int step) {
    constexpr int kChunks = kBlockN / Element::kVector;
#pragma unroll
    for (int i = 0; i < kBlockK * kChunks / kThreads; ++i) {
      const int index = static_cast<int>(threadIdx.x) + i * kThreads;
      const int row = index / kChunks, place = index % kChunks * Element::kVector;
      const int k = step * kBlockK + row, half = place / kColumns;
      const int column = place % kColumns + from.column;
      if (Config::kN % kColumns != 0 && column >= Config::kN) continue;
      const bool inside = Config::kK % kBlockK == 0 || k < Config::kK;
      const Stored* source = from.weights + column + (half == 0 ? kGateAt : kUpAt);
      copy_async(stage + swizzled_offset<Element>(kBlockK, row, place),
                 inside ? source + k * Config::kWeightStride : source, inside ? 16 : 0);
    }
  }

  static SINTER_DEVICE void store(const GroupedOperands<Config>& o, const int* slots, int count,
                                  int column, const Sums& sums) {
    constexpr int kUpGroups = Config::kGate != 0 ? kColumns / 8 : 0;  // column groups before up's
    const int thread = static_cast<int>(threadIdx.x) % 128;
    const int first =
        static_cast<int>(threadIdx.x) / 128 * kWarpgroupRows + accumulator_row(thread);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 8 * half;
      if (row >= count) continue;
      const GroupedEnd<Config> end(o, slots[row]);
      const auto value = [&](int group, int i) {
        return end.result(sums[4 * group + 2 * half + i],
                          sums[4 * (group + kUpGroups) + 2 * half + i]);
      };
      if constexpr (Config::kInputMajor) {
#pragma unroll
        for (int group = 0; group < kColumns / 8; ++group) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int at = column + accumulator_column(thread, group) + i;
            if (at < Config::kN) end.store_one(at, value(group, i));
          }
        }
      } else {
#pragma unroll
        for (int set = 0; set < kColumns / kPermutedSet; ++set) {
          float x[8];
#pragma unroll
          for (int i = 0; i < 8; ++i) x[i] = value(4 * set + i / 2, i % 2);
          end.store(column + permuted_column(thread, 4 * set), x);
        }
      }
    }
  }
};

// The same for any types, extents and strides of rows, one thread a result: correct, not fast.
template <class Config>
struct GroupedDots {
  static constexpr int kThreads = 128;
  static constexpr int kTilesN = ceil_div(Config::kN, kThreads);

  static SINTER_DEVICE void run(const GroupedOperands<Config>& o, int m) {
    const GroupIds<Config::kSlots, Config::kIdStride, Config::kIdSlotStride> ids{o.ids};
    wait_for_predecessors();
    launch_dependents();
    const long long units = static_cast<long long>(m) * Config::kSlots * kTilesN;
    for (long long unit = blockIdx.x; unit < units; unit += gridDim.x) {
      const int slot = static_cast<int>(unit / kTilesN);
      const int column =
          static_cast<int>(unit % kTilesN) * kThreads + static_cast<int>(threadIdx.x);
      if (column >= Config::kN) continue;
      const int expert = ids.at(slot);
      const GroupedEnd<Config> end(o, slot);
      float sum = 0, up = 0;
      if (static_cast<u32>(expert) < static_cast<u32>(Config::kExperts)) {
        sum = dot(o, slot, expert, column + (Config::kGate == 2 ? Config::kN : 0));
        if constexpr (Config::kGate != 0) {
          up = dot(o, slot, expert, column + (Config::kGate == 1 ? Config::kN : 0));
        }
      }
      end.store_one(column, end.result(sum, up));
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
    float sums[8] = {};
    for (int k = 0; k < Config::kK; k += 8) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sums[i] = fmaf(Config::Rows::unpack(row[k + i]),
                       Config::Weights::unpack(weights[(k + i) * kStep]), sums[i]);
      }
    }
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  }
};

}  // namespace sinter
