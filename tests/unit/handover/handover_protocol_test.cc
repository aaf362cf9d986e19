// The exchanges in many random orders of threads, bytes and arrivals: always right, never stuck, no
// byte more than counted; and without one wait, meeting, fence or arrival, always noticed.
#include "tests/support/test.h"
#include "tests/unit/handover/exchanges.h"

namespace sinter::handover_simulator {
namespace {

constexpr int kSeeds = 3, kMutantSeeds = 6;

template <class Run>
class Exchanges : public ::testing::Test {};

// Shared: blocks of a cluster, rows, columns, swapped, warpgroups side by side.
using Runs = ::testing::Types<
    ReduceScatterRun<Shared<2, 8, 16>, 2>, ReduceScatterRun<Shared<4, 24, 8>, 4>,
    ReduceScatterRun<Shared<4, 16, 16>, 2, 2>, ReduceScatterRun<Shared<8, 8, 8>, 8>,
    ReduceScatterRun<Shared<8, 24, 8>, 4, 1, false, true>,
    ReduceScatterRun<Shared<2, 8, 16, false, 2>, 2, 1, false, true>,
    ReduceScatterRun<Shared<4, 8, 8>, 2, 1, true>, ReduceScatterRun<Shared<2, 8, 64, true>, 2>,
    ReduceScatterRun<Shared<4, 24, 64, true>, 4>, ReduceScatterRun<Shared<2, 16, 64, true>, 2, 2>,
    ShuffleRun<Shared<2, 8, 64>>, ShuffleRun<Shared<4, 16, 128>>, ShuffleRun<Shared<8, 8, 128>>,
    ShuffleRun<Shared<4, 8, 64>, true>>;
TYPED_TEST_SUITE(Exchanges, Runs);

TYPED_TEST(Exchanges, GiveEveryRankWhatItIsToHave) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome = TypeParam::Run(seed, Mutation());
    ASSERT_EQ(outcome.error, "") << "seed " << seed;
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(outcome.compared, TypeParam::kCompared);
    EXPECT_EQ(outcome.remote_bytes, TypeParam::kBytes);
  }
}

template <class Run>
void ExpectRightSums() {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome = Run::Run(seed, Mutation());
    ASSERT_EQ(outcome.error, "") << "seed " << seed;
    EXPECT_EQ(outcome.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(outcome.compared, Run::kCompared);
  }
}

TEST(InterClusterReduce, EveryBlockStoresItsShareOfTheSum) {
  ExpectRightSums<InterClusterRun<Shared<1, 8, 16>, 2>>();
  ExpectRightSums<InterClusterRun<Shared<2, 8, 8>, 3>>();
  ExpectRightSums<InterClusterRun<Shared<2, 16, 8, false, 1>, 4>>();
}

bool Noticed(const Outcome& outcome) { return !outcome.error.empty() || outcome.wrong != 0; }

// How many of some seeds notice the mutation.
template <class Run>
int NoticedRuns(const Mutation& mutation) {
  int noticed = 0;
  for (uint64_t seed = 0; seed < kMutantSeeds; ++seed)
    noticed += Noticed(Run::Run(seed, mutation)) ? 1 : 0;
  return noticed;
}

Mutation WithoutWait(u32 barrier) { return Mutation{.passed_waits = {barrier}}; }

using Scatter = ReduceScatterRun<Shared<4, 8, 16>, 4, 1, false, true>;
using SwappedScatter = ReduceScatterRun<Shared<2, 8, 64, true>, 2, 1, false, true>;
using Shuffle = ShuffleRun<Shared<4, 8, 64>>;
using InterCluster = InterClusterRun<Shared<2, 8, 16>, 3>;

TEST(Mutations, EveryWaitIsNeeded) {
  for (const u32 barrier : {kFull, kEmpty, kFull2, kEmpty2}) {
    EXPECT_GT(NoticedRuns<Scatter>(WithoutWait(barrier)), 0) << "barrier " << barrier;
    EXPECT_GT(NoticedRuns<SwappedScatter>(WithoutWait(barrier)), 0) << "swapped, " << barrier;
  }
  EXPECT_GT(NoticedRuns<Shuffle>(WithoutWait(kFull)), 0);
  EXPECT_GT(NoticedRuns<InterCluster>(WithoutWait(kTaken)), 0);
}

TEST(Mutations, ArrivalsAreNeeded) {
  Mutation mutation{.no_remote_arrivals = true};
  EXPECT_EQ(NoticedRuns<Scatter>(mutation), kMutantSeeds);
  EXPECT_EQ(NoticedRuns<SwappedScatter>(mutation), kMutantSeeds);
}

TEST(Mutations, MeetingsAreNeeded) {
  Mutation mutation{.no_meetings = true};
  EXPECT_GT(NoticedRuns<Scatter>(mutation), 0);
  EXPECT_GT(NoticedRuns<InterCluster>(mutation), 0);
}

TEST(Mutations, TheFenceBeforeBulkLoadsIsNeeded) {
  Mutation mutation{.no_fences = true};
  EXPECT_EQ(NoticedRuns<InterCluster>(mutation), kMutantSeeds);
}

}  // namespace
}  // namespace sinter::handover_simulator
