// Grouped products of many rows, with swapped operands: the weights' columns are the rows of wgmma
// and an expert's slots its columns, of which a tile has any multiple of 16. So no expert's last
// tile is mostly empty. A cluster of two blocks has two tiles of slots of one expert, equal but for
// the last, and the same columns of W: each block loads half of these for both. A block alone has
// one tile and loads all of its columns.
//
// Clusters are persistent and walk the tiles in turns. Experts with the largest tiles come first,
// so that clusters that walk equally many of them end together.
#pragma once
#include "kernels/grouped_operands.cuh"
#include "kernels/swapped_routing.cuh"
#include "pipeline/ring.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

namespace sinter {

// Config as of GroupedProduct, and kBlocks, 1 or 2; kBlockM is of a block. W comes by a tensor map
// whose boxes permute each 16 columns: row 8 i + j of a box is column 2 j + i.
template <class Config>
struct GroupedSwapped {
  using Element = typename Config::Weights;
  static constexpr int kBlockM = Config::kBlockM, kBlockN = Config::kBlockN;
  static constexpr int kStages = Config::kStages;
  // Two warpgroups multiply, one copies rows; of the last one a warp loads weights, three find
  // the slots of the tiles to come.
  static constexpr int kConsumers = 2, kThreads = 512;
  static constexpr int kConsumerWarps = 4 * kConsumers, kCopierWarps = 4, kFinders = 96;
  static constexpr int kSets = 2;            // of 64 columns that a warpgroup has
  static constexpr int kHalf = kBlockN / 2;  // columns of a set of both warpgroups
  static constexpr int kBlocks = Config::kBlocks;
  static constexpr int kBlockK = Element::kSwizzleSpan;
  static constexpr int kSteps = ceil_div(Config::kK, kBlockK);
  using Columns = GroupedColumns<Config>;
  using Program = typename Config::Program;
  static constexpr int kColumns = Columns::kPair ? kHalf : kBlockN;   // of the result
  static constexpr int kBeside = Columns::kHalves ? kHalf : kBlockN;  // of W, of a tile
  static constexpr int kTilesN = ceil_div(Config::kN, kColumns);
  static constexpr int kRowsBytes = kBlockM * kRowBytes, kHalfBytes = kHalf * kRowBytes;
  static constexpr int kStageBytes = kRowsBytes + 2 * kHalfBytes;
  static constexpr int kRowsAtOnce = 16, kRowCopies = kBlockM / kRowsAtOnce;
  using Scales = StageScales<Config, kBlockM, kBlockN, kBeside>;
  static constexpr int kSharedBytes =
      kStages * (kStageBytes + Scales::kBytes) + 1024;  // aligned by hand
  static constexpr int kPermuted = 16;                  // columns
  // What the map has of an expert: both halves of a pair apart, or one matrix.
  static constexpr int kMatrices = Columns::kHalves ? 2 : 1;
  static_assert(Config::kMapped && !Config::kInputMajor &&
                    (Columns::kHalves ? Config::kN : Columns::kAll) % kPermuted == 0,
                "a map has whole sets of columns");
  static_assert(kBlockN == 256 && kBlockM <= (Element::kPromoted ? 64 : 128) && kStages >= 3,
                "two warpgroups have 64 columns of each half, and registers for their sums");
  static_assert(!Scales::kPresent || (Element::kPromoted && Scales::kRuns == kSets),
                "scales of K are of promoted sums, and each set of columns has one value of them");

  using Routing = SwappedRouting<Config::kExperts, kBlockM, kBlocks>;
  using Ids = typename GroupsOf<Config>::Type;
  using Stored = typename Element::Stored;
  using Sums = float[kSets][kBlockM / 2];

  struct Tile {
    int slots[kBlockM];
    float rows[kBlockM];                                  // what the program reads of slots
    float scales[Config::kRowScales == 1 ? kBlockM : 1];  // of rows
    int count, group;
  };
  struct Shared {
    u64 full[kStages], empty[kStages];  // stages: copied; multiplied by both blocks
    u64 ready[2], taken[2];             // tiles: slots are there; read
    Tile tiles[2];
    // Of three units in turn, of each group of 128 results of a slot, the largest magnitude.
    u32 largest[Config::kCodes > 0 ? 3 : 1][kColumns / 128][Config::kCodes > 0 ? kBlockM : 1];
    typename Routing::Shared routing;
  };

  // The cluster's. Slots are found meanwhile: pieces are short, so that blocks share columns in L2.
  using Units = UnitWalk<kTilesN, kSteps, 16>;
  struct Walk : Units {
    SINTER_DEVICE explicit Walk(int units)
        : Units(units, static_cast<int>(blockIdx.x) / kBlocks,
                static_cast<int>(gridDim.x) / kBlocks) {}
    // Where a tile's last columns are fewer, every other expert's tiles begin with them: so about
    // as many clusters wait for much memory as for little, and tiles of one expert keep step.
    SINTER_DEVICE int column(int group) const {
      const int column = Units::column();
      return Config::kN % kColumns != 0 && group % 2 != 0 ? kTilesN - 1 - column : column;
    }
  };

  static SINTER_DEVICE void run(const GroupedOperands<Config>& o, int m) {
    extern __shared__ unsigned char raw[];
    __shared__ Shared shared;
    const u32 ring = (shared_address(raw) + 1023u) & ~1023u;
    const int total = m * Config::kSlots;
    const Ids ids(o);
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        mbarrier_init(shared_address(&shared.full[stage]), 128 + 1);
        mbarrier_init(shared_address(&shared.empty[stage]), kBlocks * kConsumerWarps);
      }
      for (int tile = 0; tile < 2; ++tile) {
        mbarrier_init(shared_address(&shared.ready[tile]), kFinders);
        mbarrier_init(shared_address(&shared.taken[tile]), kConsumerWarps + kCopierWarps);
      }
      mbarrier_init_fence();
    }
    if constexpr (kBlocks > 1) cluster_arrive();
    Routing::template count<kThreads>(shared.routing, ids, total, [] {
      if constexpr (!Config::kEarly) wait_for_predecessors();
    });
    if constexpr (kBlocks > 1) cluster_wait();  // both blocks' barriers are there
    const int units = shared.routing.first_tile[Routing::kGroups] * kTilesN;
    const int rank = kBlocks > 1 ? static_cast<int>(cluster_rank()) : 0;
    const int role = static_cast<int>(uniform(threadIdx.x / 32)) - kConsumerWarps;
    if constexpr (Config::kEarly) {  // weights need not wait
      if (role != kCopierWarps) wait_for_predecessors();
    }
    if constexpr (Config::kCodes > 0) {
      for (int i = static_cast<int>(threadIdx.x); i < 3 * (kColumns / 128) * kBlockM;
           i += kThreads) {
        (&shared.largest[0][0][0])[i] = 0;
      }
      __syncthreads();
    }
    if (role < 0) {
      registers_increase<200>();
      consume(o, shared, ring, units);
    } else {
      registers_decrease<56>();
      if (role < kCopierWarps) {
        copy_rows(o, shared, ring, units);
      } else if (role > kCopierWarps) {
        find(o, shared, ids, total, units, rank);
      } else if (threadIdx.x % 32 == 0) {
        load_weights(o, shared, ring, units, rank);
      }
    }
    // The other block may still load into this one and arrive on its barriers.
    if constexpr (kBlocks > 1) {
      __syncwarp();
      cluster_arrive();
      cluster_wait();
    }
  }

 private:
  // ---------------------------------------------------------------- slots

  static SINTER_DEVICE void find(const GroupedOperands<Config>& o, Shared& shared, const Ids& ids,
                                 int total, int units, int rank) {
    const int thread = static_cast<int>(threadIdx.x) - (kThreads - kFinders);
    for (Walk walk(units); walk.more(); walk.next()) {
      if (!walk.begins_tile()) continue;
      Tile& next = shared.tiles[walk.buffer()];
      const auto place = Routing::place(shared.routing, walk.tile, rank);
      mbarrier_wait(shared_address(&shared.taken[walk.buffer()]), 1 - walk.parity());
      const int count = Routing::take(shared.routing, next.slots, thread, ids, total, place.group,
                                      place.skip, place.most);
      if constexpr (Program::Row::kPresent) {
        for (int i = thread; i < count; i += kFinders) {
          next.rows[i] = GroupedEnd<Config>::row_of(o, next.slots[i]);
        }
      }
      if constexpr (Config::kRowScales == 1) {
        for (int i = thread; i < count; i += kFinders) {
          next.scales[i] = place.group == Config::kExperts
                               ? 0  // as sums are there, also where a row's scale is NaN
                               : row_scale<Config>(o.row_scales, next.slots[i]);
        }
      }
      if (thread == 0) {
        next.count = count;
        next.group = place.group;
      }
      mbarrier_arrive(shared_address(&shared.ready[walk.buffer()]));
    }
  }

  // ---------------------------------------------------------------- copies

  static SINTER_DEVICE void load_weights(const GroupedOperands<Config>& o, Shared& shared, u32 ring,
                                         int units, int rank) {
    constexpr u16 kBoth = 3;
    Cursor<kStages> at;
    int group = 0;
    for (Walk walk(units); walk.more(); walk.next()) {
      if (walk.begins_tile()) group = Routing::place(shared.routing, walk.tile, rank).group;
      if (group == Config::kExperts) continue;
      const int set = walk.column(group) * (kBeside / kPermuted), matrix = group * kMatrices;
      const SetsPlace first = {set, matrix};
      const SetsPlace second = {set + (Columns::kHalves ? 0 : kHalf / kPermuted),
                                matrix + Columns::kHalves};
      for (int step = 0; step < kSteps; ++step) {
        mbarrier_wait(shared_address(&shared.empty[at.stage]), 1 - at.parity);
        const u32 full = shared_address(&shared.full[at.stage]);
        const u32 to = ring + at.stage * kStageBytes + kRowsBytes;
        mbarrier_arrive_expect(full, 2 * kHalfBytes);
        if constexpr (kBlocks > 1) {
          tma_load_shared(to + rank * kHalfBytes, o.map, step * kBlockK, rank == 0 ? first : second,
                          full, kBoth);
        } else {
          tma_load(to, o.map, step * kBlockK, first, full);
          tma_load(to + kHalfBytes, o.map, step * kBlockK, second, full);
        }
        at.advance();
      }
    }
  }

  static SINTER_DEVICE void copy_rows(const GroupedOperands<Config>& o, Shared& shared, u32 ring,
                                      int units) {
    const int thread = static_cast<int>(threadIdx.x) - 128 * kConsumers;
    const int chunk = thread % 8 * Element::kVector, first = thread / 8;
    const Stored* rows[kRowCopies];
    typename Scales::Sources scales;
    int count = 0, group = 0;
    Cursor<kStages> at;
    for (Walk walk(units); walk.more(); walk.next()) {
      if (walk.begins_tile()) {
        const Tile& tile = shared.tiles[walk.buffer()];
        mbarrier_wait(shared_address(&shared.ready[walk.buffer()]), walk.parity());
        count = tile.count;
        group = tile.group;
#pragma unroll
        for (int i = 0; i < kRowCopies; ++i) {
          const int row = first + i * kRowsAtOnce;
          if (row < count) {
            rows[i] =
                o.rows + chunk +
                slot_offset<Config>(tile.slots[row], Config::kRowStride, Config::kRowSlotStride);
          }
        }
        if constexpr (Scales::kOfRows) {
          scales.row = nullptr;
          if (thread < count) {
            scales.row =
                o.row_scales + slot_offset<Config>(tile.slots[thread], Config::kRowScaleStride,
                                                   Config::kRowScaleSlotStride);
          }
        }
        __syncwarp();
        arrive_if(shared_address(&shared.taken[walk.buffer()]), threadIdx.x % 32 == 0);
      }
      if (walk.is_last()) launch_dependents();
      if (group == Config::kExperts) continue;
      Scales::run_of(scales, o.weight_scales, thread, group, walk.column(group) * kBeside,
                     Columns::kHalves ? Columns::kUpAt : 0);
      for (int step = 0; step < kSteps; ++step) {
        mbarrier_wait(shared_address(&shared.empty[at.stage]), 1 - at.parity);
        const u32 to =
            ring + at.stage * kStageBytes + swizzled_offset<Element>(kBlockM, first, chunk);
        const int k = step * kBlockK;
        const bool inside = Config::kK % kBlockK == 0 || k + chunk < Config::kK;
#pragma unroll
        for (int i = 0; i < kRowCopies; ++i) {
          if (first + i * kRowsAtOnce >= count) continue;  // what is multiplied there is not stored
          copy_async(to + i * kRowsAtOnce * kRowBytes, inside ? rows[i] + k : rows[i],
                     inside ? 16 : 0);
        }
        Scales::copy(scales, scales_at(ring, at.stage), step, thread);
        arrive_with_copies(shared_address(&shared.full[at.stage]));
        at.advance();
      }
    }
  }

  // ---------------------------------------------------------------- products

  static SINTER_DEVICE void consume(const GroupedOperands<Config>& o, Shared& shared, u32 ring,
                                    int units) {
    const u32 first_lane = threadIdx.x % 32 == 0;
    const int warpgroup = static_cast<int>(uniform(threadIdx.x / 128));
    Cursor<kStages> at;
    int group = 0, count = 0, turn = 0;
    for (Walk walk(units); walk.more(); walk.next()) {
      const u32 last = walk.buffer();
      if (walk.begins_tile()) {
        if (walk.tiles > 1) {
          __syncwarp();
          arrive_if(shared_address(&shared.taken[last]), first_lane);
        }
        mbarrier_wait(shared_address(&shared.ready[walk.buffer()]), walk.parity());
        count = shared.tiles[walk.buffer()].count;
        group = static_cast<int>(uniform(shared.tiles[walk.buffer()].group));
      }
      Sums sums;
#pragma unroll
      for (int i = 0; i < kBlockM / 2; ++i) sums[0][i] = sums[1][i] = 0;
      if (group < Config::kExperts) {
        multiply_any(shared, ring, warpgroup, static_cast<int>(uniform((count + 15) / 16)), at,
                     sums);
      }
      if constexpr (Config::kCodes > 0) {
        store_codes(o, shared, shared.tiles[walk.buffer()], turn, count,
                    walk.column(group) * kColumns, warpgroup, sums);
        turn = (turn + 1) % 3;
      } else {
        store(o, shared.tiles[walk.buffer()], count, walk.column(group) * kColumns, warpgroup,
              sums);
      }
    }
  }

  static SINTER_DEVICE u32 scales_at(u32 ring, int stage) {
    return ring + kStages * kStageBytes + stage * Scales::kBytes;
  }

  static SINTER_DEVICE void multiply_any(const Shared& shared, u32 ring, int warpgroup,
                                         int sixteens, Cursor<kStages>& at, Sums& sums) {
    switch (sixteens) {
      case 8:
        return multiply<min_slots(128)>(shared, ring, warpgroup, at, sums);
      case 7:
        return multiply<min_slots(112)>(shared, ring, warpgroup, at, sums);
      case 6:
        return multiply<min_slots(96)>(shared, ring, warpgroup, at, sums);
      case 5:
        return multiply<min_slots(80)>(shared, ring, warpgroup, at, sums);
      case 4:
        return multiply<min_slots(64)>(shared, ring, warpgroup, at, sums);
      case 3:
        return multiply<min_slots(48)>(shared, ring, warpgroup, at, sums);
      case 2:
        return multiply<min_slots(32)>(shared, ring, warpgroup, at, sums);
      default:
        return multiply<16>(shared, ring, warpgroup, at, sums);
    }
  }
  // Of a tile of kBlockM slots at most.
  static SINTER_SHARED_CONSTEXPR int min_slots(int slots) {
    return slots < kBlockM ? slots : kBlockM;
  }

  // Of the tile's first kSlots slots.
  template <int kSlots>
  static SINTER_DEVICE void multiply(const Shared& shared, u32 ring, int warpgroup,
                                     Cursor<kStages>& at, Sums& sums) {
    // A lane of each warp gives a stage back to each block.
    const u32 lane = threadIdx.x % 32, wanted = lane < kBlocks;
    const u32 empty = map_to_rank(shared_address(&shared.empty[0]), lane % kBlocks);
    u32 before = empty;
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      mbarrier_wait(shared_address(&shared.full[at.stage]), at.parity);
      fence_proxy_async_shared();  // the copies of rows were ordinary writes
      if constexpr (Element::kPromoted) {
        promote<kSlots>(ring, at.stage, warpgroup, sums);
        __syncwarp();  // all lanes have read the scales
        arrive_remote_if(empty + 8 * at.stage, wanted);
      } else {
        issue<kSlots>(ring + at.stage * kStageBytes, warpgroup, sums);
        wgmma_wait<1>();
        arrive_remote_if(before, step > 0 ? wanted : 0);
        before = empty + 8 * at.stage;
      }
      at.advance();
    }
    if constexpr (!Element::kPromoted) {
      wgmma_wait<0>();
      arrive_remote_if(before, wanted);
    }
  }

  // Adds a stage's products in f32, which the tensor cores sum apart: a set's while those of the
  // next one run.
  template <int kSlots>
  static SINTER_DEVICE void promote(u32 ring, int stage, int warpgroup, Sums& sums) {
    const typename Scales::template HeldOfSlots<kSlots> scales(scales_at(ring, stage));
    float fresh[kSets][kSlots / 2];
    const u32 at = uniform(ring + stage * kStageBytes);
    wgmma_fence();
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int step = 0; step < kBlockK / Element::kWgmmaK; ++step) {
        issue_one<kSlots>(at, warpgroup, set, step, fresh[set], step != 0);
      }
      wgmma_commit();
    }
    wgmma_wait<1>();
    scales.add(sums[0], fresh[0], 0);
    wgmma_wait<0>();
    scales.add(sums[1], fresh[1], 1);
  }

  template <int kSlots>
  static SINTER_DEVICE void issue(u32 stage, int warpgroup, Sums& sums) {
    const u32 at = uniform(stage);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBlockK / Element::kWgmmaK; ++step) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        issue_one<kSlots>(at, warpgroup, set, step,
                          reinterpret_cast<float(&)[kSlots / 2]>(sums[set]), 1);
      }
    }
    wgmma_commit();
  }
  template <int kSlots>
  static SINTER_DEVICE void issue_one(u32 stage, int warpgroup, int set, int step,
                                      float (&sums)[kSlots / 2], u32 more) {
    const u64 slots =
        descriptor(stage + k_major_step(kBlockM, 0, step), kKMajorLeading, kKMajorStride);
    const int row = set * kHalf + warpgroup * kWarpgroupRows;
    const u64 columns = descriptor(stage + kRowsBytes + k_major_step(kBlockN, row, step),
                                   kKMajorLeading, kKMajorStride);
    Wgmma<kSlots, Element, false, false>::mma(sums, columns, slots, more);
  }

  // What a column's sums are multiplied by: its scale of all of K.
  struct Scale {
    static constexpr bool kPresent = Config::kRowScales == 1 || Config::kWeightScales == 1;
    float scale = 1;
    Scale() = default;
    SINTER_DEVICE Scale(const GroupedOperands<Config>& o, int group, int column, int of_pair) {
      if (Config::kWeightScales == 1 && group < Config::kExperts) {
        scale = column_scale<Config>(o.weight_scales, group, column * Columns::kStep + of_pair);
      }
    }
    // `row`: the scale of the sum's row.
    SINTER_DEVICE float of(float sum, float row) const {
      return kPresent ? sum * (row * scale) : sum;
    }
  };

  // From a thread's sums to its results. It has two neighbouring columns of W of each set, and two
  // neighbouring slots of each eight.
  struct Results {
    const GroupedOperands<Config>& o;
    const Tile& tile;
    const int count;
    // Sets that have results of their own: up's half has none.
    static constexpr int kOwn = Columns::kHalves ? 1 : kSets;
    static constexpr int kMine = Columns::kInTurns ? 1 : 2;  // neighbouring results of a set
    int at[kOwn];  // of the result: the first of its columns
    Scale scale[kOwn][kMine], up_scale[kOwn][kMine];
    typename Program::Terms terms[kOwn][kMine] = {};

    // `column`: of the result, of the tile's first.
    SINTER_DEVICE Results(const GroupedOperands<Config>& operands, const Tile& of, int slots,
                          int column, int warpgroup)
        : o(operands), tile(of), count(slots) {
      const int thread = static_cast<int>(threadIdx.x) % 128;
      // Of W, from a set's first on: eight rows below in the accumulators is the next one.
      const int beside = warpgroup * kWarpgroupRows + thread / 32 * kPermuted + thread % 32 / 4 * 2;
#pragma unroll
      for (int set = 0; set < kOwn; ++set) {
        at[set] = column + (set * kHalf + beside) / Columns::kStep;
        if (at[set] >= Config::kN) continue;
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
          scale[set][i] = Scale(o, tile.group, at[set] + i, 0);
          if (Columns::kPair) up_scale[set][i] = Scale(o, tile.group, at[set] + i, Columns::kUpAt);
          terms[set][i] = GroupedEnd<Config>::terms(o, tile.group, at[set] + i);
        }
      }
    }

    static SINTER_DEVICE int slot(int eight, int i) {
      return 8 * eight + 2 * (static_cast<int>(threadIdx.x) % 4) + i;
    }
    // Calls each(eight, i) for the thread's slots of the first `count` of a tile, and for some
    // behind them: the i-th of its two of each eight. Nothing branches within 16 slots.
    template <class Each>
    static SINTER_DEVICE void for_each_slot(int count, const Each& each) {
#pragma unroll
      for (int first = 0; first < kBlockM / 8; first += 2) {
        if (8 * first >= count) break;
#pragma unroll
        for (int i = 0; i < 4; ++i) each(first + i / 2, i % 2);
      }
    }
    // Calls each(end, eight, i, set, there) for the results of a set. Those that are not there are
    // not stored.
    template <class Each>
    SINTER_DEVICE void for_each(const Each& each) const {
      for_each_slot(count, [&](int eight, int i) {
        const GroupedEnd<Config> to = end(slot(eight, i));
#pragma unroll
        for (int set = 0; set < kOwn; ++set) {
          each(to, eight, i, set, slot(eight, i) < count && at[set] < Config::kN);
        }
      });
    }
    SINTER_DEVICE GroupedEnd<Config> end(int slot) const {
      return GroupedEnd<Config>(o, tile.slots[slot],
                                Program::Row::kPresent ? tile.rows[slot] : 1.0f);
    }
    // Computes the results of a set, for the i-th slot of the thread's in an eight. It reads no
    // operand for results that are not there.
    SINTER_DEVICE void of(const Sums& sums, const GroupedEnd<Config>& end, int eight, int i,
                          int set, bool there, float (&x)[kMine]) const {
      const float row = Config::kRowScales == 1 ? tile.scales[slot(eight, i)] : 1.0f;
      const float* const own = &sums[set][4 * eight + i];
      // In turns up is the next column, of halves it is in the other set.
      const float* const other =
          Columns::kInTurns ? own + 2 : &sums[Columns::kHalves ? 1 : set][4 * eight + i];
      float elements[kMine] = {};
      if (there) end.elements(at[set], elements);
#pragma unroll
      for (int next = 0; next < kMine; ++next) {
        x[next] = end.result(scale[set][next].of(own[2 * next], row),
                             Columns::kPair ? up_scale[set][next].of(other[2 * next], row) : 0,
                             terms[set][next], elements[next]);
      }
    }
    static SINTER_DEVICE void store(const GroupedEnd<Config>& end, int column,
                                    const float (&x)[kMine]) {
      if constexpr (kMine == 1) {
        end.store_one(column, x[0]);
      } else {
        end.store(column, x[0], x[1]);
      }
    }
  };

  static SINTER_DEVICE void store(const GroupedOperands<Config>& o, const Tile& tile, int count,
                                  int column, int warpgroup, const Sums& sums) {
    const Results results(o, tile, count, column, warpgroup);
    results.for_each([&](const GroupedEnd<Config>& end, int eight, int i, int set, bool there) {
      float x[Results::kMine];
      results.of(sums, end, eight, i, set, there, x);
      if (there) Results::store(end, results.at[set], x);
    });
  }

  // The same as codes. Both warpgroups have columns of a group: its largest magnitude is found in
  // shared memory, in the `turn`-th of three places, so that none is cleared while it is read.
  static SINTER_DEVICE void store_codes(const GroupedOperands<Config>& o, Shared& shared,
                                        const Tile& tile, int turn, int count, int column,
                                        int warpgroup, Sums& sums) {
    constexpr int kGroups = kColumns / 128;
    constexpr u32 kBarrier = 2;
    static_assert(Config::kN % 128 == 0, "a tile has whole groups");
    const Results results(o, tile, count, column, warpgroup);
    const auto group_of = [](int set) { return kGroups == 1 ? 0 : set; };
    Results::for_each_slot(count, [&](int eight, int i) {  // all lanes: their results meet
      const int slot = Results::slot(eight, i);
      const GroupedEnd<Config> end = results.end(slot < count ? slot : 0);
      u32 largest[kGroups] = {};
#pragma unroll
      for (int set = 0; set < Results::kOwn; ++set) {
        float x[Results::kMine];
        results.of(sums, end, eight, i, set, results.at[set] < Config::kN, x);
#pragma unroll
        for (int next = 0; next < Results::kMine; ++next) {
          sums[set][4 * eight + i + 2 * next] = x[next];
          largest[group_of(set)] = larger(largest[group_of(set)], magnitude(x[next]));
        }
      }
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) {
          largest[group] =
              larger(largest[group], __shfl_xor_sync(0xFFFFFFFFu, largest[group], lanes));
        }
        if (threadIdx.x % 32 < 4 && slot < count) {
          atomicMax(&shared.largest[turn][group][slot], largest[group]);
        }
      }
    });
    named_barrier(kBarrier, 128 * kConsumers);
    for (int i = static_cast<int>(threadIdx.x); i < kGroups * kBlockM; i += 128 * kConsumers) {
      (&shared.largest[(turn + 2) % 3][0][0])[i] = 0;
    }
    results.for_each([&](const GroupedEnd<Config>& end, int eight, int i, int set, bool there) {
      if (!there) return;
      const u32 largest = shared.largest[turn][group_of(set)][Results::slot(eight, i)];
      const CodeScale code = GroupedEnd<Config>::scale_of(largest);
      const bool first_of_group = set == 0 || kGroups > 1;
      if (first_of_group && threadIdx.x < 4) {
        end.store_scale(column + 128 * group_of(set), code.scale);
      }
      float x[Results::kMine];
#pragma unroll
      for (int next = 0; next < Results::kMine; ++next) {
        x[next] = sums[set][4 * eight + i + 2 * next] * code.inverse;
      }
      Results::store(end, results.at[set], x);
    });
  }
};

}  // namespace sinter
