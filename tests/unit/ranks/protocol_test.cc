// The protocol between ranks in every order of their steps, for small sizes: results are right or
// the group has ended, nothing hangs, and each thing left out is noticed.
#include "tests/unit/ranks/world.h"

namespace sinter::rank_explorer {
namespace {

constexpr uint64_t kMostStates = 3000000;

// What a group runs, and how those of its ranks that live may end.
struct Group {
  std::vector<Calls> calls;
  std::vector<uint32_t> endings = {0};
  uint32_t x_bits = 0;
};

template <int kRanks, Form kForm = Form::kOneShot, class Result = BFloat16, bool kByRows = false>
Exploration Explored(const Scenario& scenario, const Group& group, int sampled_runs = 0) {
  World<kRanks, kForm, Result, kByRows> world(group.calls);
  world.endings = group.endings;
  world.x_bits = group.x_bits;
  Explorer explore(scenario, world.Make(scenario.calls));
  return sampled_runs > 0 ? explore.Sample(sampled_runs, 1) : explore.Explore(kMostStates);
}

// In every order.
template <int kRanks, Form kForm = Form::kOneShot, class Result = BFloat16, bool kByRows = false>
void ExpectRight(const Scenario& scenario, const Group& group = {}, int sampled_runs = 0) {
  const Exploration result =
      Explored<kRanks, kForm, Result, kByRows>(scenario, group, sampled_runs);
  EXPECT_EQ(result.error, "");
  EXPECT_GT(result.ends, 0u);
}

// In orders by chance, where there are too many.
constexpr int kRuns = 1500;

const Calls kTwoRows{{2, 2, 2, 2}}, kChanging{{1, 2, 1, 2}}, kOther{{1, 2, 1, 1}};
const std::vector<uint32_t> kMismatches = {Mismatch(0), Mismatch(1)};

TEST(TwoRanks, HaveTheSumsInEveryOrder) {
  ExpectRight<2>({});
  ExpectRight<2>({.calls = 1, .pieces = 4});
}

TEST(TwoRanks, HaveTheSumsOfTheTwoShotForm) {
  ExpectRight<2, Form::kTwoShot>({.calls = 2, .pieces = 1}, {{kTwoRows, kTwoRows}});
}

// Owners send sums, to which each rank adds its own residual and a vector of columns.
TEST(TwoRanks, ReadMatricesAndVectorsInAProgram) {
  ExpectRight<2, Form::kVector>({.calls = 2, .pieces = 1}, {{kTwoRows, kTwoRows}});
}

// A row has one owner; each rank adds its own residual and makes the norms of all rows.
TEST(TwoRanks, HaveTheNormsOfTheTwoShotForm) {
  ExpectRight<2, Form::kNorm>({.calls = 2, .pieces = 1}, {{kTwoRows, kTwoRows}});
}

TEST(TwoRanks, HaveTheNormsOfTheOneShotForm) {
  ExpectRight<2, Form::kOneShotNorm>({.calls = 2, .pieces = 1}, {{kTwoRows, kTwoRows}}, kRuns);
}

TEST(TwoRanks, MayCallWithOtherRowsEachTime) {
  ExpectRight<2>({.pieces = 1}, {{kChanging, kChanging}});
}

// One call of each rank, then two of one row each: a rank pushes the second call's row while the
// other still sums the first.
TEST(TwoRanks, HaveTheSumsOfWhatIsPushed) {
  ExpectRight<2, Form::kPushed>({.calls = 2}, {{kTwoRows, kTwoRows}});
  ExpectRight<2, Form::kPushed>({.calls = 6, .pieces = 1});
}

// The kernel before sends the first vector of a row, the sum the second.
TEST(TwoRanks, HaveTheSumsOfWhatIsPushedInPart) {
  ExpectRight<2, Form::kHalfPushed>({.calls = 2}, {{kTwoRows, kTwoRows}});
  ExpectRight<2, Form::kHalfPushed>({.calls = 6, .pieces = 1});
  ExpectRight<2, Form::kHalfPushed>({.calls = 4, .pieces = 1}, {{Calls{}, kOther}, kMismatches});
  ExpectRight<2, Form::kHalfPushed>({.calls = 4, .pieces = 1, .dies = 1}, {{}, {0, TimedOut(1)}});
}

TEST(TwoRanks, EndWhenOneThatPushesDiesOrIsAborted) {
  ExpectRight<2, Form::kPushed>({.calls = 4, .pieces = 1, .dies = 1}, {{}, {0, TimedOut(1)}});
  ExpectRight<2, Form::kPushed>({.calls = 4, .pieces = 1, .timed = false, .aborted = 1},
                                {{}, {0, Aborted(1)}});
}

TEST(TwoRanks, ThatPushOtherRowsEnd) {
  ExpectRight<2, Form::kPushed>({.calls = 4, .pieces = 1}, {{Calls{}, kOther}, kMismatches});
}

// Sums of two vectors a thread.
TEST(TwoRanks, HaveTheSumsInF32) {
  const Scenario scenario{.calls = 2, .pieces = 1};
  ExpectRight<2, Form::kOneShot, Float32>(scenario);
  ExpectRight<2, Form::kTwoShot, Float32>(scenario, {{kTwoRows, kTwoRows}}, kRuns);
}

// A NaN whose bits equal those of an empty slot.
TEST(TwoRanks, SendWhatLooksLikeAnEmptySlot) { ExpectRight<2>({.calls = 2}, {.x_bits = kEmpty}); }

TEST(TwoRanks, EndWhenTheOtherDiesAtAnyStep) {
  ExpectRight<2>({.calls = 2, .pieces = 1, .dies = 1}, {{}, {0, TimedOut(1)}});
  ExpectRight<2, Form::kTwoShot>({.calls = 1, .pieces = 1, .dies = 1},
                                 {{kTwoRows, kTwoRows}, {0, TimedOut(1)}});
}

TEST(TwoRanks, EndWhenTheHostOfOneAsksForItAtAnyStep) {
  ExpectRight<2>({.calls = 2, .pieces = 1, .timed = false, .aborted = 1}, {{}, {0, Aborted(1)}});
}

TEST(TwoRanks, AreRightOrEndWhenAWaitIsGivenUpTooEarly) {
  ExpectRight<2>({.calls = 2, .pieces = 1, .time_passes = true},
                 {{}, {0, TimedOut(0), TimedOut(1)}});
}

TEST(TwoRanks, EndWhenTheirCallsDiffer) {
  Calls other;
  other.digest ^= uint64_t{1} << 63;
  for (const Calls& calls : {kOther, Calls{{2, 1, 1, 1}}, other}) {
    ExpectRight<2>({.calls = 2, .pieces = 1}, {{Calls{}, calls}, kMismatches});
  }
}

// Their steps equal those of a one-shot sum; the receivers and the place of the stores differ.
template <Form kForm, bool kByRows>
void ExpectParts() {
  const auto two = [](const Group& group, int dies = -1) {
    ExpectRight<2, kForm, BFloat16, kByRows>({.calls = 2, .pieces = 1, .dies = dies}, group);
  };
  two({});
  two({{kChanging, kChanging}});
  two({.x_bits = kEmpty});
  two({{}, {0, TimedOut(1)}}, 1);
  two({{Calls{}, kOther}, kMismatches});
  ExpectRight<3, kForm, BFloat16, kByRows>({.ranks = 3, .blocks = 2, .calls = 2, .pieces = 1},
                                           {{kTwoRows, kTwoRows, kTwoRows}}, kRuns);
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
  ExpectRight<2>({.blocks = 2}, {{kTwoRows, kTwoRows}}, kRuns);
  ExpectRight<2>({.blocks = 2, .dies = 0}, {{kTwoRows, kTwoRows}, {0, TimedOut(0)}}, kRuns);
}

// All forms over more than two ranks, in orders by chance; the last rank dies at any step, or calls
// with other rows. A rank that waits for one that has given up says what that one said, or that it
// timed out too. `norms`: of a kernel over up to four ranks.
template <int kRanks, bool kNorms>
void ExpectManyRanksRightOrEnded(int runs) {
  const std::vector<Calls> one_row(kRanks), two_rows(kRanks, kTwoRows), changing(kRanks, kChanging);
  std::vector<Calls> other = one_row;
  other.back() = kOther;
  std::vector<uint32_t> given_up = {0}, mismatches;
  for (int r = 0; r < kRanks; ++r) {
    given_up.push_back(TimedOut(r));
    mismatches.push_back(Mismatch(r));
  }
  const Scenario lives{.ranks = kRanks}, two_calls{.ranks = kRanks, .calls = 2, .pieces = 1};
  const Scenario dies{.ranks = kRanks, .dies = kRanks - 1};
  ExpectRight<kRanks>(lives, {changing}, runs);
  ExpectRight<kRanks>(dies, {one_row, given_up}, runs);
  ExpectRight<kRanks>(two_calls, {other, mismatches}, runs);
  ExpectRight<kRanks, Form::kTwoShot>(lives, {two_rows}, runs);
  ExpectRight<kRanks, Form::kTwoShot>(dies, {two_rows, given_up}, runs);
  ExpectRight<kRanks, Form::kScatter>(two_calls, {two_rows}, runs);
  ExpectRight<kRanks, Form::kGather>(two_calls, {two_rows}, runs);
  const Scenario pushed{.ranks = kRanks, .calls = 6, .pieces = 1};
  ExpectRight<kRanks, Form::kPushed>(pushed, {changing}, runs);
  ExpectRight<kRanks, Form::kHalfPushed>(pushed, {one_row}, runs);
  if constexpr (kNorms) {
    ExpectRight<kRanks, Form::kNorm>(lives, {two_rows}, runs);
    ExpectRight<kRanks, Form::kNorm>(dies, {two_rows, given_up}, runs);
    ExpectRight<kRanks, Form::kOneShotNorm>(lives, {two_rows}, runs);
    ExpectRight<kRanks, Form::kOneShotNorm>(dies, {two_rows, given_up}, runs);
  }
}

TEST(ManyRanks, OfThreeHaveTheSumsOrEnd) { ExpectManyRanksRightOrEnded<3, true>(kRuns); }
TEST(ManyRanks, OfFourHaveTheSumsOrEnd) { ExpectManyRanksRightOrEnded<4, true>(kRuns / 3); }
TEST(ManyRanks, OfEightHaveTheSumsOrEnd) { ExpectManyRanksRightOrEnded<8, false>(kRuns / 15); }

// Each thing left out is noticed; all other cases above are right with none left out.
template <Form kForm = Form::kOneShot>
void ExpectNoticed(const char* what, const Scenario& scenario, const Group& group = {}) {
  const Exploration result = Explored<2, kForm>(scenario, group);
  EXPECT_NE(result.error, "") << what;
}

TEST(Mutants, OfTheSlotsAreNoticed) {
  const Scenario no_emptying{.pieces = 1, .mutation = {.no_emptying = true}};
  ExpectNoticed("no emptying", no_emptying);
  ExpectNoticed<Form::kTwoShot>("no emptying", no_emptying, {{kTwoRows, kTwoRows}});
  ExpectNoticed<Form::kScatter>("no emptying", no_emptying);
  ExpectNoticed<Form::kGather>("no emptying", no_emptying);
  Scenario one_half{.pieces = 1, .mutation = {.one_half = true}};
  ExpectNoticed("one half", one_half);
  ExpectNoticed<Form::kScatter>("one half", one_half);
  ExpectNoticed<Form::kGather>("one half", one_half);
  one_half.calls = 6;
  ExpectNoticed<Form::kPushed>("one half, pushed", one_half);
  ExpectNoticed<Form::kHalfPushed>("one half, pushed in part", one_half);
  ExpectNoticed<Form::kPushed>("no boundary between kernels, pushed",
                               {.calls = 6, .pieces = 1, .mutation = {.no_boundary = true}});
  ExpectNoticed("no boundary between kernels", {.pieces = 1, .mutation = {.no_boundary = true}});
}

TEST(Mutants, OfTheEpochAreNoticed) {
  const Scenario scenario{.blocks = 2, .pieces = 1, .mutation = {.early_advance = true}};
  EXPECT_NE(Explored<2>(scenario, {{kTwoRows, kTwoRows}}, kRuns).error, "");
}

TEST(Mutants, OfTheHeaderAreNoticed) {
  const auto with = [](const Mutation& mutation) {
    return Scenario{.calls = 2, .pieces = 1, .mutation = mutation};
  };
  ExpectNoticed("header without the call's number", with({.header_untagged = true}));
  ExpectNoticed("header in pieces", with({.header_in_pieces = true}));
  ExpectNoticed("header ignored", with({.header_ignored = true}),
                {{Calls{}, Calls{{2, 1, 1, 1}}}, kMismatches});
}

TEST(Mutants, OfTheEndAreNoticed) {
  ExpectNoticed("no clock", {.calls = 2, .pieces = 1, .dies = 1, .mutation = {.no_clock = true}},
                {{}, {0, TimedOut(1)}});
  const auto aborted = [](const Mutation& mutation) {
    return Scenario{.calls = 2, .pieces = 1, .timed = false, .aborted = 1, .mutation = mutation};
  };
  ExpectNoticed("the host's word is not read", aborted({.deaf_to_host = true}), {{}, {Aborted(1)}});
  ExpectNoticed("the outcome is not read", aborted({.deaf_to_peers = true}), {{}, {0, Aborted(1)}});
  ExpectNoticed("other ranks are not told", aborted({.silent = true}), {{}, {0, Aborted(1)}});
}

}  // namespace
}  // namespace sinter::rank_explorer
