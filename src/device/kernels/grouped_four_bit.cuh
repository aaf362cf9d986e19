// Grouped products whose weights have four bits, by mma.sync: a few slots of each expert.
//
// Blocks are persistent and walk the units, tiles of slots times columns, in turns. Weights come by
// TMA and run ahead into the next unit.
#pragma once
#include "kernels/grouped_operands.cuh"
#include "pipeline/ring.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
#include "tile/four_bits.cuh"

namespace sinter {

// Config as of GroupedProduct, whose weights are bytes with two neighbours of K; `map` has the
// bytes of all experts' columns, [experts * columns, k / 2]. Besides
//   kForm                             how codes are unpacked (tile/four_bits.cuh)
//   Scale, Zero                       element types
//   kGroup, kZeroGroup                neighbours of K that share one
//   kZeros, kZero                     whether zeros are read, else the number that they are
//   kScaleExpert, kScaleStride, kZeroExpert, kZeroStride      in elements
//   kSlices                           parts of 256 of K of a step
//   kRowWarps, kRowTurns              warps that load the rows of a step, and steps whose rows are
//                                     on their way
//   kEndWarps                         warps that store results
// and GroupedOperands is FourBitGroupedOperands.
template <class Config>
struct FourBitGroupedOperands : GroupedOperands<Config> {
  const typename Config::Scale::Stored* scales_of_codes;
  const typename Config::Zero::Stored* zeros;
};

// A warp that multiplies has 16 columns of W and, of each step of kSlices * 256 of K, its slice.
// The sums of slices meet in shared memory, where other warps add them in one order and store
// results while the next unit is multiplied.
template <class Config>
struct GroupedFourBit {
  using Element = typename Config::Rows;
  using Scale = typename Config::Scale;
  using Zero = typename Config::Zero;
  using Weights = FourBits<Element, Config::kForm>;
  using Operands = FourBitGroupedOperands<Config>;
  using Columns = GroupedColumns<Config>;
  using Program = typename Config::Program;
  static constexpr int kBlockM = Config::kBlockM, kBlockN = Config::kBlockN;
  static constexpr int kStages = Config::kStages, kSlices = Config::kSlices;
  static constexpr int kTiles = kBlockN / 16, kRowTiles = kBlockM / 8;
  static constexpr int kWarps = kTiles * kSlices;
  static constexpr int kRowWarps = Config::kRowWarps, kRowTurns = Config::kRowTurns;
  static constexpr int kAllRowWarps = kRowWarps * kRowTurns;
  // One warp loads weights, one finds the slots of the tiles to come, some store results.
  static constexpr int kFinders = 32, kEndWarps = Config::kEndWarps;
  static constexpr int kThreads = 32 * (kWarps + kAllRowWarps + 1 + kEndWarps) + kFinders;
  static constexpr int kSpan = kFourBitSpan;                // of a slice, a box and a swizzle
  static constexpr int kHalves = Columns::kHalves ? 2 : 1;  // boxes of columns
  static constexpr int kBoxBytes = kBlockN / kHalves * kSpan;
  static constexpr int kWeightBytes = kSlices * kBlockN * kSpan;
  // A lane has two runs of 32 of K of a slice. A piece of rows is 8 rows and the first or second
  // runs of a slice.
  static constexpr int kRuns = 2, kPieces = kSlices * kRuns * kRowTiles;
  static constexpr int kPieceBytes = kFourBitPieceBytes;
  static constexpr int kStageBytes = kWeightBytes + kPieces * kPieceBytes;
  static constexpr int kStepK = 256 * kSlices, kSteps = ceil_div(Config::kK, kStepK);
  static constexpr int kPad = kBlockN + 4;  // columns of a row of sums
  static constexpr int kSumBytes = kSlices * kBlockM * kPad * 4;
  static constexpr int kSharedBytes = 1024 + kStages * kStageBytes + 2 * kSumBytes;
  static constexpr int kColumns = Columns::kPair ? kBlockN / 2 : kBlockN;  // of the result
  static constexpr int kTilesN = ceil_div(Config::kN, kColumns);
  static_assert(Config::kK % 32 == 0 && Config::kGroup % 32 == 0, "a lane has 32 of a group");
  static_assert(kBlockN / kHalves % 16 == 0, "a warp's columns are all of gate or of up");

  using Routing = GroupRouting<Config::kExperts, kBlockM, kFinders>;
  using Ids = typename GroupsOf<Config>::Type;
  using Walk = UnitWalk<kTilesN, kSteps, 16>;

  struct Tile {
    int slots[kBlockM];
    int count, group;
  };
  struct Shared {
    u64 full[kStages], empty[kStages];  // stages: loaded; multiplied
    u64 ready[2], taken[2];             // tiles: slots are there; read
    u64 summed[2], stored[2];           // sums of units in turns: there; read
    Tile tiles[2];
    typename Routing::Shared routing;
  };

  static SINTER_DEVICE void run(const Operands& o, int m) {
    extern __shared__ unsigned char raw[];
    __shared__ Shared shared;
    const u32 ring = (shared_address(raw) + 1023u) & ~1023u;
    const int total = m * Config::kSlots;
    const Ids ids(o);
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        mbarrier_init(shared_address(&shared.full[stage]), kRowWarps + 1);
        mbarrier_init(shared_address(&shared.empty[stage]), kWarps);
      }
      for (int tile = 0; tile < 2; ++tile) {
        mbarrier_init(shared_address(&shared.ready[tile]), kFinders);
        mbarrier_init(shared_address(&shared.taken[tile]), kWarps + kAllRowWarps + kEndWarps);
        mbarrier_init(shared_address(&shared.summed[tile]), kWarps);
        mbarrier_init(shared_address(&shared.stored[tile]), kEndWarps);
      }
      mbarrier_init_fence();
    }
    Routing::template count<kThreads>(shared.routing, ids, total, [] {
      if constexpr (!Config::kEarly) wait_for_predecessors();
    });
    const int units = shared.routing.first_tile[Routing::kGroups] * kTilesN;
    const int warp = static_cast<int>(uniform(threadIdx.x / 32));
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (Config::kEarly) {  // weights need not wait
      if (warp != kWarps + kAllRowWarps) wait_for_predecessors();
    }
    const int role = warp - kWarps - kAllRowWarps;
    if (warp < kWarps) {
      multiply(o, shared, ring, units, warp, lane);
    } else if (role < 0) {
      load_rows(o, shared, ring, units, warp - kWarps, lane);
    } else if (role == 0) {
      if (lane == 0) load_weights(o, shared, ring, units);
    } else if (role == 1) {
      find(shared, ids, total, units, lane);
    } else {
      store(o, shared, ring + kStages * kStageBytes, units, (role - 2) * 32 + lane);
    }
  }

 private:
  // ---- Slots

  static SINTER_DEVICE void find(Shared& shared, const Ids& ids, int total, int units, int lane) {
    for (Walk walk = walk_of(units); walk.more(); walk.next()) {
      if (!walk.begins_tile()) continue;
      Tile& next = shared.tiles[walk.buffer()];
      const int group = Routing::group_at(shared.routing, walk.tile);
      const int skip = (walk.tile - shared.routing.first_tile[group]) * kBlockM;
      mbarrier_wait(shared_address(&shared.taken[walk.buffer()]), 1 - walk.parity());
      const int count = Routing::take(shared.routing, next.slots, lane, ids, total, group, skip);
      if (lane == 0) {
        next.count = count;
        next.group = group;
      }
      mbarrier_arrive(shared_address(&shared.ready[walk.buffer()]));
    }
  }
  static SINTER_DEVICE Walk walk_of(int units) {
    return Walk(units, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  }

  // ---- Loads

  static SINTER_DEVICE void load_weights(const Operands& o, Shared& shared, u32 ring, int units) {
    Cursor<kStages> at;
    int group = 0;
    for (Walk walk = walk_of(units); walk.more(); walk.next()) {
      if (walk.begins_tile()) group = Routing::group_at(shared.routing, walk.tile);
      if (group == Config::kExperts) continue;
      const int first = group * Columns::kAll + walk.column() * (kBlockN / kHalves);
      for (int step = 0; step < kSteps; ++step) {
        mbarrier_wait(shared_address(&shared.empty[at.stage]), 1 - at.parity);
        const u32 full = shared_address(&shared.full[at.stage]);
        mbarrier_arrive_expect(full, kWeightBytes);
        u32 to = ring + at.stage * kStageBytes;
#pragma unroll
        for (int slice = 0; slice < kSlices; ++slice) {
#pragma unroll
          for (int half = 0; half < kHalves; ++half, to += kBoxBytes) {
            tma_load(to, o.map, step * (kStepK / 2) + slice * kSpan, first + half * Config::kN,
                     full);
          }
        }
        at.advance();
      }
    }
  }

  // A warp loads some pieces of each kRowTurns-th step. A lane has a run of a row of a piece, which
  // it puts into the order of unpacked weights.
  static constexpr int kMyPieces = ceil_div(kPieces, kRowWarps);

  static SINTER_DEVICE void load_rows(const Operands& o, Shared& shared, u32 ring, int units,
                                      int warp, int lane) {
    const int turn = warp / kRowWarps, first = warp % kRowWarps;
    const typename Element::Stored* rows[kMyPieces] = {};
    int group = 0, count = 0;
    Cursor<kStages> at;
    int mine = turn;  // steps until one is this warp's
    for (Walk walk = walk_of(units); walk.more(); walk.next()) {
      if (walk.begins_tile()) {
        const Tile& tile = shared.tiles[walk.buffer()];
        mbarrier_wait(shared_address(&shared.ready[walk.buffer()]), walk.parity());
        count = tile.count;
        group = tile.group;
#pragma unroll
        for (int p = 0; p < kMyPieces; ++p) {
          const int row = (first + p * kRowWarps) % kRowTiles * 8 + lane / 4;
          rows[p] = nullptr;
          if (row < count) {
            rows[p] = o.rows + slot_offset<Config>(tile.slots[row], Config::kRowStride,
                                                   Config::kRowSlotStride);
          }
        }
        __syncwarp();
        arrive_if(shared_address(&shared.taken[walk.buffer()]), lane == 0);
      }
      if (walk.is_last()) launch_dependents();
      if (group == Config::kExperts) continue;
      for (int step = 0; step < kSteps; ++step, at.advance()) {
        if (mine-- != 0) continue;
        mine = kRowTurns - 1;
        Word4 words[kMyPieces][4];
#pragma unroll
        for (int p = 0; p < kMyPieces; ++p) {
          const int run = (first + p * kRowWarps) / kRowTiles;  // of the slices one after the other
          const int k = step * kStepK + run / kRuns * 256 + lane % 4 * 64 + run % kRuns * 32;
          const bool there = rows[p] != nullptr && k < Config::kK;
          const auto* const from = reinterpret_cast<const Word4*>(rows[p] + k);
#pragma unroll
          for (int j = 0; j < 4; ++j) words[p][j] = there ? load_now(from + j) : Word4{0, 0, 0, 0};
        }
        mbarrier_wait(shared_address(&shared.empty[at.stage]), 1 - at.parity);
        const u32 to = ring + at.stage * kStageBytes + kWeightBytes + lane * 16;
#pragma unroll
        for (int p = 0; p < kMyPieces; ++p) {
          const int piece = first + p * kRowWarps;
          if (piece >= kPieces || piece % kRowTiles * 8 >= count) continue;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            store_shared(to + piece * kPieceBytes + j * 512, pair_order(words[p][j]));
          }
        }
        __syncwarp();
        arrive_if(shared_address(&shared.full[at.stage]), lane == 0);
      }
    }
  }

  // ---- Products

  // Steps whose scales are on their way: two where a thread has 96 registers, and no zeros in them.
  static constexpr int kAhead = kThreads <= 640 && kRowTiles == 1 && !Config::kZeros ? 2 : 1;
  // How many groups the runs of a lane are in, whose scales lie side by side.
  static SINTER_SHARED_CONSTEXPR int groups_of_lane(int group) {
    return group % 64 == 0 || group == Config::kK ? 1 : kRuns;
  }
  static constexpr int kLaneScales = groups_of_lane(Config::kGroup);
  static constexpr int kLaneZeros = groups_of_lane(Config::kZeroGroup);
  // The scales and zeros of a lane's two columns, as stored.
  struct Group {
    typename Scale::Stored scale[2][kLaneScales];
    typename Zero::Stored zero[2][kLaneZeros];
  };
  // Where a lane's two columns have their scales and zeros; null past the last column.
  struct Factors {
    const typename Scale::Stored* scales[2] = {};
    const typename Zero::Stored* zeros[2] = {};

    Factors() = default;
    SINTER_DEVICE Factors(const Operands& o, int group, int column, int other) {
      const int columns[2] = {column, other};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (columns[i] < 0) continue;
        scales[i] =
            o.scales_of_codes + group * Config::kScaleExpert + columns[i] * Config::kScaleStride;
        if constexpr (Config::kZeros) {
          zeros[i] = o.zeros + group * Config::kZeroExpert + columns[i] * Config::kZeroStride;
        }
      }
    }
    SINTER_DEVICE Group at(u32 k) const {
      Group group = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (scales[i] == nullptr || k >= Config::kK) continue;
        load_runs<Config::kScaleStride, Config::kScaleExpert>(scales[i] + k / Config::kGroup, k,
                                                              group.scale[i]);
        if constexpr (Config::kZeros) {
          load_runs<Config::kZeroStride, Config::kZeroExpert>(zeros[i] + k / Config::kZeroGroup, k,
                                                              group.zero[i]);
        }
      }
      return group;
    }
  };
  // The numbers of a lane's runs from `k` on. Two of 16 bits are a word where all begin at a
  // multiple of two. A second run past the end of K has none.
  template <long long kStride, long long kExpert, class Stored, int kCount>
  static SINTER_DEVICE void load_runs(const Stored* from, u32 k, Stored (&to)[kCount]) {
    constexpr bool kWhole = Config::kK % 64 == 0;
    if constexpr (kCount == 2 && sizeof(Stored) == 2 && kStride % 2 == 0 && kExpert % 2 == 0 &&
                  kWhole) {
      const u32 both = load_global(reinterpret_cast<const u32*>(from));
      to[0] = static_cast<Stored>(both);
      to[1] = static_cast<Stored>(both >> 16);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (i == 0 || kWhole || k + 32 < Config::kK) to[i] = load_global(from + i);
      }
    }
  }
  // The factors of a run of column i.
  static SINTER_DEVICE auto factors(const Group& group, int i, int run) {
    const float zero =
        Config::kZeros ? Zero::unpack(group.zero[i][run % kLaneZeros]) : Config::kZero;
    return Weights::factors(Scale::unpack(group.scale[i][run % kLaneScales]), zero);
  }

  // W's column of an expert at `of_tile` of a tile; -1 past the last one.
  static SINTER_DEVICE int column_at(int tile, int of_tile) {
    constexpr int kBeside = kBlockN / kHalves;
    const int beside = tile * kBeside + of_tile % kBeside;
    if (beside >= Columns::kAll / kHalves) return -1;
    return beside + of_tile / kBeside * Config::kN;
  }

  static SINTER_DEVICE void multiply(const Operands& o, Shared& shared, u32 ring, int units,
                                     int warp, int lane) {
    const int tile = warp % kTiles, slice = warp / kTiles;
    const int row = lane / 4;  // of A: the first of a lane's columns
    const u32 weights_at = slice * (kBlockN * kSpan) + (16 * tile + row) * kSpan;
    const u32 rows_at = kWeightBytes + slice * kRuns * kRowTiles * kPieceBytes + lane * 16;
    const u32 sums_at = ring + kStages * kStageBytes +
                        (slice * kBlockM * kPad + lane % 4 * 2 * kPad + 16 * tile + row) * 4;
    const int k0 = slice * 256 + lane % 4 * 64;
    Cursor<kStages> at;
    Turns turns;
    int group = 0, count = 0;
    Group groups[kAhead];
    Factors factors_of = factors_at(o, shared, walk_of(units), 16 * tile + row);
    first_groups(factors_of, k0, groups);
    for (Walk walk = walk_of(units); walk.more(); turns.advance()) {
      const u32 last = walk.buffer();
      if (walk.begins_tile()) {
        if (walk.tiles > 1) {
          __syncwarp();
          arrive_if(shared_address(&shared.taken[last]), lane == 0);
        }
        mbarrier_wait(shared_address(&shared.ready[walk.buffer()]), walk.parity());
        count = static_cast<int>(uniform(shared.tiles[walk.buffer()].count));
        group = static_cast<int>(uniform(shared.tiles[walk.buffer()].group));
      }
      float sums[kRowTiles][4] = {};
      if (group < Config::kExperts) {
#pragma unroll 1
        for (int first = 0; first < kSteps; first += kAhead) {
#pragma unroll
          for (int ahead = 0; ahead < kAhead; ++ahead) {
            const int step = first + ahead;
            if (kSteps % kAhead != 0 && step >= kSteps) break;
            const Group group_of = groups[ahead];
            groups[ahead] = factors_of.at(k0 + (step + kAhead) * kStepK);
            mbarrier_wait(shared_address(&shared.full[at.stage]), at.parity);
            const u32 from = ring + at.stage * kStageBytes;
#pragma unroll
            for (int run = 0; run < kRuns; ++run) {
              const u32 turned = ((lane % 4 * kRuns + run) ^ row) * 16;
              multiply_codes<Weights, Element>(
                  from + weights_at + turned, from + rows_at + run * kRowTiles * kPieceBytes,
                  factors(group_of, 0, run), factors(group_of, 1, run), count, sums);
            }
            fence_proxy_async_shared();  // TMA overwrites what may still be loaded
            __syncwarp();
            arrive_if(shared_address(&shared.empty[at.stage]), lane == 0);
            at.advance();
          }
        }
      }
      walk.next();
      factors_of = factors_at(o, shared, walk, 16 * tile + row);
      first_groups(factors_of, k0, groups);
      mbarrier_wait(shared_address(&shared.stored[turns.buffer]), 1 - turns.parity);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        if (i > 0 && 8 * i >= count) break;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          store_shared(
              sums_at + turns.buffer * kSumBytes + ((8 * i + e % 2) * kPad + e / 2 * 8) * 4,
              __float_as_uint(sums[i][e]));
        }
      }
      __syncwarp();
      arrive_if(shared_address(&shared.summed[turns.buffer]), lane == 0);
    }
  }
  // Which buffer of sums is a unit's, and the phase of its barriers.
  struct Turns {
    u32 buffer = 0, parity = 0;
    SINTER_DEVICE void advance() {
      buffer ^= 1;
      if (buffer == 0) parity ^= 1;
    }
  };
  static SINTER_DEVICE Factors factors_at(const Operands& o, const Shared& shared, const Walk& walk,
                                          int of_tile) {
    if (!walk.more()) return {};
    const int group = Routing::group_at(shared.routing, walk.unit / kTilesN);
    if (group == Config::kExperts) return {};
    return Factors(o, group, column_at(walk.column(), of_tile),
                   column_at(walk.column(), of_tile + 8));
  }
  static SINTER_DEVICE void first_groups(const Factors& of, int k0, Group (&groups)[kAhead]) {
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) groups[ahead] = of.at(k0 + ahead * kStepK);
  }

  // ---- Results

  static SINTER_DEVICE void store(const Operands& o, Shared& shared, u32 sums, int units,
                                  int thread) {
    Turns turns;
    for (Walk walk = walk_of(units); walk.more(); walk.next(), turns.advance()) {
      const u32 last = walk.buffer();
      if (walk.begins_tile()) {
        if (walk.tiles > 1) {
          __syncwarp();
          arrive_if(shared_address(&shared.taken[last]), thread % 32 == 0);
        }
        mbarrier_wait(shared_address(&shared.ready[walk.buffer()]), walk.parity());
      }
      mbarrier_wait(shared_address(&shared.summed[turns.buffer]), turns.parity);
      store_unit(o, shared.tiles[walk.buffer()], sums + turns.buffer * kSumBytes, walk.column(),
                 thread);
      __syncwarp();
      arrive_if(shared_address(&shared.stored[turns.buffer]), thread % 32 == 0);
    }
  }

  static SINTER_DEVICE void store_unit(const Operands& o, const Tile& tile, u32 sums,
                                       int tile_column, int thread) {
    constexpr int kQuads = kColumns / 4;
    const int group = static_cast<int>(uniform(tile.group));
    for (int i = thread; i < tile.count * kQuads; i += kEndWarps * 32) {
      const int row = i / kQuads, of_tile = i % kQuads * 4;
      const int column = tile_column * kColumns + of_tile;
      if (column >= Config::kN) continue;
      const GroupedEnd<Config> end(o, tile.slots[row]);
      float y[4], up[4] = {}, elements[4];
      const u32 from = sums + row * kPad * 4;
      if constexpr (Columns::kInTurns) {
        float left[4], right[4];
        total(from, 2 * of_tile, left);
        total(from, 2 * of_tile + 4, right);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          y[c] = left[2 * c];
          up[c] = left[2 * c + 1];
          y[c + 2] = right[2 * c];
          up[c + 2] = right[2 * c + 1];
        }
      } else {
        total(from, of_tile, y);
        if constexpr (Columns::kHalves) total(from, kBlockN / 2 + of_tile, up);
      }
      end.elements(column, elements);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (column + c >= Config::kN) continue;
        const auto terms = GroupedEnd<Config>::terms(o, group, column + c);
        y[c] = end.result(y[c], up[c], terms, elements[c]);
      }
      store_four(end, column, y);
    }
  }
  static SINTER_DEVICE void store_four(const GroupedEnd<Config>& end, int column,
                                       const float (&x)[4]) {
    constexpr bool kVectors = Config::Result::kBytes == 2 && Config::kN % 4 == 0 &&
                              Config::kOutStride % 4 == 0 && Config::kOutSlotStride % 4 == 0;
    if constexpr (kVectors) {
      end.template store_pairs<4>(column, x);
    } else {
      end.store(column, x);
    }
  }

  // Adds the sums of slices, of four columns.
  static SINTER_DEVICE void total(u32 row, int column, float (&of)[4]) {
    const auto of_slice = [&](int slice) {
      return load_shared(row + (slice * kBlockM * kPad + column) * 4);
    };
    total_of_codes<Weights, kSlices>(of_slice, of);
  }
};

}  // namespace sinter
