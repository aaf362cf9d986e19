// The exchanges in many random orders of threads, bytes and arrivals: always right, never stuck, no
// byte more than counted; and without one wait, meeting, fence or arrival, always noticed.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/unit/dsm/exchanges.h"

namespace sinter::dsm_simulator {
namespace {

constexpr int kSeeds = 4, kMutantSeeds = 8;

template <class L>
uint64_t RoundsOfAllGroups() {
  uint64_t rounds = 0;
  for (int index = 0; index < L::kBlocks / L::kRanks; ++index) rounds += 3 + index % 2;
  return rounds * L::kClusters;
}

// `group_bytes`: that cross in one round of one group; `compared`: elements of one rank and round.
template <class L, class Exchange>
void ExpectRight(uint64_t group_bytes, uint64_t compared) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome = RunExchange<L, Exchange>(seed, seed % 2 == 1, Mutation());
    ASSERT_EQ(outcome.error, "") << "seed " << seed;
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(outcome.compared, RoundsOfAllGroups<L>() * L::kRanks * compared);
    EXPECT_EQ(outcome.remote_bytes, RoundsOfAllGroups<L>() * group_bytes);
  }
}

template <class L>
class Exchanges : public ::testing::Test {
 protected:
  static constexpr uint64_t kElements = L::kRegisters * L::kThreads, kPart = 4 * kElements;
};
// blocks of a cluster, ranks of a group, registers, threads, clusters
using Layouts = ::testing::Types<Layout<2, 2, 12, 64>, Layout<4, 2, 8>, Layout<4, 4, 16>,
                                 Layout<8, 3, 16>, Layout<8, 8, 12>, Layout<8, 4, 24, 32, 2>,
                                 Layout<16, 5, 8>, Layout<16, 16, 20>>;
TYPED_TEST_SUITE(Exchanges, Layouts);

TYPED_TEST(Exchanges, AllExchangeGivesEveryRankTheSum) {
  ExpectRight<TypeParam, AllExchange<TypeParam, false>>(2 * (TypeParam::kRanks - 1) * this->kPart,
                                                        this->kElements);
}

TYPED_TEST(Exchanges, AllExchangeMultipliesActivatedGateAndUp) {
  if constexpr (TypeParam::kRanks % 2 == 0)
    ExpectRight<TypeParam, AllExchange<TypeParam, true>>(2 * (TypeParam::kRanks - 1) * this->kPart,
                                                         this->kElements);
}

TYPED_TEST(Exchanges, ReduceScatterGivesEveryRankItsShare) {
  using Exchange = ReduceScatterOnly<TypeParam>;
  ExpectRight<TypeParam, Exchange>((TypeParam::kRanks - 1) * this->kPart,
                                   Exchange::Sizes::kShareRegisters * TypeParam::kThreads);
}

TYPED_TEST(Exchanges, ShuffleGivesEveryRankTheSlab) {
  ExpectRight<TypeParam, ShuffleOnly<TypeParam>>(
      TypeParam::kRanks * (TypeParam::kRanks - 1) * this->kPart,
      TypeParam::kRanks * this->kElements);
}

template <class L, InterClusterOrder kOrder>
void ExpectRightStores() {
  constexpr int kLaunches = 3;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome = RunStore<L, kOrder>(seed, kLaunches, Mutation());
    ASSERT_EQ(outcome.error, "") << "seed " << seed;
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(outcome.compared, kLaunches * L::kBlocks * L::kRegisters * L::kThreads);
  }
}

TEST(InterClusterReduce, TheLastArriverHasTheSumAndTheScratchServesAgain) {
  ExpectRightStores<Layout<2, 2, 8, 64, 4>, InterClusterOrder::kFixed>();
  ExpectRightStores<Layout<2, 2, 8, 64, 4>, InterClusterOrder::kFree>();
  ExpectRightStores<Layout<2, 2, 8, 64, 4>, InterClusterOrder::kFreeBulk>();
  ExpectRightStores<Layout<2, 2, 80, 32, 3>, InterClusterOrder::kFreeBulk>();
  ExpectRightStores<Layout<2, 2, 4, 32, 1>, InterClusterOrder::kFixed>();
}

bool Noticed(const Outcome& outcome) { return !outcome.error.empty() || outcome.wrong != 0; }

// How many of some seeds notice the mutation.
template <class L, class Exchange>
int NoticedRuns(const Mutation& mutation, bool drain = true) {
  int noticed = 0;
  for (uint64_t seed = 0; seed < kMutantSeeds; ++seed)
    noticed += Noticed(RunExchange<L, Exchange>(seed, false, mutation, drain)) ? 1 : 0;
  return noticed;
}

Mutation WithoutWait(u32 barrier) {
  Mutation mutation;
  mutation.passed_waits = {barrier};
  return mutation;
}

using Four = Layout<4, 4, 16, 64>;
using Two = Layout<2, 2, 16, 64>;

template <class L, class Exchange>
void ExpectEveryWaitNeeded(const char* what) {
  for (int i = 0; i <= Exchange::kDeliveries; ++i) {
    EXPECT_GT((NoticedRuns<L, Exchange>(WithoutWait(kBarriers + 8 * static_cast<u32>(i)))), 0)
        << what << ": barrier " << i;
  }
}

TEST(Mutations, EveryWaitIsNeeded) {
  ExpectEveryWaitNeeded<Two, AllExchange<Two, false>>("swap");
  ExpectEveryWaitNeeded<Four, AllExchange<Four, false>>("reduce and gather");
  ExpectEveryWaitNeeded<Four, ReduceScatterOnly<Four>>("reduce-scatter");
  ExpectEveryWaitNeeded<Four, ShuffleOnly<Four>>("shuffle");
}

template <class L, class Exchange>
void ExpectArrivalsAndDrainNeeded(const char* what) {
  Mutation no_arrivals;
  no_arrivals.no_remote_arrivals = true;
  EXPECT_EQ((NoticedRuns<L, Exchange>(no_arrivals)), kMutantSeeds) << what;
  EXPECT_GT((NoticedRuns<L, Exchange>(Mutation(), false)), 0) << what << ": no drain";
}

TEST(Mutations, ArrivalsAndTheDrainAreNeeded) {
  ExpectArrivalsAndDrainNeeded<Two, AllExchange<Two, false>>("swap");
  ExpectArrivalsAndDrainNeeded<Four, AllExchange<Four, false>>("reduce and gather");
  ExpectArrivalsAndDrainNeeded<Four, ReduceScatterOnly<Four>>("reduce-scatter");
  ExpectArrivalsAndDrainNeeded<Four, ShuffleOnly<Four>>("shuffle");
}

// Not so in an all-exchange of more than two ranks: a peer's next sums follow from this block's
// next parts, which each thread sends after it has read.
TEST(Mutations, TheMeetingBeforeTheReleaseIsNeeded) {
  Mutation mutation;
  mutation.no_meetings = true;
  EXPECT_GT((NoticedRuns<Two, AllExchange<Two, false>>(mutation)), 0);
  EXPECT_GT((NoticedRuns<Four, ReduceScatterOnly<Four>>(mutation)), 0);
  EXPECT_GT((NoticedRuns<Four, ShuffleOnly<Four>>(mutation)), 0);
}

TEST(Mutations, TheFenceBeforeBulkCopiesIsNeeded) {
  Mutation mutation;
  mutation.no_fences = true;
  EXPECT_EQ((NoticedRuns<Four, ShuffleOnly<Four>>(mutation)), kMutantSeeds);
  EXPECT_TRUE(
      Noticed(RunStore<Layout<2, 2, 8, 64, 4>, InterClusterOrder::kFreeBulk>(1, 1, mutation)));
}

template <InterClusterOrder kOrder>
int NoticedStores(const Mutation& mutation) {
  int noticed = 0;
  for (uint64_t seed = 0; seed < kMutantSeeds; ++seed)
    noticed += Noticed(RunStore<Layout<2, 2, 8, 64, 4>, kOrder>(seed, 2, mutation)) ? 1 : 0;
  return noticed;
}

TEST(Mutations, TheMeetingBeforeTheCounterIsNeeded) {
  Mutation mutation;
  mutation.no_meetings = true;
  EXPECT_GT(NoticedStores<InterClusterOrder::kFixed>(mutation), 0);
  EXPECT_GT(NoticedStores<InterClusterOrder::kFree>(mutation), 0);
  EXPECT_GT(NoticedStores<InterClusterOrder::kFreeBulk>(mutation), 0);
}

}  // namespace
}  // namespace sinter::dsm_simulator
