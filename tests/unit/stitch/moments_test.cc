// Second moments that are made along with their means: which are, and which only look like it.
#include "src/stitch/phases.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

// The reduction of a squared difference of `x` and the broadcast `mean`, and a program of it.
struct Moment {
  Chain chain;
  StitchProgram program;
};

Moment Of(const std::string& text) {
  Moment moment{.chain = ReadChain(text)};
  moment.program = Got(MakeStitchProgram(moment.chain, OwnerCandidates(moment.chain)[1]));
  return moment;
}

ValueId LastReduction(const Chain& chain) { return OpsOf(chain, OpKind::kReduce).back(); }

ValueId MeanIn(const Moment& moment) {
  return MeanOfMoment(moment.chain, moment.program, LastReduction(moment.chain));
}

TEST(StitchMoments, VarianceIsMadeWithItsMean) {
  for (const std::string kind : {"mean", "sum"}) {
    const Moment moment =
        Of("x: f32[64,40]; out " + kind + "(square(x - spread(mean(x, 0, keep), x)), 0)");
    EXPECT_EQ(MeanIn(moment), testing::FirstReduction(moment.chain, 0));
    ASSERT_EQ(moment.program.phases.size(), 2u) << "the statistics, then the store";
    ASSERT_EQ(moment.program.phases[0].loops.size(), 1u);
    const std::vector<StitchRoot>& roots = moment.program.phases[0].loops[0].roots;
    ASSERT_EQ(roots.size(), 1u);
    EXPECT_EQ(roots[0].value, LastReduction(moment.chain));
    EXPECT_EQ(roots[0].mean, testing::FirstReduction(moment.chain, 0));
  }
}

TEST(StitchMoments, BatchNormWaitsForTheGridOnce) {
  const Chain chain = testing::GraphOf("batch_norm(64, 40, x)");
  const StitchProgram program = *MakeStitchProgram(chain, OwnerCandidates(chain)[1]);
  EXPECT_EQ(program.phases.size(), 2u);
  const std::vector<Composition> compositions = CompositionsOf(chain, program, StitchSchedule());
  for (const ValueId id : OpsOf(chain, OpKind::kReduce)) {
    EXPECT_EQ(compositions[static_cast<size_t>(id)], Composition::kGrid) << id;
  }
}

TEST(StitchMoments, OthersWaitForTheirMean) {
  const Moment of_other =
      Of("a, b: f32[64,40]; out mean(square(a - spread(mean(b, 0, keep), a)), 0)");
  EXPECT_EQ(MeanIn(of_other), -1);
  EXPECT_EQ(of_other.program.phases.size(), 3u);
  for (const char* text :
       {"x: f32[64,40]; out mean(square(x - spread(sum(x, 0, keep), x)), 0)",
        "x: f32[64,40]; out reduce_max(square(x - spread(mean(x, 0, keep), x)), 0)",
        // Each column about another's mean.
        "x: f32[40,40]; out mean(square(x - spread(reshape(mean(x, 0), [40,1]), x)), 0)"}) {
    EXPECT_EQ(MeanIn(Of(text)), -1) << text;
  }
}

TEST(StitchMoments, AMeanIsMadeWithOneOfThem) {
  const Chain chain = ReadChain(
      "x: f32[64,40]; d = x - spread(mean(x, 0, keep), x); out mean(square(d), 0), sum(d * d, 0)");
  const StitchProgram program = *MakeStitchProgram(chain, OwnerCandidates(chain)[1]);
  int with_mean = 0, columns = 0;
  for (const StitchPhase& phase : program.phases) {
    for (const StitchLoop& loop : phase.loops) {
      for (const StitchRoot& root : loop.roots) {
        columns += root.kind == StitchRoot::kColumn;
        with_mean += root.mean >= 0;
      }
    }
  }
  EXPECT_EQ(columns, 2) << "the mean is no root of its own";
  EXPECT_EQ(with_mean, 1);
}

}  // namespace
}  // namespace sinter
