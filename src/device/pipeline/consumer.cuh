// The consumer: a warpgroup that multiplies stage after stage into its accumulators.
#pragma once
#include "pipeline/ring.cuh"
#include "ptx/sync.cuh"
#include "ptx/wgmma.cuh"
#include "tile/product.cuh"

namespace sinter {

// Descriptor of the weights of a stage for warpgroup `n`, at K step 0.
template <class Config, class P>
SINTER_DEVICE u64 weights_descriptor(u32 address, int n) {
  if (Config::kWeightsTransposed)
    return descriptor(address + n_major_step(Config::kBlockK, n * P::kWarpN, 0),
                      n_major_leading(Config::kBlockK), kNMajorStride);
  return descriptor(address + k_major_step(P::kColumns, n * P::kWarpN, 0), kKMajorLeading,
                    kKMajorStride);
}

template <class Config, class P>
SINTER_SHARED_CONSTEXPR int weights_step(int step) {
  return (Config::kWeightsTransposed ? n_major_step(Config::kBlockK, 0, step)
                                     : k_major_step(P::kColumns, 0, step)) >>
         4;
}

// Gives a stage back to the producers that fill it: this block's, or both blocks' of a pair, which
// are half a cluster apart. One warpgroup, whose products have read the stage.
template <class Config, class RingType, class CursorType>
SINTER_DEVICE void release_stage(const RingType& ring, u32 stage, CursorType& cursor, bool given,
                                 WarpgroupPlace place) {
  if constexpr (Config::kSharers == 1) {
    if (given && place.thread == 0) mbarrier_arrive(ring.empty(stage));
  } else {
    if (given && place.thread < Config::kSharers && cursor.awaited > 0)
      mbarrier_arrive_remote_read(map_to_rank(
          ring.empty(stage), cursor.pair_first + place.thread * (Config::kCluster / 2)));
    cursor.awaited -= given ? 1 : 0;
  }
}

// accumulators = sum over `count` >= 1 stages of rows x weights; with kOnto, added to what they
// hold. kRowsInRing: rows come from the stage; else from `rows`, a tile of Config::kBlockM rows
// whose K runs on from stage to stage. In a
// ring of four stages and more the products of one stage stay in flight while the next one is
// awaited; in a shorter one a stage goes back at once, because a stage held longer is bytes not in
// flight.
template <class Config, class P, bool kRowsInRing, bool kOnto = false, class RingType,
          class CursorType>
SINTER_DEVICE void accumulate(float (&accumulators)[P::kWarpN / 2], const RingType& ring,
                              CursorType& cursor, u32 rows, int count, WarpgroupPlace place) {
  using Mma = Wgmma<P::kWarpN, typename Config::Element, Config::kWeightsTransposed>;
  constexpr int kSteps = Config::kBlockK / kStepK;
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
    const u32 rows_at = kRowsInRing ? address : rows + i * (Config::kBlockM * Config::kBlockK * 2);
    const u64 a = descriptor(rows_at + k_major_step(Config::kBlockM, place.m * kWarpgroupRows, 0),
                             kKMajorLeading, kKMajorStride);
    const u64 b =
        weights_descriptor<Config, P>(address + (kRowsInRing ? P::kRowsBytes : 0), place.n);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      Mma::mma(accumulators, a + (k_major_step(Config::kBlockM, 0, step) >> 4),
               b + weights_step<Config, P>(step), kOnto || (i | step) != 0);
    wgmma_commit();
    if (kOneBehind) {
      wgmma_wait<1>();
      release_stage<Config>(ring, previous, cursor, i > 0, place);
      previous = cursor.stage;
    } else {
      wgmma_wait<0>();
      release_stage<Config>(ring, cursor.stage, cursor, true, place);
    }
    cursor.advance();
  } while (++i < count);
  if (kOneBehind) {
    wgmma_wait<0>();
    release_stage<Config>(ring, previous, cursor, true, place);
  }
}

}  // namespace sinter
