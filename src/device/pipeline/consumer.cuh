// The consumer: a warpgroup that multiplies stage after stage into its accumulators.
#pragma once
#include "pipeline/ring.cuh"
#include "ptx/sync.cuh"
#include "ptx/wgmma.cuh"
#include "tile/product.cuh"

namespace sinter {

// Descriptor of a stage's weights at K step 0, from column `column` of the tile.
template <class Config, class P>
SINTER_DEVICE u64 weights_descriptor(u32 address, int column) {
  if (Config::kWeightsTransposed)
    return descriptor(address + n_major_step<typename Config::Element>(Config::kBlockK, column, 0),
                      n_major_leading(Config::kBlockK), kNMajorStride);
  return descriptor(address + k_major_step(P::kColumns, column, 0), kKMajorLeading, kKMajorStride);
}

// The same of its rows, from row `row` of the tile.
template <class Config, class P>
SINTER_DEVICE u64 rows_descriptor(u32 address, int row) {
  if (P::Rows::kTransposed)
    return descriptor(address + n_major_step<typename Config::Element>(Config::kBlockK, row, 0),
                      n_major_leading(Config::kBlockK), kNMajorStride);
  return descriptor(address + k_major_step(Config::kBlockM, row, 0), kKMajorLeading, kKMajorStride);
}

template <class Config, class P>
SINTER_SHARED_CONSTEXPR int rows_step(int step) {
  return (P::Rows::kTransposed ? n_major_step<typename Config::Element>(Config::kBlockK, 0, step)
                               : k_major_step(Config::kBlockM, 0, step)) >>
         4;
}

template <class Config, class P>
SINTER_SHARED_CONSTEXPR int weights_step(int step) {
  return (Config::kWeightsTransposed
              ? n_major_step<typename Config::Element>(Config::kBlockK, 0, step)
              : k_major_step(P::kColumns, 0, step)) >>
         4;
}

// Multiplies one stage: accumulators (+)= rows x weights, both given by shared addresses. Issues
// the wgmmas; the caller commits them.
template <class Config, class P>
struct RowsByWeights {
  using Mma =
      Wgmma<P::kMmaN, typename Config::Element, P::Rows::kTransposed, Config::kWeightsTransposed>;
  static SINTER_DEVICE void issue(typename P::Sum (&accumulators)[P::kAccumulators], u32 rows,
                                  u32 weights, WarpgroupPlace place, bool more) {
    const u64 a = rows_descriptor<Config, P>(rows, place.m * kWarpgroupRows);
    const u64 b = weights_descriptor<Config, P>(weights, place.n * P::kWarpN);
#pragma unroll
    for (int step = 0; step < P::kSteps; ++step)
      Mma::mma(accumulators, a + rows_step<Config, P>(step), b + weights_step<Config, P>(step),
               more || step != 0);
  }
};

// The same with swapped operands: 64 columns of the weights are the rows of a wgmma, and the rows
// of the tile are its columns.
template <class Config, class P>
struct WeightsByRows {
  using Mma =
      Wgmma<P::kMmaN, typename Config::Element, Config::kWeightsTransposed, P::Rows::kTransposed>;
  using Set = typename P::Sum[P::kMmaN / 2];
  static SINTER_DEVICE void issue(typename P::Sum (&accumulators)[P::kAccumulators], u32 rows,
                                  u32 weights, WarpgroupPlace place, bool more) {
    const u64 b = rows_descriptor<Config, P>(rows, 0);
#pragma unroll
    for (int step = 0; step < P::kSteps; ++step) {
#pragma unroll
      for (int set = 0; set < P::kSets; ++set) {
        const u64 a =
            weights_descriptor<Config, P>(weights, place.n * P::kWarpN + set * kWarpgroupRows);
        Mma::mma(reinterpret_cast<Set&>(accumulators[set * (P::kMmaN / 2)]),
                 a + weights_step<Config, P>(step), b + rows_step<Config, P>(step),
                 more || step != 0);
      }
    }
  }
};

template <bool kSwapped, class Config, class P>
struct StageProductOf {
  using Type = RowsByWeights<Config, P>;
};
template <class Config, class P>
struct StageProductOf<true, Config, P> {
  using Type = WeightsByRows<Config, P>;
};

// Descriptors of a warpgroup's operands of a stage, at K step 0. Others are so many bytes / 16 on:
// addresses of shared memory never carry out of their bits.
struct StageOperands {
  u64 rows, weights;
};

// A part of a warpgroup's products over one row of the swizzle, the `row`-th of the stage: fresh =
// rows x weights. Both are K-major. Issues the wgmmas; the caller commits them.
template <class Config, class P>
struct PromotedPart {
  static constexpr int kSteps = kRowBytes / kStepBytes;
  static constexpr int kSets = P::kSets / (Config::kSwapped ? P::kParts : 1);
  static constexpr int kMmaN = P::kMmaN / (Config::kSwapped ? 1 : P::kParts);
  static constexpr int kAccumulators = kSets * kMmaN / 2;
  using Mma = Wgmma<kMmaN, typename Config::Element, false, false>;
  using Set = float[kMmaN / 2];

  static SINTER_DEVICE StageOperands operands(u32 stage, WarpgroupPlace place) {
    const u32 address = uniform(stage);
    return {descriptor(address + k_major_step(Config::kBlockM, place.m * kWarpgroupRows, 0),
                       kKMajorLeading, kKMajorStride),
            descriptor(address + P::kRowsBytes + k_major_step(P::kColumns, place.n * P::kWarpN, 0),
                       kKMajorLeading, kKMajorStride)};
  }

  static SINTER_DEVICE void issue(float (&fresh)[kAccumulators], StageOperands stage, int part,
                                  int row) {
    const int column = part * (P::kWarpN / P::kParts);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const u64 a = stage.rows + (k_major_step(Config::kBlockM, 0, row * kSteps + step) >> 4);
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        const u64 b =
            stage.weights +
            (k_major_step(P::kColumns, column + set * kWarpgroupRows, row * kSteps + step) >> 4);
        Set& d = reinterpret_cast<Set&>(fresh[set * (kMmaN / 2)]);
        Config::kSwapped ? Mma::mma(d, b, a, step != 0) : Mma::mma(d, a, b, step != 0);
      }
    }
  }
};

// Releases a stage to the producers that fill it: this block's, or those of both blocks of a pair,
// which are half a cluster apart. Called by a warpgroup whose wgmmas have read the stage. kWarps:
// each of its warps releases the stage, because its threads have read it too.
template <class Config, bool kWarps = false, class RingType, class CursorType>
SINTER_DEVICE void release_stage(const RingType& ring, u32 stage, CursorType& cursor, bool given,
                                 WarpgroupPlace place) {
  const int thread = kWarps ? place.thread % 32 : place.thread;
  if constexpr (Config::kSharers == 1) {
    if (given && thread == 0) mbarrier_arrive(ring.empty(stage));
  } else {
    if (given && thread < Config::kSharers && cursor.awaited > 0)
      mbarrier_arrive_remote_read(
          map_to_rank(ring.empty(stage), cursor.pair_first + thread * (Config::kCluster / 2)));
    cursor.awaited -= given ? 1 : 0;
  }
}

// accumulate() where sums are promoted, with rows in the ring: the tensor cores sum one row of the
// swizzle and one part at a time, and their sums are scaled and added in f32. Other warpgroups use
// the tensor cores meanwhile. While they multiply the last part of a stage, the next is looked for
// and its descriptors are made. `scales`: a HeldBlockScales, or none.
template <class Config, class P, class RingType, class CursorType, class Scales>
SINTER_DEVICE void accumulate_promoted(float (&accumulators)[P::kAccumulators], RingType ring,
                                       CursorType& cursor, int count, WarpgroupPlace place,
                                       Scales scales) {
  using Part = PromotedPart<Config, P>;
  asm volatile("" : "+r"(count));                           // as in accumulate()
  asm volatile("" : "+r"(ring.base), "+r"(ring.barriers));  // not to be computed again every turn
#pragma unroll
  for (int i = 0; i < P::kAccumulators; ++i) accumulators[i] = 0;
  StageOperands operands = Part::operands(ring.address(cursor.stage), place);
  bool arrived = false;
#pragma unroll 1
  do {
    const u32 stage = cursor.stage;
    if (!arrived) mbarrier_wait(ring.full(stage), cursor.parity);
#pragma unroll
    for (int row = 0; row < P::kSubtiles; ++row) {
      scales.next();
#pragma unroll
      for (int part = 0; part < P::kParts; ++part) {
        const bool last = row + 1 == P::kSubtiles && part + 1 == P::kParts;
        float fresh[Part::kAccumulators];
        wgmma_fence();
        Part::issue(fresh, operands, part, row);
        wgmma_commit();
        if (last) {
          cursor.advance();
          operands = Part::operands(ring.address(cursor.stage), place);
          arrived = mbarrier_test_wait(ring.full(cursor.stage), cursor.parity);
        }
        wgmma_wait<0>();
        if (last) release_stage<Config>(ring, stage, cursor, true, place);
#pragma unroll
        for (int i = 0; i < Part::kAccumulators; ++i) {
          float& sum = accumulators[part * Part::kAccumulators + i];
          sum = scales.add(sum, fresh[i], part, i);
        }
      }
    }
  } while (--count > 0);
}

// The default of accumulate(): the wgmmas alone read rows.
struct SeenByNobody {
  static constexpr bool kReads = false;
};

// accumulators = sum over `count` >= 1 stages of rows x weights; with kOnto, the sum is added to
// what they hold. kRowsInRing: rows come from the stage; else from `rows`, a tile of
// Config::kBlockM rows whose K continues from stage to stage. In a ring of four or more stages, the
// wgmmas of one stage stay in flight while the next is awaited. A shorter ring releases each stage
// at once, so that more bytes are in flight. `seen` reads the rows too while wgmmas run.
template <class Config, class P, bool kRowsInRing, bool kOnto = false, class RingType,
          class CursorType, class Seen = SeenByNobody>
SINTER_DEVICE void accumulate(typename P::Sum (&accumulators)[P::kAccumulators],
                              const RingType& ring, CursorType& cursor, u32 rows, int count,
                              WarpgroupPlace place, Seen* seen = nullptr) {
  using StageProduct = typename StageProductOf<Config::kSwapped, Config, P>::Type;
  constexpr bool kOneBehind = Config::kStages >= 4;
  u32 previous = 0;
  asm volatile(
      ""
      : "+r"(count));  // the loop must stay one loop: peeled, its products would be serialised
  int i = 0;
#pragma unroll 1
  do {
    const u32 address = uniform(ring.address(cursor.stage));
    mbarrier_wait(ring.full(cursor.stage), cursor.parity);
    const u32 rows_at = kRowsInRing ? address : rows + i * P::kRowsBytes;
    wgmma_fence();
    StageProduct::issue(accumulators, rows_at, address + (kRowsInRing ? P::kRowsBytes : 0), place,
                        kOnto || i != 0);
    wgmma_commit();
    if constexpr (Seen::kReads) seen->add(rows_at);
    if (kOneBehind) {
      wgmma_wait<1>();
      release_stage<Config, Seen::kReads>(ring, previous, cursor, i > 0, place);
      previous = cursor.stage;
    } else {
      wgmma_wait<0>();
      release_stage<Config, Seen::kReads>(ring, cursor.stage, cursor, true, place);
    }
    cursor.advance();
  } while (++i < count);
  if (kOneBehind) {
    wgmma_wait<0>();
    release_stage<Config, Seen::kReads>(ring, previous, cursor, true, place);
  }
}

// accumulate() of integers, whose sums are converted when they are whole.
template <class Config, class P, bool kRowsInRing, class RingType, class CursorType>
SINTER_DEVICE void accumulate_exact(float (&accumulators)[P::kAccumulators], const RingType& ring,
                                    CursorType& cursor, u32 rows, int count, WarpgroupPlace place) {
  typename P::Sum sums[P::kAccumulators];
  accumulate<Config, P, kRowsInRing>(sums, ring, cursor, rows, count, place);
#pragma unroll
  for (int i = 0; i < P::kAccumulators; ++i) accumulators[i] = static_cast<float>(sums[i]);
}

}  // namespace sinter
