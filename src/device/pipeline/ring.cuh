// Ring of shared-memory stages between one producer warp and the consumer warpgroups.
// Invariant: stage s is the producer's from a completed phase of empty[s] until its bytes arrive on
// full[s], and the consumers' from then until each warpgroup has arrived on empty[s]. Where the
// blocks of a cluster load for one another, the consumers of all of them arrive on each one's
// empty[s], because each one's producers write into all.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/types.cuh"

namespace sinter {

// A position in the ring. `parity` is the phase that a consumer waits for on full[stage]; the
// producer waits for the other.
template <int kStages>
struct Cursor {
  u32 stage = 0, parity = 0;
  // Of a consumer whose stages a pair fills: the first block of the pair, and how many of its
  // releases a producer will still wait for. The others stay unsaid, so that no word reaches a
  // block that is gone.
  u32 pair_first = 0;
  int awaited = 0;
  SINTER_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <int kStages, int kStageBytes>
struct Ring {
  u32 base;      // of stage 0
  u32 barriers;  // full[kStages], empty[kStages]
  static constexpr int kBarrierBytes = 16 * kStages;

  SINTER_DEVICE u32 address(u32 stage) const { return base + stage * kStageBytes; }
  SINTER_DEVICE u32 full(u32 stage) const { return barriers + 8 * stage; }
  SINTER_DEVICE u32 empty(u32 stage) const { return barriers + 8 * (kStages + stage); }
  // `releases`: consumer warpgroups that give a stage back, of all blocks that share it.
  SINTER_DEVICE void init(u32 releases) const {
    for (u32 s = 0; s < kStages; ++s) {
      mbarrier_init(full(s), 1);
      mbarrier_init(empty(s), releases);
    }
  }
};

}  // namespace sinter
