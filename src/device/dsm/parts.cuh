// Parts of f32 tiles as registers hold them, and how ranks' parts are folded into one.
//
// A part is `kRegisters` floats of each thread, whatever element each of them stands for: all ranks
// must agree on it, as they do when equal tiles lie in equal accumulators. A chunk is four
// registers, the unit that travels: 16 bytes a thread, 512 adjacent ones a warp, so that neither
// sending nor reading conflicts in shared memory.
#pragma once
#include "dsm/group.cuh"

namespace sinter {

// Which rank owns which chunks: rank r those from first(r) to first(r + 1), ceil or floor of an
// even share, none where there are fewer chunks than ranks.
template <int kRegisters, int kRanks>
struct DsmShares {
  static_assert(kRegisters % 4 == 0, "chunks have four registers");
  static constexpr int kChunks = kRegisters / 4;
  static constexpr int kMost = (kChunks + kRanks - 1) / kRanks;  // of any rank
  static SINTER_DEVICE constexpr int first(int rank) { return kChunks * rank / kRanks; }
  static SINTER_DEVICE constexpr int count(int rank) { return first(rank + 1) - first(rank); }
};

// Folds: take() is called once for each rank, in rank order, so that results do not depend on
// timing and are the same bits on every rank.
struct DsmAdd {
  template <int kRanks>
  struct Fold {
    float sum = 0;
    SINTER_DEVICE void take(int, float x) { sum += x; }
    SINTER_DEVICE float result() const { return sum; }
  };
};

// The spatial form of a gated product: the first half of the ranks hold parts of the gate, the
// second half parts of up, each half's K split over its ranks. act(sum of gate) * sum of up.
template <class Activation>
struct DsmMul {
  template <int kRanks>
  struct Fold {
    static_assert(kRanks % 2 == 0, "half of the ranks hold the gate");
    float gate = 0, up = 0;
    SINTER_DEVICE void take(int source, float x) { (source < kRanks / 2 ? gate : up) += x; }
    SINTER_DEVICE float result() const { return Activation::apply(gate) * up; }
  };
};

// Byte of a thread's chunk in a row of chunks.
template <class Group>
SINTER_DEVICE u32 chunk_at(int chunk, int thread) {
  return static_cast<u32>(chunk * Group::kThreads + thread) * 16;
}

template <int kRegisters>
SINTER_DEVICE Word4 chunk_of(const float (&d)[kRegisters], int chunk) {
  return {__float_as_uint(d[4 * chunk]), __float_as_uint(d[4 * chunk + 1]),
          __float_as_uint(d[4 * chunk + 2]), __float_as_uint(d[4 * chunk + 3])};
}

template <int kRegisters>
SINTER_DEVICE void set_chunk(float (&d)[kRegisters], int chunk, Float4 v) {
  d[4 * chunk] = v.x, d[4 * chunk + 1] = v.y, d[4 * chunk + 2] = v.z, d[4 * chunk + 3] = v.w;
}

}  // namespace sinter
