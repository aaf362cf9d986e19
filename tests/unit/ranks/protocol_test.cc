// The protocol between ranks in every order of their steps, for small sizes: results are right or
// the group has ended, nothing hangs, and each thing left out is noticed.
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
namespace {

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
constexpr uint64_t kMostStates = 3000000;

// kHalfPushed: the kernel before the sum pushes the first vector of each row, the sum the second.
// kNorm: two shots of rows of two vectors, with their norms.
enum class Form { kOneShot, kTwoShot, kScatter, kGather, kPushed, kHalfPushed, kNorm };

template <int kRanks_, Form kForm, class Result_, bool kByRows_>
struct Config {
  static constexpr bool kNorm = kForm == Form::kNorm, kNormRounded = false;
  static constexpr int kRowVectorsOfX = kForm == Form::kHalfPushed || kNorm ? 2 : 1;
  static constexpr float kEps = 1;
  static constexpr int kRanks = kRanks_, kThreads = 1, kAhead = 1, kTogether = 1;
  static constexpr int kColumns = kVectorElements * kRowVectorsOfX;
  static constexpr int kRowVectors = 1;  // of a gather
  using Element = BFloat16;
  using Result = Result_;
  static constexpr bool kTwoShot = kForm == Form::kTwoShot || kNorm;
  static constexpr bool kScatter = kForm == Form::kScatter;
  static constexpr int kPushedColumns = kForm == Form::kPushed       ? kColumns
                                        : kForm == Form::kHalfPushed ? kVectorElements
                                                                     : 0;
  static constexpr bool kRounded = kTwoShot, kResidual = true, kByRows = kByRows_;
};

// The calls of each rank: rows and plan of each call. All calls are equal by default.
struct Calls {
  std::vector<int> rows = {1, 1, 1, 1};
  uint64_t digest = 0x123456789ABCDEFull;
};

// All are integers that sums of two or three of them keep exact in bf16. `part`: the part of a
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
      all_reduce<Own>({control(rank), x_[rank][call], own.residual, own.gamma, own.out, own.normed,
                       rows, calls.digest});
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
    float sum = ResidualOf(rank, row, i);
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

template <class AnyWorld>
Exploration ExploreAll(const Scenario& scenario, AnyWorld& world) {
  Explorer explore(scenario, world.Make(scenario.calls));
  return explore.Explore(kMostStates);
}

// Orders by chance, where there are too many.
template <class AnyWorld>
Exploration SampleSome(const Scenario& scenario, AnyWorld& world, int runs = 1500) {
  Explorer explore(scenario, world.Make(scenario.calls));
  return explore.Sample(runs, 1);
}

void ExpectRight(const Exploration& result) {
  EXPECT_EQ(result.error, "");
  EXPECT_GT(result.ends, 0u);
}

const Calls kTwoRows{{2, 2, 2, 2}};

TEST(TwoRanks, HaveTheSumsInEveryOrder) {
  Scenario scenario;
  World<2> world({});
  ExpectRight(ExploreAll(scenario, world));
  scenario.pieces = 4;
  scenario.calls = 1;
  ExpectRight(ExploreAll(scenario, world));
}

TEST(TwoRanks, HaveTheSumsOfTheTwoShotForm) {
  Scenario scenario{.calls = 2, .pieces = 1};
  World<2, Form::kTwoShot> world({kTwoRows, kTwoRows});
  ExpectRight(ExploreAll(scenario, world));
}

// A row has one owner; each rank adds its own residual and makes the norms of all rows.
TEST(TwoRanks, HaveTheNormsOfTheTwoShotForm) {
  Scenario scenario{.calls = 2, .pieces = 1};
  World<2, Form::kNorm> world({kTwoRows, kTwoRows});
  ExpectRight(ExploreAll(scenario, world));
}

TEST(TwoRanks, MayCallWithOtherRowsEachTime) {
  Scenario scenario{.pieces = 1};
  const Calls calls{{1, 2, 1, 2}};
  World<2> world({calls, calls});
  ExpectRight(ExploreAll(scenario, world));
}

// One call of each rank, then two of one row each: a rank pushes the second call's row while the
// other still sums the first.
TEST(TwoRanks, HaveTheSumsOfWhatIsPushed) {
  Scenario scenario{.calls = 2};
  World<2, Form::kPushed> one({kTwoRows, kTwoRows});
  ExpectRight(ExploreAll(scenario, one));
  scenario.calls = 6;
  scenario.pieces = 1;
  World<2, Form::kPushed> three({});
  ExpectRight(ExploreAll(scenario, three));
}

// The kernel before sends the first vector of a row, the sum the second.
TEST(TwoRanks, HaveTheSumsOfWhatIsPushedInPart) {
  Scenario scenario{.calls = 2};
  World<2, Form::kHalfPushed> one({kTwoRows, kTwoRows});
  ExpectRight(ExploreAll(scenario, one));
  scenario.calls = 6;
  scenario.pieces = 1;
  World<2, Form::kHalfPushed> three({});
  ExpectRight(ExploreAll(scenario, three));
  scenario.calls = 4;
  World<2, Form::kHalfPushed> other({Calls{}, Calls{{1, 2, 1, 1}}});
  other.endings = {Mismatch(0), Mismatch(1)};
  ExpectRight(ExploreAll(scenario, other));
  scenario.dies = 1;
  World<2, Form::kHalfPushed> dying({});
  dying.endings = {0, TimedOut(1)};
  ExpectRight(ExploreAll(scenario, dying));
}

TEST(TwoRanks, EndWhenOneThatPushesDiesOrIsAborted) {
  Scenario scenario{.calls = 4, .pieces = 1, .dies = 1};
  World<2, Form::kPushed> world({});
  world.endings = {0, TimedOut(1)};
  ExpectRight(ExploreAll(scenario, world));
  scenario.dies = -1;
  scenario.aborted = 1;
  scenario.timed = false;
  world.endings = {0, Aborted(1)};
  ExpectRight(ExploreAll(scenario, world));
}

TEST(TwoRanks, ThatPushOtherRowsEnd) {
  Scenario scenario{.calls = 4, .pieces = 1};
  World<2, Form::kPushed> world({Calls{}, Calls{{1, 2, 1, 1}}});
  world.endings = {Mismatch(0), Mismatch(1)};
  ExpectRight(ExploreAll(scenario, world));
}

// Sums of two vectors a thread.
TEST(TwoRanks, HaveTheSumsInF32) {
  Scenario scenario{.calls = 2, .pieces = 1};
  World<2, Form::kOneShot, Float32> one_shot({});
  ExpectRight(ExploreAll(scenario, one_shot));
  World<2, Form::kTwoShot, Float32> two_shot({kTwoRows, kTwoRows});
  ExpectRight(SampleSome(scenario, two_shot));
}

// A NaN whose bits equal those of an empty slot.
TEST(TwoRanks, SendWhatLooksLikeAnEmptySlot) {
  Scenario scenario{.calls = 2};
  World<2> world({});
  world.x_bits = kEmpty;
  ExpectRight(ExploreAll(scenario, world));
}

TEST(TwoRanks, EndWhenTheOtherDiesAtAnyStep) {
  Scenario scenario{.calls = 2, .pieces = 1, .dies = 1};
  World<2> world({});
  world.endings = {0, TimedOut(1)};
  ExpectRight(ExploreAll(scenario, world));
  World<2, Form::kTwoShot> two_shot({kTwoRows, kTwoRows});
  two_shot.endings = world.endings;
  scenario.calls = 1;
  ExpectRight(ExploreAll(scenario, two_shot));
}

TEST(TwoRanks, EndWhenTheHostOfOneAsksForItAtAnyStep) {
  Scenario scenario{.calls = 2, .pieces = 1, .timed = false, .aborted = 1};
  World<2> world({});
  world.endings = {0, Aborted(1)};
  ExpectRight(ExploreAll(scenario, world));
}

TEST(TwoRanks, AreRightOrEndWhenAWaitIsGivenUpTooEarly) {
  Scenario scenario{.calls = 2, .pieces = 1, .time_passes = true};
  World<2> world({});
  world.endings = {0, TimedOut(0), TimedOut(1)};
  ExpectRight(ExploreAll(scenario, world));
}

TEST(TwoRanks, EndWhenTheirCallsDiffer) {
  Scenario scenario{.calls = 2, .pieces = 1};
  Calls other;
  other.digest ^= uint64_t{1} << 63;
  for (const Calls& calls : {Calls{{1, 2, 1, 1}}, Calls{{2, 1, 1, 1}}, other}) {
    World<2> world({Calls{}, calls});
    world.endings = {Mismatch(0), Mismatch(1)};
    ExpectRight(ExploreAll(scenario, world));
  }
}

// Their steps equal those of a one-shot sum; the receivers and the place of the stores differ.
template <Form kForm, bool kByRows>
void ExpectParts() {
  Scenario scenario{.calls = 2, .pieces = 1};
  using Two = World<2, kForm, BFloat16, kByRows>;
  Two world({});
  ExpectRight(ExploreAll(scenario, world));
  const Calls changing{{1, 2, 1, 2}};
  Two other_rows({changing, changing});
  ExpectRight(ExploreAll(scenario, other_rows));
  Two of_nans({});
  of_nans.x_bits = kEmpty;
  ExpectRight(ExploreAll(scenario, of_nans));
  scenario.dies = 1;
  world.endings = {0, TimedOut(1)};
  ExpectRight(ExploreAll(scenario, world));
  scenario.dies = -1;
  Two different({Calls{}, Calls{{1, 2, 1, 1}}});
  different.endings = {Mismatch(0), Mismatch(1)};
  ExpectRight(ExploreAll(scenario, different));
  scenario.ranks = 3;
  scenario.blocks = 2;
  World<3, kForm, BFloat16, kByRows> three({kTwoRows, kTwoRows, kTwoRows});
  ExpectRight(SampleSome(scenario, three));
}

TEST(Parts, OfASumAreRightOrTheGroupEnds) {
  ExpectParts<Form::kScatter, false>();
  ExpectParts<Form::kScatter, true>();
}

TEST(Parts, OfAGatherAreRightOrTheGroupEnds) {
  ExpectParts<Form::kGather, false>();
  ExpectParts<Form::kGather, true>();
}

TEST(Blocks, OfOneRankShareACall) {
  Scenario scenario{.blocks = 2};
  World<2> world({kTwoRows, kTwoRows});
  ExpectRight(SampleSome(scenario, world));
  scenario.dies = 0;
  world.endings = {0, TimedOut(0)};
  ExpectRight(SampleSome(scenario, world));
}

TEST(ThreeRanks, HaveTheSumsOrEnd) {
  Scenario scenario{.ranks = 3};
  World<3> one_shot({});
  ExpectRight(SampleSome(scenario, one_shot));
  World<3, Form::kTwoShot> two_shot({kTwoRows, kTwoRows, kTwoRows});
  ExpectRight(SampleSome(scenario, two_shot));
  World<3, Form::kNorm> norms({kTwoRows, kTwoRows, kTwoRows});
  ExpectRight(SampleSome(scenario, norms));
  scenario.dies = 2;
  // A rank that waits for one that has given up says what that one said, or that it timed out too.
  one_shot.endings = two_shot.endings = {0, TimedOut(2), TimedOut(1), TimedOut(0)};
  ExpectRight(SampleSome(scenario, one_shot));
  ExpectRight(SampleSome(scenario, two_shot));
}

// Each thing left out is noticed; all other cases above are right with none left out.
template <Form kForm>
void ExpectNoticed(const char* what, Scenario scenario, std::vector<uint32_t> endings,
                   std::vector<Calls> calls = {}) {
  World<2, kForm> world(std::move(calls));
  world.endings = std::move(endings);
  EXPECT_NE(ExploreAll(scenario, world).error, "") << what;
}

TEST(Mutants, OfTheSlotsAreNoticed) {
  Scenario scenario{.pieces = 1};
  scenario.mutation.no_emptying = true;
  ExpectNoticed<Form::kOneShot>("no emptying", scenario, {0});
  ExpectNoticed<Form::kTwoShot>("no emptying", scenario, {0}, {kTwoRows, kTwoRows});
  ExpectNoticed<Form::kScatter>("no emptying", scenario, {0});
  ExpectNoticed<Form::kGather>("no emptying", scenario, {0});
  scenario.mutation = {};
  scenario.mutation.one_half = true;
  ExpectNoticed<Form::kOneShot>("one half", scenario, {0});
  ExpectNoticed<Form::kScatter>("one half", scenario, {0});
  ExpectNoticed<Form::kGather>("one half", scenario, {0});
  scenario.calls = 6;
  ExpectNoticed<Form::kPushed>("one half, pushed", scenario, {0});
  ExpectNoticed<Form::kHalfPushed>("one half, pushed in part", scenario, {0});
  scenario.mutation = {};
  scenario.mutation.no_boundary = true;
  ExpectNoticed<Form::kPushed>("no boundary between kernels, pushed", scenario, {0});
  scenario.calls = 3;
  scenario.mutation = {};
  scenario.mutation.no_boundary = true;
  ExpectNoticed<Form::kOneShot>("no boundary between kernels", scenario, {0});
}

TEST(Mutants, OfTheEpochAreNoticed) {
  Scenario scenario{.blocks = 2, .pieces = 1};
  scenario.mutation.early_advance = true;
  World<2> world({kTwoRows, kTwoRows});
  EXPECT_NE(SampleSome(scenario, world).error, "");
}

TEST(Mutants, OfTheHeaderAreNoticed) {
  Scenario scenario{.calls = 2, .pieces = 1};
  scenario.mutation.header_untagged = true;
  ExpectNoticed<Form::kOneShot>("header without the call's number", scenario, {0});
  scenario.mutation = {};
  scenario.mutation.header_in_pieces = true;
  ExpectNoticed<Form::kOneShot>("header in pieces", scenario, {0});
  scenario.mutation = {};
  scenario.mutation.header_ignored = true;
  ExpectNoticed<Form::kOneShot>("header ignored", scenario, {Mismatch(0), Mismatch(1)},
                                {Calls{}, Calls{{2, 1, 1, 1}}});
}

TEST(Mutants, OfTheEndAreNoticed) {
  Scenario scenario{.calls = 2, .pieces = 1, .dies = 1};
  scenario.mutation.no_clock = true;
  ExpectNoticed<Form::kOneShot>("no clock", scenario, {0, TimedOut(1)});
  scenario.dies = -1;
  scenario.aborted = 1;
  scenario.timed = false;
  scenario.mutation = {};
  scenario.mutation.deaf_to_host = true;
  ExpectNoticed<Form::kOneShot>("the host's word is not read", scenario, {Aborted(1)});
  scenario.mutation = {};
  scenario.mutation.deaf_to_peers = true;
  ExpectNoticed<Form::kOneShot>("the outcome is not read", scenario, {0, Aborted(1)});
  scenario.mutation = {};
  scenario.mutation.silent = true;
  ExpectNoticed<Form::kOneShot>("other ranks are not told", scenario, {0, Aborted(1)});
}

}  // namespace
}  // namespace sinter::rank_explorer
