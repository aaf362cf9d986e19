// The threads that share a unit, and what they do together: warp composition by shuffles, block
// composition through shared memory, cluster composition through distributed shared memory, grid
// composition by a barrier.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "stitch/math.cuh"

namespace sinter {

SINTER_DEVICE u32 word_bits(float x) { return __float_as_uint(x); }
SINTER_DEVICE u32 word_bits(int x) { return static_cast<u32>(x); }
SINTER_DEVICE void from_bits(float& x, u32 bits) { x = __uint_as_float(bits); }
SINTER_DEVICE void from_bits(int& x, u32 bits) { x = static_cast<int>(bits); }

// One partial result that a group joins in place.
template <class Join_, class Word_>
struct Partial {
  using Join = Join_;
  using Word = Word_;
  Word& value;
};

// Joins over kLanes neighbouring lanes, which call together. All get the same bits.
template <class Join, int kLanes, class Word>
SINTER_DEVICE Word join_lanes(Word value) {
  const u32 first = threadIdx.x % 32 / kLanes * kLanes;
  const u32 lanes = (0xFFFFFFFFu >> (32 - kLanes)) << first;
#pragma unroll
  for (int lane = kLanes / 2; lane > 0; lane /= 2)
    value = Join::join(value, __shfl_xor_sync(lanes, value, lane));
  return value;
}

// kThreads of a block of kBlock share a unit, with those of kCluster blocks. Group g of a block has
// threads [g * kThreads, (g + 1) * kThreads).
//
// `scratch` is shared memory of kWords words for each of kSlots results, twice. Reductions
// alternate between the two, so that one barrier a reduction is enough: a thread enters the next
// but one only after all have read the first. A cluster takes two barriers, one of the block and
// one of the cluster.
template <int kBlock, int kThreads, int kCluster, int kSlots>
struct UnitGroup {
  static constexpr int kWarps = kThreads / 32;  // 0: a part of a warp
  static constexpr int kGroups = kBlock / kThreads;
  static constexpr int kWidth = kThreads < 32 ? kThreads : 32;
  static constexpr int kWarpWords = kWarps > 1 ? kWarps : 0;
  static constexpr int kWords = kWarpWords + (kCluster > 1 ? kCluster : 0);  // of a result
  static constexpr int kScratchBytes = (2 * kGroups * kSlots * kWords * 4 + 15) / 16 * 16;

  u32* scratch;
  int turn = 0;
  bool peers_run = kCluster == 1;  // so that their shared memory may be written

  // In a cluster every thread has arrived at the cluster barrier (relaxed). The first reduction, or
  // the end, waits there until the peers run. Loads before it are in flight meanwhile.
  SINTER_DEVICE explicit UnitGroup(u32* shared)
      : scratch(shared + threadIdx.x / kThreads * (2 * kSlots * kWords)) {}
  SINTER_DEVICE ~UnitGroup() { await_peers(); }

  static SINTER_DEVICE void meet() {
    if constexpr (kGroups == 1)
      __syncthreads();
    else
      named_barrier(1 + threadIdx.x / kThreads, kThreads);
  }

  // Makes what threads of the group have written to shared memory visible to all of them.
  static SINTER_DEVICE void share() {
    if constexpr (kThreads > 32)
      meet();
    else if constexpr (kThreads > 1)
      __syncwarp();
  }

  // Every thread of the group holds the joined results afterwards, bit for bit the same ones.
  template <class... Parts>
  SINTER_DEVICE void reduce(Parts... parts) {
    (within_warp(parts), ...);
    if constexpr (kWarps > 1 || kCluster > 1) {
      u32* slots = scratch + turn * (kSlots * kWords);
      turn ^= 1;
      if constexpr (kWarps > 1) across_warps(slots, parts...);
      if constexpr (kCluster > 1) across_blocks(slots, parts...);
    }
  }

 private:
  SINTER_DEVICE void await_peers() {
    if (!peers_run) cluster_wait();
    peers_run = true;
  }

  template <class Part>
  static SINTER_DEVICE void within_warp(Part part) {
#pragma unroll
    for (int lane = kWidth / 2; lane > 0; lane /= 2)
      part.value = Part::Join::join(part.value, __shfl_xor_sync(0xFFFFFFFFu, part.value, lane));
  }

  template <class Part>
  static SINTER_DEVICE void read(Part part, const u32* words) {
    typename Part::Word joined = Part::Join::empty(typename Part::Word{});
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      typename Part::Word one;
      from_bits(one, words[w]);
      joined = Part::Join::join(joined, one);
    }
    part.value = joined;
  }

  template <class... Parts>
  static SINTER_DEVICE void across_warps(u32* slots, Parts... parts) {
    const int warp = threadIdx.x % kThreads / 32;
    int slot = 0;
    if (threadIdx.x % 32 == 0) ((slots[slot++ * kWords + warp] = word_bits(parts.value)), ...);
    meet();
    slot = 0;
    (read(parts, slots + slot++ * kWords), ...);
  }

  template <class Part>
  static SINTER_DEVICE void push(Part part, u32* word) {
    const u32 rank = threadIdx.x;
    if (rank >= kCluster) return;
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(
                     map_to_rank(shared_address(word + cluster_rank()), rank)),
                 "r"(word_bits(part.value))
                 : "memory");
  }

  template <class Part>
  static SINTER_DEVICE void read_blocks(Part part, const u32* words) {
    typename Part::Word joined = Part::Join::empty(typename Part::Word{});
#pragma unroll
    for (int b = 0; b < kCluster; ++b) {
      typename Part::Word one;
      from_bits(one, *const_cast<const volatile u32*>(words + b));
      joined = Part::Join::join(joined, one);
    }
    part.value = joined;
  }

  // Thread b tells block b; the cluster's barrier publishes it.
  template <class... Parts>
  SINTER_DEVICE void across_blocks(u32* slots, Parts... parts) {
    await_peers();
    int slot = 0;
    (push(parts, slots + slot++ * kWords + kWarpWords), ...);
    cluster_arrive();
    cluster_wait();
    slot = 0;
    (read_blocks(parts, slots + slot++ * kWords + kWarpWords), ...);
  }
};

// Grid composition: a barrier of all blocks of a cooperative launch.

// The word's highest bit flips when the last block arrives: block 0 adds 2^31 minus the number of
// other blocks, which add 1 each. The other bits are 0 again then, so launches of different grids
// may take turns on one word. Called by all threads; every block is resident.
SINTER_DEVICE void grid_barrier(u32* word) {
  constexpr u32 kHalf = 0x80000000u;
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 own = blockIdx.x == 0 ? kHalf - (gridDim.x - 1) : 1;
    u32 before;
    jitter();
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(word), "r"(own)
                 : "memory");
    SpinGuard guard;
    while (((load_acquire_gpu(word) ^ before) & kHalf) == 0) guard.turn();
  }
  __syncthreads();
}

}  // namespace sinter
