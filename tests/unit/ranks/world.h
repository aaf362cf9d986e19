// A group of ranks for the explorer: what each runs, with data whose sums the host knows, and what
// must hold after each call and at the end.
#pragma once

#include "kernels/all_gather.cuh"
#include "kernels/all_reduce.cuh"
#include "ranks/push.cuh"
#include "src/base/peer_memory.h"
#include "tests/support/test.h"
#include "tests/unit/ranks/explorer.h"

namespace sinter {

// A block of one thread.
template <>
inline float block_sum<1>(float x) {
  return x;
}

}  // namespace sinter

namespace sinter::rank_explorer {

static_assert(offsetof(GroupControl, outcome) == 8 && kSlotsAt == 4096, "explorer.cc says so too");

// What the host writes is what kernels read.
static_assert(sizeof(RankRoom) == sizeof(GroupControl) &&
              offsetof(RankRoom, epoch) == offsetof(GroupControl, epoch) &&
              offsetof(RankRoom, outcome) == offsetof(GroupControl, outcome) &&
              offsetof(RankRoom, rank) == offsetof(GroupControl, rank) &&
              offsetof(RankRoom, timeout_ns) == offsetof(GroupControl, timeout_ns) &&
              offsetof(RankRoom, slot_vectors) == offsetof(GroupControl, slot_vectors) &&
              offsetof(RankRoom, host_words) == offsetof(GroupControl, host_words) &&
              offsetof(RankRoom, rooms) == offsetof(GroupControl, rooms));
static_assert(RankRoom::kMaxRanks == kMaxRanks && RankRoom::kHeadersAt == kHeadersAt &&
              RankRoom::kSlotsAt == kSlotsAt && RankRoom::kEmptyByte == (kEmpty & 0xFF) &&
              RankRoom::kProofsAt >= sizeof(GroupControl));
static_assert(RankRoom::kTimedOut == kTimedOut && RankRoom::kMismatch == kMismatch &&
              RankRoom::kAborted == kWasAborted);

constexpr int kSlotVectors = 4, kMaxRows = 2, kVectorElements = 8;
constexpr uint64_t kTimeout = 100;  // less than a step of the explorer's clock

// kHalfPushed: the kernel before the sum pushes the first vector of each row, the sum the second.
// kVector: two shots, whose program also reads a vector of columns, of ones.
// kNorm: two shots of rows of two vectors, with their norms. kOneShotNorm: one shot of such rows.
enum class Form {
  kOneShot,
  kTwoShot,
  kScatter,
  kGather,
  kPushed,
  kHalfPushed,
  kVector,
  kNorm,
  kOneShotNorm
};

template <int kRanks_, Form kForm, class Result_, bool kByRows_>
struct Config {
  static constexpr bool kNorm = kForm == Form::kNorm || kForm == Form::kOneShotNorm;
  static constexpr bool kNormRounded = false;
  static constexpr int kRowVectorsOfX = kForm == Form::kHalfPushed || kNorm ? 2 : 1;
  static constexpr float kEps = 1;
  static constexpr int kRanks = kRanks_, kThreads = 1, kAhead = 1, kTogether = 1;
  static constexpr int kColumns = kVectorElements * kRowVectorsOfX;
  static constexpr int kRowVectors = 1;  // of a gather
  using Element = BFloat16;
  using Result = Result_;
  static constexpr bool kTwoShot =
      kForm == Form::kTwoShot || kForm == Form::kVector || kForm == Form::kNorm;
  static constexpr bool kScatter = kForm == Form::kScatter;
  static constexpr int kPushedColumns = kForm == Form::kPushed       ? kColumns
                                        : kForm == Form::kHalfPushed ? kVectorElements
                                                                     : 0;
  static constexpr bool kByRows = kByRows_;
  struct Program {
    static constexpr int kFirst = 0, kLeaves = kForm == Form::kVector ? 2 : 1, kMatrices = 1;
    static constexpr bool kApplies = true, kRounded = kTwoShot;
    template <class Leaf>
    static float apply(float y, const Leaf& leaf) {
      return kLeaves == 2 ? y + leaf(0) + leaf(1) : y + leaf(0);
    }
  };
  struct TimesGamma {
    static constexpr int kFirst = 1, kLeaves = 1, kMatrices = 0;
    static constexpr bool kApplies = true, kRounded = false;
    template <class Leaf>
    static float apply(float y, const Leaf& leaf) {
      return y * leaf(0);
    }
  };
  using NormProgram = std::conditional_t<kNorm, TimesGamma, NoProgram>;
};

// The calls of each rank: rows and plan of each call. All calls are equal by default.
struct Calls {
  std::vector<int> rows = {1, 1, 1, 1};
  uint64_t digest = 0x123456789ABCDEFull;
};

// All are integers that sums of two to eight of them keep exact in bf16. `part`: the part of a
// rank's scattered input.
float XOf(int rank, int call, int row, int i, int part = 0) {
  return static_cast<float>(1 + (rank * 5 + call * 3 + row * 2 + i + part * 7) % 16);
}
// Each rank adds its own.
float ResidualOf(int rank, int row, int i) { return static_cast<float>((rank * 3 + row + i) % 4); }

// A call is a kernel; where x is pushed, one that does so and one that sums.
template <int kRanks, Form kForm = Form::kOneShot, class Result = BFloat16, bool kByRows = false>
class World {
 public:
  explicit World(std::vector<Calls> calls) : calls_(std::move(calls)) { calls_.resize(kRanks); }

  Subject Make(int call_count) {
    Subject subject;
    subject.reset = [this] { Reset(); };
    subject.room = [this](int rank) { return ranks_[rank].room; };
    subject.room_bytes = sizeof(Rank::room);
    subject.host_words = [this](int rank) { return ranks_[rank].host_words; };
    subject.kernel = [this](int rank, int kernel) { Kernel(rank, kernel); };
    subject.after_call = [this](int rank, int kernel) {
      const bool sums = kernel % kKernels == kKernels - 1;
      return sums ? AfterCall(rank, kernel / kKernels) : std::string();
    };
    subject.at_end = [this, call_count](const std::vector<bool>& ended) {
      return AtEnd(call_count / kKernels, ended);
    };
    return subject;
  }

  // The allowed final states of ranks that live.
  std::vector<uint32_t> endings = {0};
  bool all_end_alike = false;
  uint32_t x_bits = 0;  // not 0: every pair of elements of rank 0

 private:
  using Own = Config<kRanks, kForm, Result, kByRows>;
  using Values = AllReduceValues<Own>;
  using Y = typename Values::Y;
  static constexpr int kElements = Own::kColumns, kVectors = Own::kRowVectorsOfX;
  static constexpr int kOut = Values::kOut * kVectors;  // of a row
  static constexpr int kXParts = kForm == Form::kScatter ? kRanks : 1;
  static constexpr int kOutParts = kForm == Form::kGather ? kRanks : 1;
  static constexpr int kKernels = Own::kPushedColumns > 0 ? 2 : 1;  // of a call
  static constexpr int kSlots = 2 * kRanks * kSlotVectors;
  struct alignas(16) Rank {
    unsigned char room[kSlotsAt + kSlots * 16];
    Word4 residual[kMaxRows][kOut], out[kMaxRows * kOutParts][kOut];
    Word4 gamma[kOut], normed[kMaxRows][kOut];
    uint32_t host_words[2];
  };

  GroupControl* control(int rank) { return reinterpret_cast<GroupControl*>(ranks_[rank].room); }

  void Reset() {
    std::memset(ranks_, 0, sizeof ranks_);
    for (int r = 0; r < kRanks; ++r) {
      std::memset(ranks_[r].room + kSlotsAt, 0xFF, kSlots * 16);
      GroupControl& own = *control(r);
      own.rank = static_cast<u32>(r);
      own.timeout_ns = kTimeout;
      own.slot_vectors = kSlotVectors;
      own.host_words = ranks_[r].host_words;
      for (int peer = 0; peer < kRanks; ++peer) own.rooms[peer] = ranks_[peer].room;
      const float ones[2] = {1, 1};
      for (int i = 0; i < kElements / Y::kElements; ++i) WordAt(own_gamma(r), i) = Y::of(ones);
      for (int row = 0; row < kMaxRows; ++row) {
        for (int i = 0; i < kElements; i += Y::kElements) {
          const float pair[2] = {ResidualOf(r, row, i), ResidualOf(r, row, i + 1)};
          WordAt(ranks_[r].residual[row], i / Y::kElements) = Y::of(pair);
        }
      }
    }
  }

  Word4* own_gamma(int rank) { return ranks_[rank].gamma; }
  static u32& WordAt(Word4* v, int i) { return (&v[i / 4].x)[i % 4]; }

  // Row of a part in a matrix of all parts.
  static int RowOf(int part, int row, int rows) {
    return kByRows ? part * rows + row : row * kRanks + part;
  }

  // Plays the kernel before a sum of pushed rows: it pushes them.
  void Push(int rank, const Word4 (*x)[kVectors], const CallHeader& header) {
    wait_for_predecessors();
    const Pusher<kRanks> pusher(control(rank), header, blockIdx.x == 0);
    const int step = static_cast<int>(gridDim.x);
    for (int row = static_cast<int>(blockIdx.x); row < static_cast<int>(header.rows); row += step) {
      const Word4& v = x[row][0];
      const u64 at = static_cast<u64>(row) * kVectors;
      if (row % 2 == 0) {
        pusher.vector(at, v);
      } else {
        for (int i = 0; i < 4; ++i) pusher.word(4 * at + i, (&v.x)[i]);
      }
    }
  }

  void Kernel(int rank, int kernel) {
    const int call = kernel / kKernels;
    Rank& own = ranks_[rank];
    const Calls& calls = calls_[static_cast<size_t>(rank)];
    const int rows = calls.rows[static_cast<size_t>(call)];
    for (int part = 0; part < kXParts; ++part) {
      for (int row = 0; row < rows; ++row) {
        Word4* x = x_[rank][call][kXParts > 1 ? RowOf(part, row, rows) : row];
        for (int i = 0; i < kElements; i += 2) {
          const u32 pair =
              BFloat16::pack(XOf(rank, call, row, i, part), XOf(rank, call, row, i + 1, part));
          WordAt(x, i / 2) = x_bits != 0 && rank == 0 ? x_bits : pair;
        }
      }
    }
    if (kernel % kKernels != kKernels - 1) {
      Push(rank, x_[rank][call], {static_cast<u32>(rows), calls.digest});
    } else if constexpr (kForm == Form::kGather) {
      all_gather<Own>({control(rank), x_[rank][call], own.out, rows, calls.digest});
    } else {
      AllReduceArguments args{control(rank), x_[rank][call], {}, own.out, own.normed};
      args.leaves[0] = own.residual, args.leaves[1] = own.gamma;
      args.rows = rows, args.digest = calls.digest;
      all_reduce<Own>(args);
    }
  }

  std::string AfterCall(int rank, int call) {
    if (control(rank)->outcome != 0) return "";
    const int rows = calls_[static_cast<size_t>(rank)].rows[static_cast<size_t>(call)];
    for (int part = 0; part < kOutParts; ++part) {
      for (int row = 0; row < rows; ++row) {
        Word4* out = ranks_[rank].out[kOutParts > 1 ? RowOf(part, row, rows) : row];
        for (int i = 0; i < kElements; ++i) {
          const float want = Want(rank, call, row, i, part);
          const float got = Y::at(WordAt(out, i / Y::kElements), i % Y::kElements);
          const bool right = x_bits == 0 || (kOutParts > 1 && part > 0) ? got == want : got != got;
          if (!right) {
            return "rank " + std::to_string(rank) + " has " + std::to_string(got) + " for " +
                   std::to_string(want) + " in call " + std::to_string(call);
          }
        }
      }
    }
    if (Own::kNorm) return AfterNorm(rank, rows);
    return "";
  }

  // The error in the normed rows, if the rows themselves are right.
  std::string AfterNorm(int rank, int rows) {
    for (int row = 0; row < rows; ++row) {
      const auto at = [&](Word4* v, int i) {
        return Y::at(WordAt(v, i / Y::kElements), i % Y::kElements);
      };
      float square = 0;
      for (int i = 0; i < kElements; ++i) square += std::pow(at(ranks_[rank].out[row], i), 2.0f);
      const float factor = 1 / std::sqrt(square / kElements + Own::kEps);
      for (int i = 0; i < kElements; ++i) {
        const float want = at(ranks_[rank].out[row], i) * factor;
        const float got = at(ranks_[rank].normed[row], i);
        if (std::abs(got - want) > 0.01f * std::abs(want)) {
          return "rank " + std::to_string(rank) + " has the norm " + std::to_string(got) + " for " +
                 std::to_string(want);
        }
      }
    }
    return "";
  }

  static float Want(int rank, int call, int row, int i, int part) {
    if (kForm == Form::kGather) return XOf(part, call, row, i);
    float sum = ResidualOf(rank, row, i) + (kForm == Form::kVector ? 1 : 0);
    for (int r = 0; r < kRanks; ++r)
      sum += XOf(r, call, row, i, kForm == Form::kScatter ? rank : 0);
    return sum;
  }

  std::string AtEnd(int call_count, const std::vector<bool>& ended) {
    uint32_t first = 0;
    bool begun = false, all_live = true;
    for (int r = 0; r < kRanks; ++r) {
      if (!ended[static_cast<size_t>(r)]) {
        all_live = false;
        continue;
      }
      const uint32_t told = ranks_[r].host_words[0];
      const std::string who = "rank " + std::to_string(r);
      if (std::find(endings.begin(), endings.end(), told) == endings.end()) {
        return who + " ends with " + std::to_string(told);
      }
      if (begun && all_end_alike && told != first) return "ranks end differently";
      first = told;
      begun = true;
      if (told == 0 && control(r)->epoch != static_cast<u32>(call_count)) {
        return who + " has epoch " + std::to_string(control(r)->epoch);
      }
    }
    if (first != 0 || !all_live) return "";
    for (int r = 0; r < kRanks; ++r) {
      if (ranks_[r].host_words[0] != 0) return "";
      for (int i = 0; i < kSlots * 16; ++i) {
        if (ranks_[r].room[kSlotsAt + i] != 0xFF) return "a slot is not empty";
      }
    }
    return "";
  }

  std::vector<Calls> calls_;
  Rank ranks_[kRanks];
  Word4 x_[kRanks][4][kMaxRows * kXParts][kVectors];
};

constexpr uint32_t TimedOut(int rank) { return kTimedOut | static_cast<uint32_t>(rank) << 8; }
constexpr uint32_t Mismatch(int rank) { return kMismatch | static_cast<uint32_t>(rank) << 8; }
constexpr uint32_t Aborted(int rank) { return kWasAborted | static_cast<uint32_t>(rank) << 8; }

}  // namespace sinter::rank_explorer
