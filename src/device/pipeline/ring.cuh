// Ring of shared-memory stages between the producer warps and the consumer warpgroups.
// Invariant: stage s belongs to the producers from a completed phase of empty[s] until its bytes
// arrive on full[s], and to the consumers from then until each warpgroup has arrived on empty[s].
// Where two blocks load for each other, the producers of each write into both, so the consumers of
// both arrive on the empty[s] of each.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/types.cuh"

namespace sinter {

// A position in the ring. `parity` is the phase that a consumer waits for on full[stage]; the
// producer waits for the other.
template <int kStages>
struct Cursor {
  u32 stage = 0, parity = 0;
  // For a consumer whose stages a pair of blocks fills: the first block of the pair, and how many
  // of its releases a producer will still wait for. Later releases are not sent, so that none
  // reaches a block that has exited.
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
  // `releases`: the consumer warpgroups, in all blocks that share a stage, that release it.
  SINTER_DEVICE void init(u32 releases) const {
    for (u32 s = 0; s < kStages; ++s) {
      mbarrier_init(full(s), 1);
      mbarrier_init(empty(s), releases);
    }
  }
};

}  // namespace sinter
