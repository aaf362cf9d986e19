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

Moment Of(Body& body, ValueId x, ValueId mean, ReduceKind kind) {
  const ValueId difference = body.Sub(mean, x);
  const ValueId square = body.Take(body.b.Unary(UnaryKind::kSquare, difference));
  Moment moment{.chain = body.Finish({body.Reduce(square, {0}, false, kind)})};
  const auto program = MakeStitchProgram(moment.chain, OwnerCandidates(moment.chain)[1]);
  EXPECT_TRUE(program.ok()) << program.status();
  if (program.ok()) moment.program = *program;
  return moment;
}

ValueId LastReduction(const Chain& chain) {
  ValueId last = -1;
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    if (chain.op(static_cast<ValueId>(id)).kind == OpKind::kReduce) last = static_cast<ValueId>(id);
  }
  return last;
}

ValueId MeanIn(const Moment& moment) {
  return MeanOfMoment(moment.chain, moment.program, LastReduction(moment.chain));
}

TEST(StitchMoments, VarianceIsMadeWithItsMean) {
  for (const ReduceKind kind : {ReduceKind::kMean, ReduceKind::kSum}) {
    Body body;
    const ValueId x = body.In({64, 40});
    const Moment moment = Of(body, x, body.Reduce(x, {0}, true, ReduceKind::kMean), kind);
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
  const Chain chain = testing::BatchNorm(64, 40);
  const StitchProgram program = *MakeStitchProgram(chain, OwnerCandidates(chain)[1]);
  EXPECT_EQ(program.phases.size(), 2u);
  const std::vector<Composition> compositions = CompositionsOf(chain, program, StitchSchedule());
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    if (chain.op(static_cast<ValueId>(id)).kind != OpKind::kReduce) continue;
    EXPECT_EQ(compositions[id], Composition::kGrid) << id;
  }
}

TEST(StitchMoments, OthersWaitForTheirMean) {
  Body other;  // about the mean of something else
  const ValueId a = other.In({64, 40}), b = other.In({64, 40});
  const Moment of_other =
      Of(other, a, other.Reduce(b, {0}, true, ReduceKind::kMean), ReduceKind::kMean);
  EXPECT_EQ(MeanIn(of_other), -1);
  EXPECT_EQ(of_other.program.phases.size(), 3u);

  Body sum;  // about a sum
  const ValueId x = sum.In({64, 40});
  EXPECT_EQ(MeanIn(Of(sum, x, sum.Reduce(x, {0}, true), ReduceKind::kMean)), -1);

  Body largest;
  const ValueId y = largest.In({64, 40});
  EXPECT_EQ(
      MeanIn(Of(largest, y, largest.Reduce(y, {0}, true, ReduceKind::kMean), ReduceKind::kMax)),
      -1);

  Body turned;  // each column about another's mean
  const ValueId z = turned.In({40, 40});
  const ValueId means = turned.Reduce(z, {0}, false, ReduceKind::kMean);
  const ValueId rows = turned.Take(turned.b.Reshape(means, Body::Dims({40, 1})));
  EXPECT_EQ(MeanIn(Of(turned, z, rows, ReduceKind::kMean)), -1);
}

TEST(StitchMoments, AMeanIsMadeWithOneOfThem) {
  Body body;
  const ValueId x = body.In({64, 40});
  const ValueId difference = body.Sub(body.Reduce(x, {0}, true, ReduceKind::kMean), x);
  const ValueId square = body.Take(body.b.Unary(UnaryKind::kSquare, difference));
  const ValueId product = body.Take(body.b.Binary(BinaryKind::kMul, difference, difference));
  const Chain chain = body.Finish(
      {body.Reduce(square, {0}, false, ReduceKind::kMean), body.Reduce(product, {0}, false)});
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
