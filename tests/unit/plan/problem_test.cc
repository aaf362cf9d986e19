#include "src/plan/problem.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "src/plan/schedule.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

TEST(Problem, CountsWeightsAndFlop) {
  FfnProblem p = SampleGated();
  EXPECT_EQ(p.WeightBytes(), 2 * (2 * 3072 * 1024 + 3072 * 1024));
  EXPECT_EQ(p.Flop(128), 2.0 * 128 * 3072 * (2 * 1024 + 1024));
  EXPECT_EQ(p.Flop(0), 0);
  p.products = 1;
  p.l = 0;
  EXPECT_EQ(p.WeightBytes(), 2 * 2 * 3072 * 1024);
}

TEST(Problem, SplitsIntoTheTwoKernelsOfTheUnfusedPlan) {
  FfnProblem p = SampleGated();
  p.l = 768;
  p.bias2 = true;
  const FfnProblem first = FirstProductOf(p), second = SecondProductOf(p);
  EXPECT_EQ(first.ToString(), "gated_product m<=128 n=3072 k=1024 act=silu layout=oi dtype=bf16");
  EXPECT_EQ(second.ToString(),
            "product m<=128 n=768 k=3072 act=identity bias1=1 layout=oi dtype=bf16");
  EXPECT_EQ(first.Flop(128) + second.Flop(128), p.Flop(128));
  EXPECT_EQ(first.WeightBytes() + second.WeightBytes(), p.WeightBytes());
  EXPECT_TRUE(CheckProblem(first).ok());
  EXPECT_TRUE(CheckProblem(second).ok());
}

TEST(Problem, TheResidualIsTheLastProducts) {
  FfnProblem p = SampleGated();
  p.residual = Residual::kAdded;
  EXPECT_EQ(FirstProductOf(p).residual, Residual::kNone);
  EXPECT_EQ(SecondProductOf(p).residual, Residual::kAdded);
  EXPECT_EQ(p.ToString(),
            "gated_ffn m<=128 n=3072 k=1024 l=1024 act=silu residual=1 layout=oi dtype=bf16");
  p.residual = Residual::kAddedRounded;
  EXPECT_NE(p.ToString().find(" residual=rounded "), std::string::npos) << p.ToString();
  FfnProblem added = p;
  added.residual = Residual::kAdded;
  EXPECT_NE(added.Canonical(), p.Canonical());
}

TEST(Problem, EachProductHasAScalingOfItsOwn) {
  FfnProblem p = SampleGated();
  p.scaling1 = {0.125f, RowFactor::kF32};
  p.scaling2.rows = RowFactor::kElement;
  EXPECT_EQ(p.ToString(),
            "gated_ffn m<=128 n=3072 k=1024 l=1024 act=silu scale1=0.125 factor1=f32 factor2=bf16 "
            "layout=oi dtype=bf16");
  EXPECT_TRUE(FirstProductOf(p).scaling1 == p.scaling1);
  EXPECT_FALSE(FirstProductOf(p).scaling2.any());
  EXPECT_TRUE(SecondProductOf(p).scaling1 == p.scaling2);
  EXPECT_FALSE(SecondProductOf(p).scaling2.any());
  EXPECT_TRUE(CheckProblem(FirstProductOf(p)).ok());
}

TEST(Problem, CanonicalBytesLeaveTheBucketOutAndKeepEverythingElse) {
  const FfnProblem base = SampleGated();
  FfnProblem other = base;
  other.bucket = 64;
  EXPECT_EQ(base.Canonical(), other.Canonical());
  const std::function<void(FfnProblem&)> changes[] = {
      [](FfnProblem& p) { p.gated = false; },
      [](FfnProblem& p) { p.activation = Activation::kRelu; },
      [](FfnProblem& p) { p.bias1 = true; },
      [](FfnProblem& p) { p.bias2 = true; },
      [](FfnProblem& p) { p.layout = Layout::kIO; },
      [](FfnProblem& p) { p.dtype = DType::kF16; },
      [](FfnProblem& p) { p.n += 8; },
      [](FfnProblem& p) { p.k += 8; },
      [](FfnProblem& p) { p.l += 8; },
      [](FfnProblem& p) { p.products = 1; },
      [](FfnProblem& p) { p.residual = Residual::kAdded; },
      [](FfnProblem& p) { p.residual = Residual::kAddedRounded; },
      [](FfnProblem& p) { p.scaling1.constant = 0.5f; },
      [](FfnProblem& p) { p.scaling1.rows = RowFactor::kF32; },
      [](FfnProblem& p) { p.scaling1.rows = RowFactor::kElement; },
      [](FfnProblem& p) { p.scaling2.constant = 0.5f; },
      [](FfnProblem& p) { p.scaling2.rows = RowFactor::kF32; },
  };
  std::set<std::string> all = {base.Canonical()};
  for (const auto& change : changes) {
    FfnProblem p = base;
    change(p);
    EXPECT_NE(p.Canonical(), base.Canonical()) << p.ToString();
    EXPECT_FALSE(p == base);
    EXPECT_TRUE(all.insert(p.Canonical()).second) << p.ToString();
  }
}

TEST(CheckProblem, NamesFieldValueAndBound) {
  struct Case {
    std::function<void(FfnProblem&)> change;
    const char* message;
  };
  const Case cases[] = {
      {[](FfnProblem& p) { p.k = 1020; }, "k 1020 is not a multiple of 8"},
      {[](FfnProblem& p) { p.n = 3071; }, "n 3071 is not a multiple of 8"},
      {[](FfnProblem& p) { p.layout = Layout::kIO, p.l = 1001; }, "l 1001 is not a multiple of 8"},
      {[](FfnProblem& p) { p.l = 0; }, "l 0 is not in 1.."},
      {[](FfnProblem& p) { p.n = kLargestExtent + 8; }, "n 16777224 is not in 1.."},
      {[](FfnProblem& p) { p.k = -8; }, "k -8 is not in 1.."},
      {[](FfnProblem& p) { p.dtype = DType::kF32; }, "dtype 1 (f32) is not bf16 or f16"},
      {[](FfnProblem& p) { p.bucket = 0; }, "bucket 0 is not in 1..8192"},
      {[](FfnProblem& p) { p.bucket = 8193; }, "bucket 8193 is not in 1..8192"},
      {[](FfnProblem& p) { p.products = 3; }, "products 3 is not 1 or 2"},
      {[](FfnProblem& p) { p.products = 1; }, "l 1024 is not 0 with one product"},
      {[](FfnProblem& p) { p.products = 1, p.l = 0, p.bias2 = true; }, "bias2 1 is set"},
      {[](FfnProblem& p) { p.layout = static_cast<Layout>(7); }, "layout 7 is not oi or io"},
      {[](FfnProblem& p) { p.residual = static_cast<Residual>(3); }, "residual 3 is not 0 to 2"},
      {[](FfnProblem& p) { p.activation = static_cast<Activation>(9); }, "activation 9 is not"},
      {[](FfnProblem& p) { p.scaling1.constant = 0; }, "scale1 0 is not finite, or 0"},
      {[](FfnProblem& p) { p.scaling2.constant = INFINITY; }, "scale2 inf is not finite, or 0"},
      {[](FfnProblem& p) { p.scaling1.rows = static_cast<RowFactor>(3); },
       "factor1 3 is not 0 to 2"},
      {[](FfnProblem& p) { p.products = 1, p.l = 0, p.scaling2.constant = 2; },
       "scale2 or factor2 is set with one product"},
  };
  for (const Case& c : cases) {
    FfnProblem p = SampleGated();
    c.change(p);
    const absl::Status status = CheckProblem(p);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(c.message), absl::string_view::npos) << status;
  }
}

TEST(CheckProblem, TakesRaggedColumnsWhereNoTensorMapReadsThem) {
  FfnProblem p = SampleGated();
  p.l = 1001;
  EXPECT_TRUE(CheckProblem(p).ok()) << "oi: the columns of E are rows of W2";
  FfnProblem one = FirstProductOf(p);
  one.n = 77;
  EXPECT_TRUE(CheckProblem(one).ok());
  one.layout = Layout::kIO;
  EXPECT_FALSE(CheckProblem(one).ok());
}

}  // namespace
}  // namespace sinter
