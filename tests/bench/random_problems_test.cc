#include "tests/bench/random_problems.h"

#include "src/chain/problem.h"
#include "src/engine/engine.h"
#include "src/product/matcher.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

namespace sinter::bench {
namespace {

TEST(RandomProblemsTest, CommittedListIsWhatTheCommittedSeedGives) {
  const std::string text = FileText("tests/bench/problems/never_slower.txt");
  EXPECT_EQ(text, RandomProblemList(kNeverSlowerSeed, kNeverSlowerCount));
}

TEST(RandomProblemsTest, EveryProblemIsWithinItsBoundsAndHasAKernel) {
  const auto problems = Got(ParseProblems(RandomProblemList(7, 500)));
  ASSERT_EQ(problems.size(), 500u);
  int gated = 0, io = 0, f16 = 0;
  for (const Problem& p : problems) {
    const auto view = Got(MatchProducts(p.chain, BucketOf(*p.m)), p.id);
    const ProductSequence& s = view.sequence;
    EXPECT_TRUE(CheckSequence(s).ok()) << WriteProblem(p);
    EXPECT_GE(*p.m, 1);
    EXPECT_LE(*p.m, 2048);
    for (int64_t size : {s[0].n, s[0].k, s[1].n}) {
      EXPECT_GE(size, 64);
      EXPECT_LE(size, 16384);
      EXPECT_EQ(size % 8, 0);
    }
    gated += s[0].pair;
    io += s.layout() == Layout::kIO;
    f16 += s.element() == DType::kF16;
  }
  for (int count : {gated, io, f16}) {
    EXPECT_GT(count, 200);
    EXPECT_LT(count, 300);
  }
}

TEST(RandomProblemsTest, SeedDecides) {
  EXPECT_EQ(RandomProblemList(1, 20), RandomProblemList(1, 20));
  EXPECT_NE(RandomProblemList(1, 20), RandomProblemList(2, 20));
}

}  // namespace
}  // namespace sinter::bench
