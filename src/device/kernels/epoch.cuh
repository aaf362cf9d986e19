// The launch epoch, and waiting for blocks of other clusters by it: for kernels that are launched
// cooperatively.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"

namespace sinter {

constexpr int kEpochWarp = 2;  // beside kWeightsWarp and kRowsWarp
constexpr int kTagReady = 4;   // own barriers 0..3 may be reductions'

// Header of the workspace, shared by all plans that use it in turn. Word 0 is the epoch, the number
// of launches so far. Behind it are a greeting of each block and the ready flags, one word for each
// thing that blocks of other clusters wait for. A flag is up when it holds the launch's tag, epoch
// + 1, which flags of earlier launches never hold. Invariant: the epoch is raised once a launch,
// after every block has read it and written its greeting.
constexpr int kGreetings = 16, kMaxGrid = 240, kFlags = kGreetings + kMaxGrid;

// Whether all `count` words that `word(i)` points to hold `tag`. Called by one whole warp. Its
// loads are issued together, because each goes to L2.
template <class Word>
SINTER_DEVICE bool all_hold(int count, u32 tag, Word&& word) {
  bool held = true;
  for (int i = threadIdx.x % 32; i < count; i += 128) {
    u32 seen[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      seen[j] = i + 32 * j < count ? load_acquire_gpu(word(i + 32 * j)) : tag;
#pragma unroll
    for (int j = 0; j < 4; ++j) held = held && seen[j] == tag;
  }
  return __all_sync(0xFFFFFFFFu, held);
}

template <class Word>
SINTER_DEVICE void await_all(int count, u32 tag, Word&& word) {
  jitter();
  SpinGuard guard;
  while (!all_hold(count, tag, word)) guard.turn();
}

// The epoch warp reads the epoch, tells the other warps of the block and writes the block's
// greeting. In block 0 it also raises the epoch. Other warps need the tag only at the first flag.
SINTER_DEVICE void keep_epoch(u32* header, u32 tag_at, u32 tag_ready) {
  u32 tag = 0;
  if (threadIdx.x % 32 == 0) {
    tag = load_acquire_gpu(header) + 1;
    store_shared(tag_at, tag);
    mbarrier_arrive(tag_ready);
    store_relaxed_gpu(header + kGreetings + blockIdx.x, tag);
  }
  if (blockIdx.x != 0) return;
  tag = __shfl_sync(0xFFFFFFFFu, tag, 0);
  await_all(gridDim.x, tag, [&](int i) { return header + kGreetings + i; });
  if (threadIdx.x % 32 == 0) store_relaxed_gpu(header, tag);
}

SINTER_DEVICE u32 launch_tag(u32 tag_at, u32 tag_ready) {
  mbarrier_wait(tag_ready, 0);
  return load_shared_word(tag_at);
}

}  // namespace sinter
