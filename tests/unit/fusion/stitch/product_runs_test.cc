// Which ops products take, and which of them follow one another.
#include "src/fusion/stitch/product_runs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/chain/composites.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

ValueId Linear(testing::Graph* g, ValueId x, int64_t n, int64_t k, bool bias, Activation act) {
  const ValueId w = g->In(DType::kBF16, {n, k}, true);
  const ValueId b = bias ? g->In(DType::kBF16, {n}, true) : kNoValue;
  return *AddLinear(g->builder(), x, w, b, Layout::kOI, act);
}

TEST(ProductRuns, TakeBiasActivationAndTheCastThatRounds) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId y = Linear(&g, x, 128, 64, true, Activation::kGeluErf);
  const ValueId rounded = g.Cast(y, DType::kBF16);
  g.Out(g.Cast(g.Sub(g.Cast(rounded, DType::kF32), g.Spread(g.Mean(rounded, 1), rounded)),
               DType::kBF16));
  const Chain chain = g.Finish();
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_TRUE(found.refused.empty());
  EXPECT_EQ(AbsorbedBy(found.runs[0]).substr(AbsorbedBy(found.runs[0]).find(':')),
            ": product + bias + gelu_erf");
  EXPECT_EQ(chain.op(found.runs[0].group.end).kind, OpKind::kCast);
  EXPECT_EQ(found.runs[0].rows, 32);
}

TEST(ProductRuns, FollowOneAnotherOnlyWhenNobodyElseReads) {
  for (const bool shared : {false, true}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64});
    const ValueId y = g.Cast(Linear(&g, x, 128, 64, false, Activation::kRelu), DType::kBF16);
    const ValueId z = Linear(&g, y, 64, 128, false, Activation::kIdentity);
    g.Out(g.Cast(g.Add(z, g.Cast(x, DType::kF32)), DType::kBF16));
    if (shared) g.Out(y);
    const ProductRuns found = FindProductRuns(g.Finish(), 32);
    EXPECT_EQ(found.runs.size(), shared ? 2u : 1u);
    EXPECT_EQ(found.runs[0].view.size(), shared ? 1 : 2);
  }
}

TEST(ProductRuns, RoundRowsThatNobodyRounded) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId norm = *AddRmsNorm(g.builder(), x, 1e-6);  // f32
  const ValueId w = g.Cast(g.In(DType::kBF16, {128, 64}, true), DType::kF32);
  g.Out(g.Cast(g.Matmul(norm, w), DType::kBF16));
  const Chain chain = g.Finish();
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  const absl::StatusOr<StitchGraph> graph = StitchGraph::Make(chain, 32, {found.runs[0].group}, {});
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->StoredDType(found.runs[0].inputs[0]), DType::kBF16);
}

TEST(ProductRuns, SayWhyAProductIsInNone) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId y = g.Un(UnaryKind::kTanh, g.In(DType::kBF16, {128, 64}));
  g.Out(g.Cast(g.Matmul(x, y), DType::kBF16));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  EXPECT_TRUE(found.runs.empty());
  ASSERT_EQ(found.refused.size(), 1u);
  EXPECT_THAT(found.refused.begin()->second, HasSubstr("second operand is no input"));
}

TEST(ProductRuns, AResultThatTheChainGivesOutInF32IsInNone) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  g.Out(Linear(&g, x, 128, 64, false, Activation::kIdentity));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  EXPECT_TRUE(found.runs.empty());
  EXPECT_THAT(found.refused.begin()->second, HasSubstr("f32 in memory"));
}

}  // namespace
}  // namespace sinter
