// Ring of shared-memory stages between one producer warp and the consumer warpgroups.
// Invariant: stage s is the producer's from a completed phase of empty[s] until its bytes arrive on
// full[s], and the consumers' from then until each warpgroup has arrived on empty[s].
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/types.cuh"

namespace sinter {

// A position in the ring. `parity` is the phase that a consumer waits for on full[stage]; the
// producer waits for the other.
template <int kStages>
struct Cursor {
  u32 stage = 0, parity = 0;
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
  SINTER_DEVICE void init(u32 consumer_warpgroups) const {
    for (u32 s = 0; s < kStages; ++s) {
      mbarrier_init(full(s), 1);
      mbarrier_init(empty(s), consumer_warpgroups);
    }
  }
};

}  // namespace sinter
