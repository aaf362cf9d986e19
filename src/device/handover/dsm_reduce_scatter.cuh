// dsm_reduce_scatter: the ranks that share a tile's K range add their f32 parts through distributed
// shared memory. Each rank owns kOwnerRows rows of the tile, receives every rank's part of them,
// sums in rank order (so the result does not depend on timing) and writes them. Synchronises only
// the kSplitK ranks that take part. After FlashFuser (arXiv 2512.12949) section IV-A; the scatter
// is by rows so that stores stay whole.
#pragma once
#include "handover/dsm_reduce_scatter_swapped.cuh"
#include "ptx/mbarrier.cuh"
#include "tile/results.cuh"

namespace sinter {

// The consumer threads that reduce a tile together: all of the block, unless a dataflow says
// otherwise for its Config.
template <class Config>
struct ConsumerGroup {
  static SINTER_DEVICE int thread() { return threadIdx.x - 128; }
  static SINTER_DEVICE bool is_first() { return threadIdx.x == 128; }
  static SINTER_DEVICE u32 barrier() { return 1; }  // of their own
};

// Invariant: an owner's parts belong to the senders from a completed phase of the sender's `empty`
// until their bytes are complete on the owner's `full`. They belong to the owner from then until it
// has arrived on every sender's `empty`.
//
// kGate: the first half of the ranks has parts of the gate, the second half of up; the epilogue
// takes both sums, act(gate) * up.
template <class Config, class P, bool kGate = false>
struct DsmReduceScatter {
  u32 parts;    // shared address of this block's parts
  u32 full;     // barrier: one arrival of the owner, and the bytes of all parts
  u32 empty;    // barrier: kSplitK arrivals, one of each owner
  int first;    // cluster rank of the group's rank 0
  int rank;     // of this block in the group
  bool primed;  // true: the parts are free at the start; false: owners say so first, by an arrival
                // on `empty`
  u32 parity = 0;  // of the current tile on `full`

  static constexpr int kThreads = 128 * Config::kWarpgroupsM * Config::kWarpgroupsN;
  static constexpr int kAllGroups = P::kColumns / 8;
  // How far the sum over sources is unrolled. A full unroll would spill where a gated tile has
  // sixteen parts.
  static constexpr int kUnroll = P::kSplitK * P::kWidth > 8 ? 2 : P::kSplitK;

  // Tells every rank of the group that this block's parts are free. All consumer threads; it waits
  // for them.
  SINTER_DEVICE void release() const {
    named_barrier(ConsumerGroup<Config>::barrier(), kThreads);
    const int t = ConsumerGroup<Config>::thread();
    if (t < P::kSplitK) mbarrier_arrive_remote_read(map_to_rank(empty, first + t));
  }

  // Bytes that arrive on `full` for one tile: the rows of it that this rank owns, from every rank.
  SINTER_DEVICE u32 expected_bytes() const {
    const int rows = Config::kBlockM - rank * P::kOwnerRows;
    return (rows < 0               ? 0
            : rows < P::kOwnerRows ? rows
                                   : P::kOwnerRows) *
           P::kColumns * 4 * P::kSplitK;
  }

  SINTER_DEVICE void send(const float (&d)[P::kAccumulators], WarpgroupPlace place) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = place.m * kWarpgroupRows + accumulator_row(place.thread) + 8 * half;
      if (row >= Config::kBlockM) continue;
      const int owner = row / P::kOwnerRows;
      const u32 remote = map_to_rank(parts, first + owner),
                barrier = map_to_rank(full, first + owner);
#pragma unroll
      for (int g = 0; g < P::kWarpN / 8; ++g) {
        const int group = g / P::kGroups * P::kTileGroups + place.n * P::kGroups + g % P::kGroups;
        store_async(remote + part_offset(rank, kAllGroups, group, P::kOwnerRows,
                                         row - owner * P::kOwnerRows, 2 * (place.thread % 4)),
                    barrier, d[4 * g + 2 * half], d[4 * g + 2 * half + 1]);
      }
    }
  }

  // The first unit of a thread; it then takes every kThreads-th. A unit is a column group of a row.
  static SINTER_DEVICE int first_unit() { return ConsumerGroup<Config>::thread(); }

  // The matrix beside the eight columns of `unit`; zeros behind the last unit, and for rows that
  // the tile does not have.
  template <class Matrix>
  struct Elements {
    typename Matrix::Pair pairs[4];
  };
  template <class Matrix>
  SINTER_DEVICE Elements<Matrix> beside(int unit, const Matrix& matrix, int row, int column) const {
    Elements<Matrix> elements = {};
    if constexpr (Matrix::kPresent) {
      const int tile_row = rank * P::kOwnerRows + unit % P::kOwnerRows;
      if (unit < P::kOwnerRows * P::kTileGroups && tile_row < Config::kBlockM)
        matrix.eight(row + tile_row, column + 8 * (unit / P::kOwnerRows), elements.pairs);
    }
    return elements;
  }

  // Asks L2 for what this thread reads first of the matrix. Before the product: HBM is further away
  // than the parts of peers.
  template <class Matrix>
  SINTER_DEVICE void fetch(const Matrix& matrix, int row, int column) const {
    const int unit = first_unit(), tile_row = rank * P::kOwnerRows + unit % P::kOwnerRows;
    if (unit < P::kOwnerRows * P::kTileGroups && tile_row < Config::kBlockM)
      matrix.fetch(row + tile_row, column + 8 * (unit / P::kOwnerRows));
  }

  // What the row of `unit` is multiplied by. Of units that do not exist, that of some row.
  template <class EpilogueType>
  SINTER_DEVICE float scale_of(int unit, const EpilogueType& epilogue, int row) const {
    return epilogue.scaling.at(row + rank * P::kOwnerRows + unit % P::kOwnerRows);
  }

  // The terms of the columns of `unit`, two by two: of eight columns, or of two where operands are
  // swapped.
  template <class TermPair>
  struct UnitTermsOf {
    TermPair pairs[Config::kSwapped ? 1 : 4];
    SINTER_DEVICE ColumnTerms of(int i) const { return pairs[i / 2].of(i % 2); }
  };
  template <class EpilogueType>
  using UnitTerms = UnitTermsOf<typename EpilogueType::TermPair>;
  template <class EpilogueType>
  static SINTER_DEVICE UnitTerms<EpilogueType> terms_of(int unit, const EpilogueType& epilogue,
                                                        int column) {
    UnitTerms<EpilogueType> terms = {};
    if constexpr (EpilogueType::kTermWords > 0) {
      if constexpr (Config::kSwapped) {
        terms.pairs[0] = epilogue.terms(column + SwappedParts<Config, P>::column_of(unit));
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          terms.pairs[i] = epilogue.terms(column + 8 * (unit / P::kOwnerRows) + 2 * i);
      }
      asm volatile("" ::: "memory");  // not to be loaded where they are used
    }
    return terms;
  }

  // `next_scale`, `next_terms`, `ahead`: what this thread's first unit is multiplied by and what
  // the matrix has beside it, on their way. The next unit's are asked for before a unit is stored.
  template <class EpilogueType, class Writer, class Matrix>
  SINTER_DEVICE void sum(const EpilogueType& epilogue, float next_scale,
                         UnitTerms<EpilogueType> next_terms, const Writer& writer, int row,
                         int column, const Matrix& matrix, Elements<Matrix> ahead) const {
    using Of = typename Matrix::Element;
    using Results = ResultPairs<EpilogueType, Matrix, Writer>;
    jitter();
    for (int unit = first_unit(); unit < P::kOwnerRows * P::kTileGroups; unit += kThreads) {
      const Elements<Matrix> elements = ahead;
      const float scale = next_scale;
      const UnitTerms<EpilogueType> terms = next_terms;
      ahead = beside(unit + kThreads, matrix, row, column);
      next_scale = scale_of(unit + kThreads, epilogue, row);
      next_terms = terms_of(unit + kThreads, epilogue, column);
      const int group = unit / P::kOwnerRows, owner_row = unit % P::kOwnerRows,
                tile_row = rank * P::kOwnerRows + owner_row;
      if (tile_row >= Config::kBlockM) continue;
      float x[8] = {}, up[8] = {};
#pragma unroll(kUnroll)
      for (int source = 0; source < P::kSplitK; ++source) {
        add_group(kGate && source >= P::kSplitK / 2 ? up : x, source, group, owner_row);
        if (P::kWidth == 2) add_group(up, source, group + P::kTileGroups, owner_row);
      }
      const int c = column + 8 * group;
      const auto pair = [&](int i) {
        const auto of = elements.pairs[i / 2];
        return Results(epilogue, {x[i], up[i], scale}, terms.of(i), Of::low(of),
                       {x[i + 1], up[i + 1], scale}, terms.of(i + 1), Of::high(of));
      };
      const Results results[4] = {pair(0), pair(2), pair(4), pair(6)};
      each_result(writer, [&](const auto& to, auto element, auto number) {
        if constexpr (decltype(element)::kBytes == 4) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            to.pair(row + tile_row, c + 2 * i, results[i].of(element, number));
        } else {
          to.group(row + tile_row, c,
                   Word4{results[0].of(element, number), results[1].of(element, number),
                         results[2].of(element, number), results[3].of(element, number)});
        }
      });
    }
  }

  SINTER_DEVICE void add_group(float (&x)[8], int source, int group, int owner_row) const {
    const u32 at = parts + part_offset(source, kAllGroups, group, P::kOwnerRows, owner_row, 0);
    const Float4 low = load_shared(at), high = load_shared(at + 16);
    x[0] += low.x, x[1] += low.y, x[2] += low.z, x[3] += low.w;
    x[4] += high.x, x[5] += high.y, x[6] += high.z, x[7] += high.w;
  }

  // Sends this warpgroup's accumulators, then sums and writes the rows that this block owns. All
  // consumer threads. `again`: another tile follows, so the senders are told that the parts are
  // free. `scale`, `terms`: of this thread's first unit. The matrix is loaded while the parts
  // travel.
  template <class EpilogueType, class Writer, class Matrix>
  SINTER_DEVICE void run(const float (&d)[P::kAccumulators], WarpgroupPlace place,
                         const EpilogueType& epilogue, float scale,
                         const UnitTerms<EpilogueType>& terms, const Writer& writer, int row,
                         int column, bool again, const Matrix& matrix) {
    if (ConsumerGroup<Config>::is_first()) mbarrier_arrive_expect(full, expected_bytes());
    mbarrier_wait(empty, primed ? parity ^ 1 : parity);
    if constexpr (Config::kSwapped) {
      using Parts = SwappedParts<Config, P>;
      Parts::send(*this, d, place);
      const auto ahead = Parts::beside(*this, first_unit(), matrix, row, column);
      mbarrier_wait(full, parity);
      Parts::sum(*this, epilogue, terms, writer, row, column, matrix, ahead);
    } else {
      send(d, place);
      const auto ahead = beside(first_unit(), matrix, row, column);  // accumulators are free now
      mbarrier_wait(full, parity);
      sum(epilogue, scale, terms, writer, row, column, matrix, ahead);
    }
    if (again) release();
    parity ^= 1;
  }
};

}  // namespace sinter
