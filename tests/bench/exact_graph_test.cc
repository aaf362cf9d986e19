#include "tests/bench/exact_graph.h"

#include "tests/support/random_graph.h"
#include "tests/support/read_chain.h"
#include "tests/support/rough_chain.h"
#include "tests/support/test.h"

namespace sinter::bench {
namespace {

TEST(ExactGraph, MostRandomGraphsHaveAnExactForm) {
  int exact = 0, rough = 0;
  constexpr int kGraphs = 12;
  for (uint64_t seed = 1; seed <= kGraphs; ++seed) {
    for (const bool is_rough : {false, true}) {
      const auto chain =
          WithExactOps(is_rough ? testing::MakeRoughChain(seed) : testing::MakeRandomGraph(seed));
      ASSERT_TRUE(chain.ok()) << seed << ": " << chain.status();
      const int64_t m = chain->UsesM() ? testing::RowsOfRandomGraph(seed) : 1;
      const auto holds = Got(IsExactInF32(*chain, m, *Quarters(*chain, m, seed)), seed);
      (is_rough ? rough : exact) += holds ? 1 : 0;
    }
  }
  EXPECT_GE(exact, kGraphs / 2);
  EXPECT_GE(rough, kGraphs / 2);
}

// The rows' elements times 1 + scale, added up.
Chain Spread(double scale, int64_t terms) {
  return ReadChain("x: f32[2,$0]; out sum(x + x * $1, 1)", terms, absl::StrFormat("%.17g", scale));
}

TEST(ExactGraph, KnowsWhatF32DoesNotHold) {
  const struct {
    double scale;
    int64_t terms;
    bool exact;
  } cases[] = {
      {0x1p-10, 8, true},
      {0x1p-23, 8, false},        // an element has more bits
      {0x1p-10, 1 << 13, false},  // the sum of so many may
  };
  for (const auto& c : cases) {
    const Chain chain = Spread(c.scale, c.terms);
    EXPECT_EQ(*IsExactInF32(chain, 1, *Quarters(chain, 1, 3)), c.exact) << c.scale << c.terms;
  }
}

}  // namespace
}  // namespace sinter::bench
