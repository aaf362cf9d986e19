// Kernels of one exchange each for the simulator, with waits and barriers as the kernels of
// src/device/kernels have them: parts are small integers, so that sums are exact, and what an
// exchange stores is compared where it is stored.
#pragma once

#include "handover/dsm_reduce_scatter.cuh"
#include "handover/dsm_shuffle.cuh"
#include "handover/inter_cluster_reduce.cuh"
#include "tests/unit/handover/simulator.h"

namespace sinter::handover_simulator {

constexpr u32 kFull = 0, kEmpty = 8, kFull2 = 16, kEmpty2 = 24, kGiven = 32, kTaken = 40;
constexpr u32 kInbox = 1024;

struct Outcome {
  std::string error;
  uint64_t compared = 0, wrong = 0, remote_bytes = 0;

  void Expect(float got, float wanted) {
    ++compared;
    if (!(got == wanted)) ++wrong;
  }
};

// What `rank` has of an element in a round.
inline float ValueOf(int round, int rank, int row, int column) {
  u32 x = static_cast<u32>(row * 512 + column) * 0x9E3779B9u ^
          static_cast<u32>(rank) * 0x85EBCA6Bu ^ static_cast<u32>(round) * 0xC2B2AE35u;
  x ^= x >> 15;
  x *= 0x2C1B3C6Du;
  return static_cast<float>(static_cast<int>(x >> 27) - 16);
}

inline float Sum(int round, int first, int last, int row, int column) {
  float sum = 0;
  for (int rank = first; rank < last; ++rank) sum += ValueOf(round, rank, row, column);
  return sum;
}

// A tile of kBlockM rows and kColumns columns in clusters of kCluster blocks, one consumer
// warpgroup a block, or two side by side.
template <int kCluster_, int kBlockM_, int kColumns_, bool kSwapped_ = false, int kWarpgroupsN_ = 1>
struct Shared {
  using Element = Integer16;
  using Result = Element;
  static constexpr int kCluster = kCluster_, kBlockM = kBlockM_, kColumns = kColumns_;
  static constexpr int kBlockK = 64, kStages = 2, kWarpgroupsM = 1, kWarpgroupsN = kWarpgroupsN_;
  static constexpr int kSharers = 1, kThreads = 128 * kWarpgroupsN;
  static constexpr bool kWeightsTransposed = false, kSwapped = kSwapped_;

  static WarpgroupPlace Place() {
    const int thread = simulator->Thread();
    return {0, thread / 128, thread % 128};
  }
};

// Takes both sums as they are: the gate's, or the only one, and up's.
struct Sums {
  struct {
    float at(int) const { return 1; }
  } scaling;
  static constexpr int kTermWords = 0;
  static constexpr bool kWhole = false, kEndsInRelu = false;
  struct TermPair {
    ColumnTerms of(int) const { return {}; }
  };
  TermPair terms(int) const { return {}; }
  float apply(float gate, float up, float scale, const ColumnTerms&) const {
    return scale * (gate + 4 * up);
  }
};

// Compares what is stored. Rows of round r begin at r * kBlockM.
template <class Config, int kWidth>
struct Comparer {
  using Element = Integer16;
  Outcome* outcome;
  int ranks;  // with a gate apart: half of them have it
  bool apart = false;
  int rows = 1 << 20;  // of the matrix

  void element(int row, int column, u16 bits) const {
    const int round = row / Config::kBlockM, r = row % Config::kBlockM;
    const int gates = apart ? ranks / 2 : ranks;
    float wanted = Sum(round, 0, gates, r, column);
    if (apart) wanted += 4 * Sum(round, gates, ranks, r, column);
    if (kWidth == 2) wanted += 4 * Sum(round, 0, ranks, r, Config::kColumns + column);
    outcome->Expect(Integer16::unpack(bits), wanted);
  }
  void pair(int row, int column, u32 v) const {
    element(row, column, static_cast<u16>(v));
    element(row, column + 1, static_cast<u16>(v >> 16));
  }
  void group(int row, int column, Word4 v) const {
    const u32 words[4] = {v.x, v.y, v.z, v.w};
    for (int i = 0; i < 4; ++i) pair(row, column + 2 * i, words[i]);
  }
};

// A thread's accumulators of round `round`; columns of up follow the columns of the gate.
template <class Config, class P>
void FillPart(int round, int rank, float (&d)[P::kAccumulators]) {
  const WarpgroupPlace place = Config::Place();
  if constexpr (Config::kSwapped) {
    const SwappedPlace<P> at(place);
    constexpr int kSets = P::kHalf / kWarpgroupRows;
    for (int i = 0; i < P::kAccumulators; ++i) {
      const int set = i / (Config::kBlockM / 2), j = i % (Config::kBlockM / 2);
      const int row = 8 * (j / 4) + at.row + j % 2;
      const int column =
          set / kSets * P::kBlockN + at.column + set % kSets * kWarpgroupRows + 8 * (j % 4 / 2);
      d[i] = ValueOf(round, rank, row, column);
    }
  } else {
    for (int i = 0; i < P::kAccumulators; ++i) {
      const int g = i / 4, half = i % 4 / 2, matrix = g / P::kGroups;
      const int row = accumulator_row(place.thread) + 8 * half;
      const int column = matrix * P::kBlockN + place.n * P::kHalf +
                         accumulator_column(place.thread, g % P::kGroups) + i % 2;
      d[i] = ValueOf(round, rank, row, column);
    }
  }
}

inline void InitAndJoin(const std::vector<std::pair<u32, u32>>& barriers) {
  if (simulator->Thread() == 0) {
    for (const auto& [barrier, arrivals] : barriers) mbarrier_init(barrier, arrivals);
  }
  cluster_arrive();
  cluster_wait();
}

// dsm_reduce_scatter by groups of kRanks neighbours, a few tiles. kTwoProducts: then as many of
// another product, over the same parts.
template <class Config, int kRanks, int kWidth = 1, bool kGate = false, bool kTwoProducts = false>
struct ReduceScatterRun {
  using P = Product<Config, kWidth, Config::kColumns, 64 * kRanks, Config::kColumns, kRanks>;
  static constexpr int kTiles = 3, kRounds = kTiles * (kTwoProducts ? 2 : 1);
  static constexpr uint64_t kCompared =
      uint64_t{kRounds} * Config::kCluster / kRanks * Config::kBlockM * Config::kColumns;
  // As `ReduceTraffic` of src/product/search/product_load.h has them: a rank's own part takes the
  // same way.
  static constexpr uint64_t kBytes =
      uint64_t{4} * kRounds * Config::kCluster * Config::kBlockM * kWidth * Config::kColumns;

  static Outcome Run(uint64_t seed, const Mutation& mutation) {
    Simulator machine({1, Config::kCluster, Config::kThreads}, seed, mutation);
    Outcome outcome;
    outcome.error = machine.Run([&] {
      InitAndJoin({{kFull, 1}, {kEmpty, kRanks}, {kFull2, 1}, {kEmpty2, kRanks}});
      const int rank = machine.Rank() % kRanks, first = machine.Rank() - rank;
      DsmReduceScatter<Config, P, kGate> one{kInbox, kFull, kEmpty, first, rank, true};
      Tiles(one, 0, &outcome);
      if (!kTwoProducts) return;
      DsmReduceScatter<Config, P, kGate> two{kInbox, kFull2, kEmpty2, first, rank, false};
      two.release();
      Tiles(two, kTiles, &outcome);
    });
    outcome.remote_bytes = machine.remote_bytes();
    return outcome;
  }

 private:
  template <class Reduce>
  static void Tiles(Reduce& reduce, int round, Outcome* outcome) {
    const Comparer<Config, kWidth> writer{outcome, kRanks, kGate};
    for (int i = 0; i < kTiles; ++i, ++round) {
      float d[P::kAccumulators];
      FillPart<Config, P>(round, reduce.rank, d);
      const int row = round * Config::kBlockM;
      const float scale = reduce.scale_of(reduce.first_unit(), Sums(), row);
      const auto terms = reduce.terms_of(reduce.first_unit(), Sums(), 0);
      reduce.run(d, Config::Place(), Sums(), scale, terms, writer, row, 0, i + 1 < kTiles,
                 NoMatrix());
    }
  }
};

// dsm_shuffle: every block has kColumns / kCluster columns of a slab, and ends up with all.
template <class Config, bool kPairs = false>
struct ShuffleRun {
  static constexpr int kOwn = Config::kColumns / Config::kCluster;
  static constexpr uint64_t kElements = uint64_t{Config::kBlockM} * Config::kColumns;
  static constexpr uint64_t kCompared = Config::kCluster * kElements;
  static constexpr uint64_t kBytes = 2 * Config::kCluster * kElements;  // to the own block too

  static Outcome Run(uint64_t seed, const Mutation& mutation) {
    Simulator machine({1, Config::kCluster, Config::kThreads}, seed, mutation);
    Outcome outcome;
    outcome.error = machine.Run([&] {
      const DsmShuffle<Config, Config::kColumns> writer{kInbox, kFull};
      if (machine.Thread() == 0) {
        mbarrier_init(kFull, 1);
        mbarrier_arrive_expect(kFull, writer.kBytes);
      }
      InitAndJoin({});
      Write(writer, machine.Rank());
      dsm_shuffle_wait<Config>(kFull);
      Read(&outcome);
    });
    outcome.remote_bytes = machine.remote_bytes();
    return outcome;
  }

 private:
  static u32 WordAt(int row, int column) {
    return Integer16::pack(ValueOf(0, 0, row, column), ValueOf(0, 0, row, column + 1));
  }
  template <class Writer>
  static void Write(const Writer& writer, int rank) {
    constexpr int kStep = kPairs ? 2 : 8;
    for (int i = simulator->Thread(); i < Config::kBlockM * kOwn / kStep; i += Config::kThreads) {
      const int row = i % Config::kBlockM, c = rank * kOwn + i / Config::kBlockM * kStep;
      if constexpr (kPairs)
        writer.pair(row, c, WordAt(row, c));
      else
        writer.group(
            row, c,
            Word4{WordAt(row, c), WordAt(row, c + 2), WordAt(row, c + 4), WordAt(row, c + 6)});
    }
  }
  static void Read(Outcome* outcome) {
    for (int i = simulator->Thread(); i < Config::kBlockM * Config::kColumns / 2;
         i += Config::kThreads) {
      const int row = i % Config::kBlockM, c = i / Config::kBlockM * 2;
      const u32 word = load_shared_word(
          kInbox + static_cast<u32>(swizzled_offset<Integer16>(Config::kBlockM, row, c)));
      outcome->Expect(Integer16::unpack(static_cast<u16>(word)), ValueOf(0, 0, row, c));
      outcome->Expect(Integer16::unpack(static_cast<u16>(word >> 16)), ValueOf(0, 0, row, c + 1));
    }
  }
};

// inter_cluster_reduce: blocks of kParts clusters have parts of kCluster tiles. One thread that is
// not a consumer takes the tiles, as the rows warp of kernels/cluster_ranges.cuh does.
template <class Config, int kParts>
struct InterClusterRun {
  using P = Product<Config, 1, Config::kColumns, 64, Config::kColumns, 1>;
  using Parts = InterClusterReduce<Config, P, kParts>;
  static constexpr uint64_t kCompared =
      uint64_t{Config::kCluster} * Config::kBlockM * Config::kColumns;

  static Outcome Run(uint64_t seed, const Mutation& mutation) {
    Simulator machine({kParts, Config::kCluster, Config::kThreads + 1}, seed, mutation);
    std::vector<float> scratch(static_cast<size_t>(kParts * Parts::kStride));
    std::vector<u32> flags(static_cast<size_t>(kParts * Config::kCluster));
    Outcome outcome;
    outcome.error = machine.Run([&] {
      const Parts parts{&scratch[static_cast<size_t>(machine.Rank() * Parts::kTileFloats)],
                        machine.Cluster(), kInbox};
      InitAndJoin({{kGiven, 1}, {kTaken, 1}});
      if (machine.Thread() == Config::kThreads) return Take(parts, flags);
      if (machine.Thread() == 0) mbarrier_arrive_expect(kTaken, kParts * parts.share_bytes());
      Consume(parts, &flags, &outcome);
    });
    return outcome;
  }

 private:
  static void Take(const Parts& parts, const std::vector<u32>& flags) {
    mbarrier_wait(kGiven, 0);
    for (int i = 0; i < kParts; ++i) {
      const u32& flag = flags[static_cast<size_t>(i * Config::kCluster + simulator->Rank())];
      simulator->Await([&flag] { return flag == 1; });
    }
    fence_proxy_async_global();
    for (int i = 0; i < kParts; ++i) parts.take(i, kTaken);
  }
  static void Consume(const Parts& parts, std::vector<u32>* flags, Outcome* outcome) {
    float d[P::kAccumulators];
    FillPart<Config, P>(simulator->Rank(), simulator->Cluster(), d);
    parts.give(d, Config::Place());
    named_barrier(1, Config::kThreads);
    jitter();
    if (simulator->Thread() == 0) {
      (*flags)[static_cast<size_t>(simulator->Block())] = 1;
      mbarrier_arrive(kGiven);
    }
    mbarrier_wait(kTaken, 0);
    const Comparer<Config, 1> writer{outcome, kParts};
    parts.sum(Sums(), writer, simulator->Rank() * Config::kBlockM, 0, NoMatrix());
  }
};

}  // namespace sinter::handover_simulator
