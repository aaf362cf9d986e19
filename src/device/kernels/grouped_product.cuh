// Products of rows with the matrices that ids name: result[slot] = W[id of slot] row of slot.
// Blocks are persistent: each walks the tiles of (slots of one expert) x (columns), columns first,
// so that an expert's matrix is read from memory once. How many tiles there are the device knows
// alone: a grid serves any routing.
//
// Rows lie where their slots say, so they are copied one by one; columns of weights too, in the
// order in which a thread then has eight neighbouring ones (permuted_column).
#pragma once
#include "kernels/grouped_operands.cuh"
#include "pipeline/ring.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

namespace sinter {

// One warpgroup copies, kBlockM / 64 others multiply and store; stages and the slots of tiles go
// from one to the others, so that copies run ahead into the next tile.
template <class Config>
struct GroupedProduct {
  using Element = typename Config::Weights;
  static constexpr int kBlockM = Config::kBlockM, kBlockN = Config::kBlockN;
  static constexpr int kStages = Config::kStages;
  static constexpr int kConsumers = kBlockM / kWarpgroupRows, kThreads = 128 * (kConsumers + 1);
  static constexpr int kConsumerWarps = 4 * kConsumers;
  static constexpr int kBlockK = Element::kSwizzleSpan;
  static constexpr int kSteps = ceil_div(Config::kK, kBlockK);
  using Columns = GroupedColumns<Config>;
  using Program = typename Config::Program;
  static constexpr int kColumns = Columns::kPair ? kBlockN / 2 : kBlockN;  // of the result
  // W's columns that lie side by side: of a tile, and of an expert.
  static constexpr int kBeside = Columns::kHalves ? kBlockN / 2 : kBlockN;
  static constexpr int kAllBeside = Columns::kHalves ? Config::kN : Columns::kAll;
  static constexpr int kTilesN = ceil_div(Config::kN, kColumns);
  static constexpr int kRowsBytes = kBlockM * kRowBytes;
  static constexpr int kStageBytes = kRowsBytes + kBlockN * kRowBytes;
  static constexpr int kRowsAtOnce = 16;  // of 128 bytes, copied by one instruction of 128 threads
  static constexpr int kRowCopies = kBlockM / kRowsAtOnce, kWeightCopies = kBlockN / kRowsAtOnce;
  static constexpr int kUpAt =
      Columns::kHalves ? Columns::kUpAt : 0;  // where the second half begins
  using Scales = StageScales<Config, kBlockM, kBlockN, kBeside>;
  static constexpr int kSharedBytes =
      kStages * (kStageBytes + Scales::kBytes) + 1024;  // aligned by hand
  // Sums of a stage that are added in f32, in so many parts of the columns.
  static constexpr int kParts = Element::kPromoted && kBlockN > 64 ? 2 : 1;
  static constexpr bool kManyRegisters = kConsumers == 2 && kBlockN == 256;
  static_assert(!Config::kMapped || (!Config::kInputMajor && kAllBeside % kPermutedSet == 0),
                "a map has whole sets of columns");
  static_assert(kStages >= 3, "a stage is loaded while two are multiplied");
  static_assert(kBeside % 32 == 0, "columns are permuted in sets of 32");
  static_assert(Element::kPromoted || !Scales::kPresent, "scales of K are of promoted sums");

  using Mma = Wgmma<kBlockN / kParts, Element, false, Config::kInputMajor>;
  using Routing = GroupRouting<Config::kExperts, kBlockM>;
  using Ids = typename GroupsOf<Config>::Type;
  using Stored = typename Element::Stored;
  using Sums = float[kBlockN / 2];

  struct Tile {
    int slots[kBlockM];
    int count, group;
  };
  struct Shared {
    u64 full[kStages], empty[kStages];  // stages: copied; multiplied
    u64 ready[2], taken[2];             // tiles: slots are there; read
    Tile tiles[2];
    typename Routing::Shared routing;
  };

  // The block's. Copies wait while slots are found: pieces are long.
  using Units = UnitWalk<kTilesN, kSteps, 64>;
  struct Walk : Units {
    SINTER_DEVICE explicit Walk(int units)
        : Units(units, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x)) {}
  };

  static SINTER_DEVICE void run(const GroupedOperands<Config>& o, int m) {
    extern __shared__ unsigned char raw[];
    __shared__ Shared shared;
    const u32 ring = (shared_address(raw) + 1023u) & ~1023u;
    const int total = m * Config::kSlots;
    const Ids ids(o);
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        mbarrier_init(shared_address(&shared.full[stage]), Config::kMapped ? 129 : 128);
        mbarrier_init(shared_address(&shared.empty[stage]), kConsumerWarps);
      }
      for (int tile = 0; tile < 2; ++tile) {
        mbarrier_init(shared_address(&shared.ready[tile]), 1);
        mbarrier_init(shared_address(&shared.taken[tile]), kConsumerWarps);
      }
      mbarrier_init_fence();
    }
    Routing::template count<kThreads>(shared.routing, ids, total, [] {
      if constexpr (!Config::kEarly) wait_for_predecessors();
    });
    const int units = shared.routing.first_tile[Routing::kGroups] * kTilesN;
    if (threadIdx.x >= 128 * kConsumers) {
      if constexpr (kManyRegisters) registers_decrease<56>();
      int ahead = 0;
      if (threadIdx.x == 128 * kConsumers) ahead = load_ahead(o, shared, ring, units);
      __syncwarp();
      if constexpr (Config::kEarly) wait_for_predecessors();
      produce(o, shared, ring, ids, total, units, ahead);
    } else {
      if constexpr (kManyRegisters) registers_increase<224>();
      if constexpr (Config::kEarly) wait_for_predecessors();
      consume(o, shared, ring, units);
    }
  }

 private:
  // ---------------------------------------------------------------- copies

  // What a thread copies of a tile.
  struct Sources {
    const Stored* rows[kRowCopies];  // null: no such row
    const Stored* weights;           // of the expert
    int column;                      // of W, of the tile's first
    int set;                         // of 32 columns of all experts' weights, of the expert's first
    typename Scales::Sources scales;
  };

  // Loads weights into all stages, of as many units as these take, while slots are not found yet;
  // how many stages it filled.
  static SINTER_DEVICE int load_ahead(const GroupedOperands<Config>& o, Shared& shared, u32 ring,
                                      int units) {
    int stages = 0;
    if constexpr (Config::kMapped) {
      Sources from;
      for (Walk walk(units); walk.more() && stages < kStages; walk.next()) {
        const int group = Routing::group_at(shared.routing, walk.unit / kTilesN);
        if (group == Config::kExperts) continue;
        from.set = group * (Columns::kAll / kPermutedSet);
        from.column = walk.column() * kBeside;
#pragma unroll 1
        for (int step = 0; step < kSteps && stages < kStages; ++step, ++stages) {
          load_mapped(from, o.map, ring + stages * kStageBytes + kRowsBytes, step,
                      shared_address(&shared.full[stages]));
        }
      }
    }
    return stages;
  }

  // `ahead`: stages whose weights are on their way.
  static SINTER_DEVICE void produce(const GroupedOperands<Config>& o, Shared& shared, u32 ring,
                                    const Ids& ids, int total, int units, int ahead) {
    const int thread = static_cast<int>(threadIdx.x) - 128 * kConsumers;
    Sources from;
    Cursor<kStages> at;
    int group = 0;
    for (Walk walk(units); walk.more(); walk.next()) {
      if (walk.begins_tile()) {
        group = Routing::group_at(shared.routing, walk.tile);
        Tile& next = shared.tiles[walk.buffer()];
        mbarrier_wait(shared_address(&shared.taken[walk.buffer()]), 1 - walk.parity());
        const int count = Routing::take(shared.routing, next.slots, thread, ids, total, group,
                                        (walk.tile - shared.routing.first_tile[group]) * kBlockM);
        if (thread == 0) {
          next.count = count;
          next.group = group;
          mbarrier_arrive(shared_address(&shared.ready[walk.buffer()]));
        }
#pragma unroll
        for (int i = 0; i < kRowCopies; ++i) {
          const int row = thread / 8 + i * kRowsAtOnce;
          from.rows[i] = row < count
                             ? o.rows + slot_offset<Config>(next.slots[row], Config::kRowStride,
                                                            Config::kRowSlotStride)
                             : nullptr;
        }
        if constexpr (Scales::kOfRows) {
          from.scales.row =
              thread < count
                  ? o.row_scales + slot_offset<Config>(next.slots[thread], Config::kRowScaleStride,
                                                       Config::kRowScaleSlotStride)
                  : nullptr;
        }
        from.weights = o.weights + group * Config::kExpertStride;
        from.set = group * (Columns::kAll / kPermutedSet);
      }
      if (walk.is_last()) launch_dependents();
      if (group == Config::kExperts) continue;
      from.column = walk.column() * kBeside;
      Scales::run_of(from.scales, o.weight_scales, thread, group, from.column, kUpAt);
      for (int step = 0; step < kSteps; ++step) {
        mbarrier_wait(shared_address(&shared.empty[at.stage]), 1 - at.parity);
        const u32 full = shared_address(&shared.full[at.stage]), to = ring + at.stage * kStageBytes;
        if constexpr (Config::kMapped) {
          if (thread == 0 && --ahead < 0) load_mapped(from, o.map, to + kRowsBytes, step, full);
        }
        load(from, to, step, thread);
        Scales::copy(from.scales, ring + kStages * kStageBytes + at.stage * Scales::kBytes, step,
                     thread);
        arrive_with_copies(full);
        at.advance();
      }
    }
  }

  static SINTER_DEVICE void load(const Sources& from, u32 stage, int step, int thread) {
    const int chunk = thread % 8, first = thread / 8;
    const int k = step * kBlockK + chunk * Element::kVector;
    const bool inside = Config::kK % kBlockK == 0 || k < Config::kK;
    const u32 to = stage + swizzled_offset<Element>(kBlockM, first, chunk * Element::kVector);
#pragma unroll
    for (int i = 0; i < kRowCopies; ++i) {
      if (from.rows[i] == nullptr) continue;  // what is multiplied there is not stored
      copy_async(to + i * kRowsAtOnce * kRowBytes, inside ? from.rows[i] + k : from.rows[i],
                 inside ? 16 : 0);
    }
    if constexpr (Config::kMapped) {
      return;
    } else if constexpr (Config::kInputMajor) {
      load_input_major(from, stage + kRowsBytes, step, thread);
    } else {
      // permuted_column's inverse: 16 rows of a stage further on are 4 columns, 32 rows 32.
      const int column = from.column + first % 8 / 2 * 8 + first / 8 * 2 + first % 2;
      const Stored* source = from.weights + column * Config::kWeightStride + (inside ? k : 0);
#pragma unroll
      for (int i = 0; i < kWeightCopies; ++i) {
        const int half = i * kRowsAtOnce / kBeside, within = i * kRowsAtOnce % kBeside;
        const int further = within / kPermutedSet * kPermutedSet + i % 2 * 4;
        if (kAllBeside % kBeside != 0 && column + further >= kAllBeside) continue;
        copy_async(to + kRowsBytes + i * kRowsAtOnce * kRowBytes,
                   source + (further + (half == 0 ? 0 : kUpAt)) * Config::kWeightStride,
                   inside ? 16 : 0);
      }
    }
  }

  // Columns behind the expert's last are another's, and are not stored.
  static SINTER_DEVICE void load_mapped(const Sources& from, const TensorMap* map, u32 to, int step,
                                        u32 full) {
    const int set = from.set + from.column / kPermutedSet;
    mbarrier_arrive_expect(full, kBlockN * kRowBytes);
    tma_load(to, map, PermutedPlace{step * kBlockK, set}, full);
    if constexpr (Columns::kHalves) {
      tma_load(to + kBeside * kRowBytes, map,
               PermutedPlace{step * kBlockK, set + kUpAt / kPermutedSet}, full);
    }
  }

  // W is [k, n] of each expert: 64 columns of kBlockK rows follow one another.
  static SINTER_DEVICE void load_input_major(const Sources& from, u32 stage, int step, int thread) {
    constexpr int kChunks = kBlockN / Element::kVector;
    const int place = thread % kChunks * Element::kVector, half = place / kBeside;
    const int column = place % kBeside + from.column;
    if (kAllBeside % kBeside != 0 && column >= kAllBeside) return;
    const Stored* source = from.weights + column + (half == 0 ? 0 : kUpAt);
#pragma unroll
    for (int i = 0; i < kBlockK * kChunks / 128; ++i) {
      const int row = thread / kChunks + i * (128 / kChunks);
      const int k = step * kBlockK + row;
      const bool inside = Config::kK % kBlockK == 0 || k < Config::kK;
      copy_async(stage + swizzled_offset<Element>(kBlockK, row, place),
                 inside ? source + k * Config::kWeightStride : source, inside ? 16 : 0);
    }
  }

  // ---------------------------------------------------------------- products

  static SINTER_DEVICE void consume(const GroupedOperands<Config>& o, Shared& shared, u32 ring,
                                    int units) {
    const u32 first_lane = threadIdx.x % 32 == 0;
    const int warpgroup = static_cast<int>(uniform(threadIdx.x / 128));
    Cursor<kStages> at;
    int group = 0, count = 0;
    for (Walk walk(units); walk.more(); walk.next()) {
      const u32 last = walk.buffer();
      if (walk.begins_tile()) {
        if (walk.tiles > 1) {
          __syncwarp();
          arrive_if(shared_address(&shared.taken[last]), first_lane);
        }
        mbarrier_wait(shared_address(&shared.ready[walk.buffer()]), walk.parity());
        count = shared.tiles[walk.buffer()].count;
        group = shared.tiles[walk.buffer()].group;
      }
      Sums sums;
#pragma unroll
      for (float& sum : sums) sum = 0;
      if (group < Config::kExperts) {
        u32 before = 0;
        for (int step = 0; step < kSteps; ++step) {
          mbarrier_wait(shared_address(&shared.full[at.stage]), at.parity);
          fence_proxy_async_shared();  // the copies were ordinary writes
          if constexpr (Element::kPromoted) {
            promote(ring, at.stage, warpgroup, shared_address(&shared.empty[at.stage]), first_lane,
                    sums);
          } else {
            issue(ring + at.stage * kStageBytes, warpgroup, 0, step > 0, sums);
            wgmma_wait<1>();
            arrive_if(before, step > 0 ? first_lane : 0);
            before = shared_address(&shared.empty[at.stage]);
          }
          at.advance();
        }
        if constexpr (!Element::kPromoted) {
          wgmma_wait<0>();
          arrive_if(before, first_lane);
        }
      }
      const int* const slots = shared.tiles[walk.buffer()].slots;
      if constexpr (Config::kCodes > 0) {
        store_codes(o, slots, count, group, walk.column() * kColumns, sums);
      } else {
        store(o, slots, count, group, walk.column() * kColumns, sums);
      }
    }
  }

  // Adds a stage's products in f32, which the tensor cores sum apart, and gives the stage back.
  static SINTER_DEVICE void promote(u32 ring, int stage, int warpgroup, u32 empty, u32 first_lane,
                                    Sums& sums) {
    constexpr int kPart = kBlockN / 2 / kParts;
    const typename Scales::Held scales(
        ring + kStages * kStageBytes + stage * Scales::kBytes,
        warpgroup * kWarpgroupRows + accumulator_row(static_cast<int>(threadIdx.x) % 128));
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      float fresh[kPart];
      issue(ring + stage * kStageBytes, warpgroup, part * (kBlockN / kParts), false, fresh);
      wgmma_wait<0>();
      if (part + 1 == kParts) {
        __syncwarp();  // all lanes have read the scales
        arrive_if(empty, first_lane);
      }
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        float& sum = sums[part * kPart + i];
        sum = Scales::kPresent ? fresh[i] * scales.at(part * kPart + i) + sum : fresh[i] + sum;
      }
    }
  }

  // Of the tile's columns from `column` on.
  static SINTER_DEVICE void issue(u32 stage, int warpgroup, int column, bool more,
                                  float (&sums)[kBlockN / 2 / kParts]) {
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
        b = descriptor(weights + k_major_step(kBlockN, column, step), kKMajorLeading,
                       kKMajorStride);
      }
      Mma::mma(sums, a, b, more || step != 0);
    }
    wgmma_commit();
  }

  // Of a thread's i-th of two accumulators of eight columns, which are neighbours, of its upper or
  // lower row: the result of `at`, its column. In turns, the two are of y and of up.
  static SINTER_DEVICE float result_of(const GroupedOperands<Config>& o,
                                       const GroupedEnd<Config>& end, float row, const Sums& sums,
                                       int half, int set, int i, int group, int at, float element) {
    constexpr int kUpGroups = Columns::kHalves ? kColumns / 8 : 0;  // eights of columns before up's
    const bool inside = Config::kN % kColumns == 0 || at < Config::kN;
    const float* const pair = &sums[4 * set + 2 * half];
    const float y = pair[Columns::kInTurns ? 0 : i];
    const float up =
        Columns::kInTurns ? pair[Columns::kUpAt] : sums[4 * (set + kUpGroups) + 2 * half + i];
    return end.result(
        whole_sum(o, y, row, group, at, 0, inside),
        Columns::kPair ? whole_sum(o, up, row, group, at, Columns::kUpAt, inside) : up,
        inside ? end.terms(o, group, at) : typename Program::Terms{}, element);
  }

  static constexpr int kStep = Columns::kStep, kMine = 8 / kStep;

  // Of a set of 32 of W's columns a thread has eight, neighbours: their results, `at` the first.
  static SINTER_DEVICE void results_of(const GroupedOperands<Config>& o,
                                       const GroupedEnd<Config>& end, float row, const Sums& sums,
                                       int half, int set, int group, int at, float (&x)[kMine]) {
    float elements[kMine];
    end.elements(at, elements);
#pragma unroll
    for (int i = 0; i < 8; i += kStep) {
      x[i / kStep] = result_of(o, end, row, sums, half, 4 * set + i / 2, i % 2, group,
                               at + i / kStep, elements[i / kStep]);
    }
  }
  static SINTER_DEVICE int column_of(int set) {
    return permuted_column(static_cast<int>(threadIdx.x) % 128, 4 * set) / kStep;
  }

  // Calls each(half, row) for a thread's two rows of the tile.
  template <class Each>
  static SINTER_DEVICE void for_each_row(const Each& each) {
    const int first = static_cast<int>(threadIdx.x) / 128 * kWarpgroupRows +
                      accumulator_row(static_cast<int>(threadIdx.x) % 128);
#pragma unroll
    for (int half = 0; half < 2; ++half) each(half, first + 8 * half);
  }

  // As codes: four lanes have a row's results.
  static SINTER_DEVICE void store_codes(const GroupedOperands<Config>& o, const int* slots,
                                        int count, int group, int column, const Sums& sums) {
    constexpr int kSets = 128 / (kMine * 4);  // of W's 32 columns, in a group
    static_assert(kColumns % 128 == 0 && Config::kN % 128 == 0 && !Config::kInputMajor,
                  "a tile has whole groups");
    for_each_row([&](int half, int row) {
      const bool there = row < count;
      const GroupedEnd<Config> end(o, slots[there ? row : 0]);
      const float scale = row_scale<Config>(o.row_scales, end.slot);
#pragma unroll
      for (int of = 0; of < kColumns / 128; ++of) {
        const int begin = column + 128 * of;
        if (begin >= Config::kN) break;
        float x[kSets][kMine];
        u32 largest = 0;
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
          results_of(o, end, scale, sums, half, of * kSets + set, group, begin + column_of(set),
                     x[set]);
#pragma unroll
          for (const float value : x[set]) largest = larger(largest, magnitude(value));
        }
        largest = larger(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
        largest = larger(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
        if (!there) continue;
        const CodeScale code = GroupedEnd<Config>::scale_of(largest);
        if (threadIdx.x % 4 == 0) end.store_scale(begin, code.scale);
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
#pragma unroll
          for (float& value : x[set]) value *= code.inverse;
          end.store(begin + column_of(set), x[set]);
        }
      }
    });
  }

  static SINTER_DEVICE void store(const GroupedOperands<Config>& o, const int* slots, int count,
                                  int group, int column, const Sums& sums) {
    for_each_row([&](int half, int row) {
      if (row >= count) return;
      const GroupedEnd<Config> end(o, slots[row]);
      const float scale = row_scale<Config>(o.row_scales, slots[row]);
      if constexpr (Config::kInputMajor) {
        const int thread = static_cast<int>(threadIdx.x) % 128;
#pragma unroll
        for (int set = 0; set < kBeside / 8; ++set) {
#pragma unroll
          for (int i = 0; i < 2; i += kStep) {
            const int at = column + (accumulator_column(thread, set) + i) / kStep;
            if (at < Config::kN) {
              float element[1];
              end.elements(at, element);
              end.store_one(at,
                            result_of(o, end, scale, sums, half, set, i, group, at, element[0]));
            }
          }
        }
      } else {
#pragma unroll
        for (int set = 0; set < kBeside / kPermutedSet; ++set) {
          float x[kMine];
          results_of(o, end, scale, sums, half, set, group, column + column_of(set), x);
          end.store(column + column_of(set), x);
        }
      }
    });
  }
};

}  // namespace sinter
