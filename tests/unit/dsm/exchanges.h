// Kernels of one exchange each for the simulator: whole elements of small integers, so that sums
// are exact, compared where they arrive.
#ifndef SINTER_TESTS_UNIT_DSM_EXCHANGES_H_
#define SINTER_TESTS_UNIT_DSM_EXCHANGES_H_

#include <string>
#include <vector>

#include "dsm/dsm_comm.cuh"
#include "tests/unit/dsm/simulator.h"
#include "tile/activation.cuh"

namespace sinter::dsm_simulator {

constexpr u32 kBarriers = 0, kGo = 160, kInbox = 256;

struct Outcome {
  std::string error;
  uint64_t compared = 0, wrong = 0, remote_bytes = 0;
};

// The value of an element of `rank`'s part in a round; parts of other clusters are other ranks.
inline float ValueOf(int round, int rank, u32 element) {
  u32 x = element * 0x9E3779B9u ^ static_cast<u32>(rank) * 0x85EBCA6Bu ^
          static_cast<u32>(round) * 0xC2B2AE35u;
  x ^= x >> 15;
  x *= 0x2C1B3C6Du;
  return static_cast<float>(static_cast<int>(x >> 27) - 16);
}

// The shape of a run: groups of kRanks_ in clusters of kBlocks_.
template <int kBlocks_, int kRanks_, int kRegisters_, int kThreads_ = 32, int kClusters_ = 1>
struct Layout {
  static constexpr int kBlocks = kBlocks_, kRanks = kRanks_, kRegisters = kRegisters_,
                       kThreads = kThreads_, kClusters = kClusters_;
  using Group = DsmGroup<kRanks, kThreads, 1>;
  static Shape ShapeOf() { return {kClusters, kBlocks, kThreads}; }
};

// One thread's comparisons, added to the run's outcome.
struct Checker {
  Outcome* outcome;
  void Expect(float got, float wanted) const {
    ++outcome->compared;
    if (!(got == wanted)) ++outcome->wrong;
  }
};

template <class L>
u32 ElementOf(const typename L::Group& group, int r) {
  return static_cast<u32>((r / 4 * L::kThreads + group.thread) * 4 + r % 4);
}

template <class L>
void FillPart(const typename L::Group& group, int round, int rank, float (&d)[L::kRegisters]) {
  for (int r = 0; r < L::kRegisters; ++r) d[r] = ValueOf(round, rank, ElementOf<L>(group, r));
}

inline float Sum(int round, int first, int last, u32 element) {
  float sum = 0;
  for (int rank = first; rank < last; ++rank) sum += ValueOf(round, rank, element);
  return sum;
}

template <class L, bool kMul>
struct AllExchange {
  using Sizes = DsmAllExchange<typename L::Group, L::kRegisters>;
  static constexpr int kDeliveries = Sizes::kDeliveries;
  static void Round(const typename L::Group& group, DsmMailbox<kDeliveries>& box, int round,
                    const Checker& check) {
    float d[L::kRegisters];
    FillPart<L>(group, round, group.rank, d);
    if constexpr (kMul)
      dsm_all_exchange<DsmMul<Relu>>(group, box, d);
    else
      dsm_all_exchange<DsmAdd>(group, box, d);
    for (int r = 0; r < L::kRegisters; ++r) {
      const u32 e = ElementOf<L>(group, r);
      const float gate = Sum(round, 0, L::kRanks / 2, e),
                  up = Sum(round, L::kRanks / 2, L::kRanks, e);
      check.Expect(d[r], kMul ? (gate > 0 ? gate : 0) * up : gate + up);
    }
  }
};

template <class L>
struct ReduceScatterOnly {
  using Sizes = DsmReduceScatter<typename L::Group, L::kRegisters>;
  using Shares = typename Sizes::Shares;
  static constexpr int kDeliveries = 1;
  static void Round(const typename L::Group& group, DsmMailbox<1>& box, int round,
                    const Checker& check) {
    float d[L::kRegisters], share[Sizes::kShareRegisters];
    FillPart<L>(group, round, group.rank, d);
    dsm_reduce_scatter<DsmAdd>(group, box, d, share);
    for (int i = 0; i < Sizes::kShareRegisters; ++i) {
      const bool owned = i / 4 < Shares::count(group.rank);
      const u32 e = owned ? ElementOf<L>(group, 4 * Shares::first(group.rank) + i) : 0;
      check.Expect(share[i], owned ? Sum(round, 0, L::kRanks, e) : 0);
    }
  }
};

template <class L>
struct ShuffleOnly {
  using Sizes = DsmShuffle<typename L::Group, L::kRegisters * L::kThreads * 4>;
  static constexpr int kDeliveries = Sizes::kDeliveries;
  static void Round(const typename L::Group& group, DsmMailbox<kDeliveries>& box, int round,
                    const Checker& check) {
    Sizes::open(group, box);
    for (int r = 0; r < L::kRegisters; ++r) {
      const u32 e = ElementOf<L>(group, r);
      store_shared(Sizes::slice(box, group.rank) + 4 * e,
                   __float_as_uint(ValueOf(round, group.rank, e)));
    }
    Sizes::push(group, box);
    constexpr int kWords = Sizes::kSliceBytes / 4;
    for (int hop = 0; hop < L::kRanks; ++hop) {
      const int source = (group.rank + hop) % L::kRanks;
      Sizes::await(group, box, source);
      for (int e = kWords - 1 - group.thread; e >= 0; e -= L::kThreads) {
        const u32 got = load_shared_word(Sizes::slice(box, source) + 4 * static_cast<u32>(e));
        float value;
        std::memcpy(&value, &got, sizeof value);
        check.Expect(value, ValueOf(round, source, static_cast<u32>(e)));
      }
    }
    Sizes::release(group, box);
  }
};

// One mailbox's life in a run. In a staggered one a group begins when the one before it has ended.
template <class L, class Exchange>
Outcome RunExchange(uint64_t seed, bool staggered, const Mutation& mutation, bool drain = true) {
  Simulator machine(L::ShapeOf(), seed, mutation);
  Outcome outcome;
  outcome.error = machine.Run([&] {
    const int rank = machine.Rank(), index = rank / L::kRanks;
    const typename L::Group group{index * L::kRanks, rank % L::kRanks, machine.Thread()};
    DsmMailbox<Exchange::kDeliveries> box{kInbox, kBarriers};
    if (group.thread == 0) {
      box.init(L::kRanks);
      mbarrier_init(kGo, 1);
    }
    dsm_join();
    if (index >= L::kBlocks / L::kRanks) return;
    if (staggered && index > 0) mbarrier_wait_cluster(kGo, 0);
    const int rounds = 3 + index % 2;
    for (int round = 0; round < rounds; ++round)
      Exchange::Round(group, box, round + 10 * machine.Cluster(), Checker{&outcome});
    if (drain) box.drain();
    if (staggered && rank + L::kRanks < L::kBlocks / L::kRanks * L::kRanks && group.thread == 0)
      mbarrier_arrive_remote(map_to_rank(kGo, static_cast<u32>(rank + L::kRanks)));
  });
  outcome.remote_bytes = machine.remote_bytes();
  return outcome;
}

// Parts of kClusters clusters, one tile a rank, `launches` times over one scratch.
template <class L, InterClusterOrder kOrder>
Outcome RunStore(uint64_t seed, int launches, const Mutation& mutation) {
  constexpr int kTileFloats = L::kRegisters * L::kThreads;
  std::vector<float> scratch(static_cast<size_t>(L::kBlocks * L::kClusters * kTileFloats));
  std::vector<u32> counters(L::kBlocks);
  Outcome outcome;
  for (int launch = 0; launch < launches && outcome.error.empty(); ++launch) {
    Simulator machine(L::ShapeOf(), seed * 100 + static_cast<uint64_t>(launch), mutation);
    outcome.error = machine.Run([&] {
      const int rank = machine.Rank();
      const typename L::Group group{0, rank % L::kRanks, machine.Thread()};
      float d[L::kRegisters];
      FillPart<L>(group, launch, machine.Cluster(), d);
      const InterClusterTile tile{&scratch[static_cast<size_t>(rank * L::kClusters * kTileFloats)],
                                  &counters[static_cast<size_t>(rank)], machine.Cluster(),
                                  L::kClusters, kInbox};
      if (!inter_cluster_reduce<kOrder>(group, d, tile)) return;
      for (int r = 0; r < L::kRegisters; ++r)
        Checker{&outcome}.Expect(d[r], Sum(launch, 0, L::kClusters, ElementOf<L>(group, r)));
    });
  }
  return outcome;
}

}  // namespace sinter::dsm_simulator

#endif  // SINTER_TESTS_UNIT_DSM_EXCHANGES_H_
