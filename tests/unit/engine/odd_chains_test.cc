// Chains that once were planned wrongly, or broke the planner: each computes its own rows, in a
// place that nobody else reads, and its stored plan is read back.
#include "src/base/device_model.h"
#include "src/chain/choices.h"
#include "src/engine/bound_plan.h"
#include "src/engine/loaded_plan.h"
#include "src/fusion/product_runs.h"
#include "src/normal/normal_form.h"
#include "src/plan/plan.h"
#include "tests/support/chains.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/assembly/reassembled.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {
namespace {

const DType kBF16 = DType::kBF16, kF32 = DType::kF32, kE4M3 = DType::kE4M3;

FusionResult PlanOf(const Chain& chain, int64_t bucket, bool batch_invariant = false) {
  FusionOptions options;
  options.batch_invariant = batch_invariant;
  return Got(PlanChain(chain, bucket, testing::H200(), options));
}

// Rows over their root mean square, multiplied by weights.
Chain NormAndProduct(int64_t rows) {
  testing::Graph g;
  const ValueId x = g.Cast(g.In(kBF16, {rows, 1024}), kF32);
  const ValueId mean = g.Add(g.Mean(g.Mul(x, x), 1), g.Const(1e-6));
  const ValueId scaled = g.Mul(x, g.Spread(g.Un(UnaryKind::kRsqrt, mean), x));
  g.Out(g.Cast(g.Matmul(scaled, g.In(kBF16, {2048, 1024}, true)), kBF16));
  return g.Finish();
}

TEST(OddChains, AProductThatNormsConstantRowsHasAllOfThem) {
  for (const int64_t rows : {16, 48}) {
    const Chain chain = NormAndProduct(rows);
    const Plan plan = PlanOf(chain, 1).chosen;
    int products = 0;
    for (const PlannedKernel& kernel : plan.kernels) {
      if (StitchOf(kernel.spec) != nullptr) continue;
      ++products;
      EXPECT_EQ(ProductOf(kernel.spec).sequence.m, rows);
      EXPECT_EQ(ProductOf(kernel.spec).constant_rows, FixedRowsOf(chain) == 1);
    }
    EXPECT_EQ(products, 1);
  }
}

// Windows of one tile read pixels of others.
TEST(OddChains, NoKernelStoresOverPixelsThatWindowsRead) {
  ChainBuilder b;
  const ValueId x = *b.Input({kBF16, {Dim::M(), C(56), C(56), C(64)}}, {false, {}, "x"});
  const ValueId taps = *b.Input({kBF16, {C(64), C(3), C(3), C(64)}}, {true, {}, "w1"});
  const ValueId w = *b.Input({kBF16, {C(64), C(64)}}, {true, {}, "w2"});
  Conv2d same;
  same.pads = {1, 1, 1, 1};
  const ValueId c = *b.Unary(UnaryKind::kRelu, *b.Convolve(x, taps, same));
  OutputOptions over;
  over.alias = x;
  ASSERT_TRUE(b.Output(*b.Cast(*b.Matmul(c, w, false, true), kBF16), over).ok());
  const Chain chain = *b.Finish();
  EXPECT_EQ(FindProductRuns(chain, 8).runs.size(), 2u);
  EXPECT_EQ(PlanOf(chain, 8).chosen.kernels.size(), 2u);
}

// A product of codes. `scale_m`: strides of the rows' scales depend on M.
ValueId CodesProduct(ChainBuilder& b, bool scale_m) {
  const ValueId a = *b.Input({kE4M3, {Dim::M(), C(512)}}, {false, {}, "a"});
  InputOptions scales{false, {}, "scale"};
  if (scale_m) scales.strides = {{1, 0}, {1, 1}};
  const ValueId scale = *b.Input({kF32, {Dim::M(), C(4)}}, scales);
  const ValueId w = *b.Input({kE4M3, {C(512), C(512)}}, {true, {}, "w"});
  return *b.ScaledMatmul(a, w, scale, *b.Input({kF32, {C(4), C(4)}}, {true, {}, "of w"}));
}

TEST(OddChains, CodesByGroupsWhoseScalesNobodyReadsArePlanned) {
  ChainBuilder b;
  const std::vector<Dim> groups = {Dim::M(), C(4), C(128)};
  const ValueId y = *b.Reshape(CodesProduct(b, false), groups);
  const ValueId largest = *b.Reduce(ReduceKind::kMax, *b.Unary(UnaryKind::kAbs, y), {2}, true);
  const ValueId floored = *b.Binary(BinaryKind::kMax, largest, *b.Scalar(1e-10));
  const ValueId inverse = *b.Binary(BinaryKind::kDiv, *b.Scalar(448), floored);
  const ValueId scaled = *b.Binary(BinaryKind::kMul, y, *b.Broadcast(inverse, groups));
  EXPECT_FALSE(PlanOf(Finished(b, {*b.Cast(*b.Reshape(scaled, {Dim::M(), C(512)}), kE4M3)}), 64)
                   .chosen.kernels.empty());
}

// A result that no GEMM kernel stores is cast by another kernel, with or without a second output.
TEST(OddChains, AResultThatProductsDoNotStoreIsCastByAnotherKernel) {
  for (const DType dtype : {kE4M3, DType::kS32}) {
    ChainBuilder b;
    EXPECT_EQ(
        PlanOf(Finished(b, {*b.Cast(CodesProduct(b, false), dtype)}), 64).chosen.kernels.size(), 2u)
        << NameOf(dtype);
  }
}

TEST(OddChains, BatchInvariantPlansOfOtherProductsAreRefused) {
  ChainBuilder b;
  const ValueId y = CodesProduct(b, true);
  const ValueId largest = *b.Reduce(ReduceKind::kMax, y, {1}, true);
  const ValueId spread = *b.Broadcast(largest, {Dim::M(), C(512)});
  const Chain chain = Finished(b, {*b.Cast(*b.Binary(BinaryKind::kSub, y, spread), kBF16)});
  EXPECT_FALSE(PlanOf(chain, 64, true).chosen.kernels.empty());
  FusionOptions options;
  options.batch_invariant = true;
  const auto refused = PlanChain(chain, 8192, testing::H200(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("strides of scale_a depend on M"));
}

TEST(OddChains, BatchInvariantPlansHaveTheLargestBucketThatTheChainHas) {
  ChainBuilder b;
  const ValueId x = *b.Input({kBF16, {Dim::M(), C(128), C(128), C(8)}}, {false, {}, "x"});
  const ValueId w = *b.Input({kBF16, {C(8), C(3), C(3), C(8)}}, {true, {}, "w"});
  Conv2d same;
  same.pads = {1, 1, 1, 1};
  const ValueId y = *b.Cast(*b.Convolve(x, w, same), kBF16);
  const Chain chain = Finished(b, {*b.Unary(UnaryKind::kTanh, *b.Cast(y, kF32))});
  EXPECT_LT(RowOrderBucketOf(chain), kRowOrderBucket);
  EXPECT_FALSE(PlanOf(chain, 1, true).chosen.kernels.empty());
}

// A column sum, multiplied by weights: the product's one row lies in the workspace.
TEST(OddChains, AStoredPlanOfAProductWithItsOwnRowsIsReadBack) {
  testing::Graph g;
  const ValueId x = g.Cast(g.In(kBF16, {-1, 64}), kF32);
  const ValueId sum = g.Cast(g.Reduce(ReduceKind::kSum, x, 0), kBF16);
  g.Out(g.Cast(g.Matmul(sum, g.In(kBF16, {64, 64}, true)), kBF16));
  const Chain chain = g.Finish();
  const Plan plan = PlanOf(chain, 8192).chosen;
  const auto back = Got(testing::Reassembled(plan, chain));
  EXPECT_EQ(back.PlanDigest(), plan.PlanDigest());
}

// The rows that a plan takes in one call.
int64_t MostRows(const Chain& chain) {
  return NewLoadedPlan(IdentityForm(std::make_shared<const Chain>(chain)),
                       PlanOf(chain, 8192).chosen)
      ->rows.most;
}

TEST(OddChains, RowsThatAreNumberedAreNotTakenPieceByPiece) {
  for (const int axis : {0, 1}) {
    ChainBuilder b;
    const std::vector<Dim> dims = {Dim::M(), C(16)};
    const ValueId x = *b.Cast(*b.Input({kBF16, dims}, {false, {}, "x"}), kF32);
    const ValueId numbered = *b.Binary(BinaryKind::kMul, x, *b.Iota(dims, axis, kF32));
    const ValueId w = *b.Input({kBF16, {C(64), C(16)}}, {true, {}, "w"});
    const ValueId y = *b.Matmul(*b.Cast(numbered, kBF16), w, false, true);
    EXPECT_EQ(MostRows(Finished(b, {*b.Cast(y, kBF16)})) == 8192, axis == 0);
  }
}

// A piece would begin with the numbers of the first row again.
TEST(OddChains, RowsOfRandomNumbersAreNotTakenPieceByPiece) {
  for (const bool of_m : {true, false}) {
    testing::Graph g;
    const ValueId x = g.In(kBF16, {-1, 64}), seed = g.In(DType::kS64, {});
    const std::vector<Dim> dims = {of_m ? Dim::M() : C(1), C(64)};
    const ValueId drawn = *g.builder().Random(dims, seed, seed);
    const ValueId noisy = g.Mul(g.Cast(x, kF32), of_m ? drawn : g.Spread(drawn, x));
    g.Out(g.Cast(g.Matmul(g.Cast(noisy, kBF16), g.In(kBF16, {64, 64}, true)), kBF16));
    EXPECT_EQ(MostRows(g.Finish()) == 8192, of_m);
  }
}

// Ids name any of M rows, so that a piece of them is not enough; rows of a table are.
TEST(OddChains, RowsThatIdsNameAmongMAreNotTakenPieceByPiece) {
  for (const bool of_m : {true, false}) {
    testing::Graph g;
    const ValueId x = g.In(kBF16, {of_m ? -1 : 1000, 64}), ids = g.In(DType::kS64, {-1});
    const ValueId rows = *g.builder().Gather(x, ids);
    g.Out(g.Cast(g.Matmul(rows, g.In(kBF16, {64, 64}, true)), kBF16));
    const Chain chain = g.Finish();
    EXPECT_EQ(MostRows(chain) == 8192, of_m);
    const auto loaded = NewLoadedPlan(IdentityForm(std::make_shared<const Chain>(chain)),
                                      PlanOf(chain, 8192).chosen);
    const absl::Status status = CheckAskedRows(*loaded, 20001);
    EXPECT_EQ(status.ok(), !of_m);
    EXPECT_EQ(absl::StrContains(status.message(), "(gather)"), of_m) << status;
  }
}

// Any row may be written, so that a piece would copy what it does not write over what others wrote.
TEST(OddChains, RowsThatAreWrittenByIdsAreNotTakenPieceByPiece) {
  for (const bool scatters : {true, false}) {
    testing::Graph g;
    const ValueId x = g.In(kBF16, {-1, 64}), cache = g.In(kBF16, {1000, 64});
    const ValueId ids = g.In(DType::kS64, {-1});
    const ValueId rows = g.Cast(g.Matmul(x, g.In(kBF16, {64, 64}, true)), kBF16);
    g.Out(scatters ? *g.builder().Scatter(cache, ids, rows)
                   : g.Cast(g.Add(rows, *g.builder().Gather(cache, ids)), kBF16));
    EXPECT_EQ(MostRows(g.Finish()) == 8192, scatters);
  }
}

TEST(OddChains, AnOutputWithoutMInItsPlaceIsMadeOnce) {
  for (const bool in_place : {true, false}) {
    testing::Graph g;
    const ValueId x = g.In(kBF16, {-1, 64}), step = g.In(kF32, {64});
    g.Out(g.Cast(g.Matmul(x, g.In(kBF16, {64, 64}, true)), kBF16));
    OutputOptions over;
    if (in_place) over.alias = step;
    g.Out(g.Add(step, g.Spread(g.Const(1), step)), over);
    EXPECT_EQ(MostRows(g.Finish()) == 8192, in_place);
  }
}

// What joins all rows takes no more than its plan was made for; each kind of op that joins them.
TEST(OddChains, MoreRowsThanAPlanThatJoinsThemTakesAreRefusedByName) {
  int refused = 0;
  for (const ReduceKind kind : {ReduceKind::kMax, ReduceKind::kSum, ReduceKind::kMean}) {
    testing::Graph g;
    const ValueId x = g.In(kBF16, {-1, 64});
    const ValueId y = g.Cast(g.Matmul(x, g.In(kBF16, {64, 64}, true)), kBF16);
    const ValueId wide = g.Cast(g.Cast(g.Cast(y, kF32), kF32), kF32);  // one in the normal form
    const ValueId joined = g.Reduce(kind, wide, 0);
    g.Out(g.Cast(g.Mul(wide, g.Spread(joined, wide)), kBF16));
    const auto form = NormalFormOf(std::make_shared<const Chain>(g.Finish()));
    ASSERT_TRUE(form.ok() && (*form)->changed()) << form.status();
    const auto loaded = NewLoadedPlan(*form, PlanOf(*(*form)->chain, 8192).chosen);
    EXPECT_TRUE(CheckAskedRows(*loaded, 8192).ok());
    const absl::Status status = CheckAskedRows(*loaded, 20001);
    ASSERT_TRUE(absl::IsOutOfRange(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(absl::StrCat("m is 20001, must be at most 8192: op ", joined, " (reduce)")));
    ++refused;
  }
  EXPECT_EQ(refused, 3);
  testing::Graph rows;  // rows that nothing joins go in passes
  rows.Out(rows.Cast(rows.Matmul(rows.In(kBF16, {-1, 64}), rows.In(kBF16, {64, 64}, true)), kBF16));
  const Chain chain = rows.Finish();
  const auto loaded =
      NewLoadedPlan(IdentityForm(std::make_shared<const Chain>(chain)), PlanOf(chain, 8192).chosen);
  EXPECT_TRUE(CheckAskedRows(*loaded, 20001).ok());
}

// The kernels that a launch without rows has, of the plan's.
std::vector<size_t> LaunchedWithoutRows(const Chain& chain, size_t* kernels) {
  FusionOptions options;
  FusionResult plans = *PlanChain(chain, 64, testing::H200(), options);
  *kernels = plans.chosen.kernels.size();
  const auto loaded =
      NewLoadedPlan(IdentityForm(std::make_shared<const Chain>(chain)), plans.chosen);
  loaded->recipes.resize(*kernels);
  std::vector<size_t> launched;
  EXPECT_TRUE(ForEachLaunch(*loaded, 0, false, [&](const PlanLaunch& one) {
                EXPECT_EQ(one.rows, 0);
                launched.push_back(one.kernel);
                return absl::OkStatus();
              }).ok());
  return launched;
}

// Column sums of a product's rows, then a product of the one row of sums. Without rows the first
// product has nothing to do.
TEST(OddChains, WithoutRowsOutputsWithoutMAreMadeAndNothingElse) {
  for (const bool sums : {true, false}) {
    testing::Graph g;
    const ValueId x = g.In(kBF16, {-1, 64});
    const ValueId y = g.Cast(g.Matmul(x, g.In(kBF16, {64, 64}, true)), kBF16);
    g.Out(y);
    if (sums) {
      const ValueId sum = g.Cast(g.Reduce(ReduceKind::kSum, g.Cast(y, kF32), 0), kBF16);
      g.Out(g.Cast(g.Matmul(sum, g.In(kBF16, {64, 64}, true)), kBF16));
    }
    size_t kernels = 0;
    const std::vector<size_t> launched = LaunchedWithoutRows(g.Finish(), &kernels);
    EXPECT_EQ(kernels, sums ? 3u : 1u);
    EXPECT_EQ(launched, sums ? (std::vector<size_t>{1, 2}) : std::vector<size_t>{});
  }
}

// A GEMM that sums over M gives zeros without rows, and needs no value that has rows.
TEST(OddChains, WithoutRowsSumsOverMAreMade) {
  testing::Graph g;
  const ValueId x = g.Un(UnaryKind::kRelu, g.In(kBF16, {-1, 64}));
  const ValueId sum = Got(g.builder().Matmul(x, g.In(kBF16, {-1, 32}), true, false));
  g.Out(g.Cast(sum, kBF16));
  size_t kernels = 0;
  const std::vector<size_t> launched = LaunchedWithoutRows(g.Finish(), &kernels);
  EXPECT_EQ(kernels, 2u);
  EXPECT_EQ(launched, std::vector<size_t>{1});
}

// What only outputs of rows need is not made either.
TEST(OddChains, WithoutRowsWhatOnlyRowsReadIsNotMade) {
  testing::Graph g;
  const ValueId x = g.In(kF32, {-1, 64}), v = g.In(kF32, {8192, 64});
  g.Out(g.Mul(x, g.Spread(g.Reduce(ReduceKind::kMax, v, 0), x)));
  size_t kernels = 0;
  EXPECT_TRUE(LaunchedWithoutRows(g.Finish(), &kernels).empty());
}

}  // namespace
}  // namespace sinter
