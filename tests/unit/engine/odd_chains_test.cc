// Chains that once were planned wrongly, or broke the planner: each computes its own rows, in a
// place that nobody else reads, and its stored plan is read back.
#include "src/chain/choices.h"
#include "src/engine/bound_plan.h"
#include "src/engine/loaded_plan.h"
#include "src/normal/normal_form.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/assembly/reassembled.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {
namespace {

const DType kBF16 = DType::kBF16, kF32 = DType::kF32;

FusionResult PlanOf(const Chain& chain, int64_t bucket, bool batch_invariant = false) {
  return Got(PlanChain(chain, bucket, H200(), {.batch_invariant = batch_invariant}));
}

// Rows over their root mean square, multiplied by weights.
Chain NormAndProduct(int64_t rows) {
  return ReadChain(
      "a: bf16[$0,1024]; w: const bf16[2048,1024]; x = f32(a); "
      "scaled = x * spread(rsqrt(mean(x * x, 1, keep) + 1e-6), x); out bf16(scaled @ w.T)",
      rows);
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
  const Chain chain = ReadChain(
      "x: bf16[M,56,56,64]; w1: const bf16[64,3,3,64]; w2: const bf16[64,64]; "
      "out bf16(relu(conv(x, w1, pads=[1,1,1,1])) @ w2.T) over x");
  EXPECT_EQ(FindProductRuns(chain, 8).runs.size(), 2u);
  EXPECT_EQ(PlanOf(chain, 8).chosen.kernels.size(), 2u);
}

// `rest` of the product y of codes. `scale_strides`: of the rows' scales.
Chain CodesProduct(const std::string& rest, const char* scale_strides = "") {
  return ReadChain(
      "a: e4m3[M,512]; scale: f32[M,4] $0; w: const e4m3[512,512]; "
      "of_w: const f32[4,4]; y = scaled(a, w, scale, of_w); $1",
      scale_strides, rest);
}

TEST(OddChains, CodesByGroupsWhoseScalesNobodyReadsArePlanned) {
  const Chain chain = CodesProduct(
      "g = reshape(y, [M,4,128]); inverse = 448 / max(reduce_max(abs(g), 2, keep), 1e-10); "
      "out e4m3(reshape(g * spread(inverse, g), [M,512]))");
  EXPECT_FALSE(PlanOf(chain, 64).chosen.kernels.empty());
}

// A result that no GEMM kernel stores is cast by another kernel, with or without a second output.
TEST(OddChains, AResultThatProductsDoNotStoreIsCastByAnotherKernel) {
  for (const char* rest : {"out e4m3(y)", "out s32(y)"}) {
    EXPECT_EQ(PlanOf(CodesProduct(rest), 64).chosen.kernels.size(), 2u) << rest;
  }
}

TEST(OddChains, BatchInvariantPlansOfOtherProductsAreRefused) {
  const Chain chain =
      CodesProduct("out bf16(y - spread(reduce_max(y, 1, keep), y))", "strides(1, 1*M)");
  EXPECT_FALSE(PlanOf(chain, 64, true).chosen.kernels.empty());
  const auto refused = PlanChain(chain, 8192, H200(), {.batch_invariant = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(Says(refused, "strides of scale_a depend on M"));
}

TEST(OddChains, BatchInvariantPlansHaveTheLargestBucketThatTheChainHas) {
  const Chain chain = ReadChain(
      "x: bf16[M,128,128,8]; w: const bf16[8,3,3,8]; "
      "out tanh(f32(bf16(conv(x, w, pads=[1,1,1,1]))))");
  EXPECT_LT(RowOrderBucketOf(chain), kRowOrderBucket);
  EXPECT_FALSE(PlanOf(chain, 1, true).chosen.kernels.empty());
}

// A column sum, multiplied by weights: the product's one row lies in the workspace.
TEST(OddChains, AStoredPlanOfAProductWithItsOwnRowsIsReadBack) {
  const Chain chain =
      ReadChain("x: bf16[M,64]; w: const bf16[64,64]; out bf16(bf16(sum(f32(x), 0, keep)) @ w.T)");
  const Plan plan = PlanOf(chain, 8192).chosen;
  EXPECT_EQ(Got(testing::Reassembled(plan, chain)).PlanDigest(), plan.PlanDigest());
}

// The rows that a plan takes in one call.
int64_t MostRows(const Chain& chain) {
  return NewLoadedPlan(IdentityForm(std::make_shared<const Chain>(chain)),
                       PlanOf(chain, 8192).chosen)
      ->rows.most;
}

TEST(OddChains, RowsThatAreNumberedAreNotTakenPieceByPiece) {
  for (const int axis : {0, 1}) {
    const Chain chain = ReadChain(
        "x: bf16[M,16]; w: const bf16[64,16]; numbered = f32(x) * iota([M,16], $0, f32); "
        "out bf16(bf16(numbered) @ w.T)",
        axis);
    EXPECT_EQ(MostRows(chain) == 8192, axis == 0);
  }
}

// A piece would begin with the numbers of the first row again.
TEST(OddChains, RowsOfRandomNumbersAreNotTakenPieceByPiece) {
  for (const bool of_m : {true, false}) {
    const Chain chain = ReadChain(
        "x: bf16[M,64]; seed: s64[]; w: const bf16[64,64]; drawn = random([$0,64], seed, seed); "
        "noisy = f32(x) * $1; out bf16(bf16(noisy) @ w.T)",
        of_m ? "M" : "1", of_m ? "drawn" : "spread(drawn, x)");
    EXPECT_EQ(MostRows(chain) == 8192, of_m);
  }
}

// Ids name any of M rows, so that a piece of them is not enough; rows of a table are.
TEST(OddChains, RowsThatIdsNameAmongMAreNotTakenPieceByPiece) {
  for (const bool of_m : {true, false}) {
    const Chain chain = ReadChain(
        "x: bf16[$0,64]; ids: s64[M]; w: const bf16[64,64]; out bf16(gather(x, ids) @ w.T)",
        of_m ? "M" : "1000");
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
    const Chain chain = ReadChain(
        "x: bf16[M,64]; cache: bf16[1000,64]; ids: s64[M]; w: const bf16[64,64]; "
        "rows = bf16(x @ w.T); out $0",
        scatters ? "scatter(cache, ids, rows)" : "bf16(rows + gather(cache, ids))");
    EXPECT_EQ(MostRows(chain) == 8192, scatters);
  }
}

TEST(OddChains, AnOutputWithoutMInItsPlaceIsMadeOnce) {
  for (const bool in_place : {true, false}) {
    const Chain chain = ReadChain(
        "x: bf16[M,64]; step: f32[64]; w: const bf16[64,64]; out bf16(x @ w.T); "
        "out step + spread(1, step) $0",
        in_place ? "over step" : "");
    EXPECT_EQ(MostRows(chain) == 8192, in_place);
  }
}

// What joins all rows takes no more than its plan was made for; each kind of op that joins them.
TEST(OddChains, MoreRowsThanAPlanThatJoinsThemTakesAreRefusedByName) {
  int refused = 0;
  for (const char* kind : {"reduce_max", "sum", "mean"}) {
    ChainReader r(
        "x: bf16[M,64]; w: const bf16[64,64]; y = bf16(x @ w.T); wide = f32(f32(f32(y)))");
    const ValueId joined = r("$0(wide, 0, keep)", kind);  // of one cast in the normal form
    r.Add("out bf16(wide * spread(_, wide))");
    const auto form = NormalFormOf(std::make_shared<const Chain>(r.Finish()));
    ASSERT_TRUE(form.ok() && (*form)->changed()) << form.status();
    const auto loaded = NewLoadedPlan(*form, PlanOf(*(*form)->chain, 8192).chosen);
    EXPECT_TRUE(CheckAskedRows(*loaded, 8192).ok());
    const absl::Status status = CheckAskedRows(*loaded, 20001);
    ASSERT_TRUE(Fails(status, absl::StatusCode::kOutOfRange,
                      absl::StrCat("m is 20001, must be at most 8192: op ", joined, " (reduce)")));
    ++refused;
  }
  EXPECT_EQ(refused, 3);
  // Rows that nothing joins go in passes.
  const Chain chain = ReadChain("x: bf16[M,64]; w: const bf16[64,64]; out bf16(x @ w.T)");
  const auto loaded =
      NewLoadedPlan(IdentityForm(std::make_shared<const Chain>(chain)), PlanOf(chain, 8192).chosen);
  EXPECT_TRUE(CheckAskedRows(*loaded, 20001).ok());
}

// The kernels that a launch without rows has, of the plan's.
std::vector<size_t> LaunchedWithoutRows(const Chain& chain, size_t* kernels) {
  const FusionResult plans = PlanOf(chain, 64);
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
    const Chain chain =
        ReadChain("x: bf16[M,64]; w: const bf16[64,64]; y = bf16(x @ w.T); out y; $0",
                  sums ? "w2: const bf16[64,64]; out bf16(bf16(sum(f32(y), 0, keep)) @ w2.T)" : "");
    size_t kernels = 0;
    const std::vector<size_t> launched = LaunchedWithoutRows(chain, &kernels);
    EXPECT_EQ(kernels, sums ? 3u : 1u);
    EXPECT_EQ(launched, sums ? (std::vector<size_t>{1, 2}) : std::vector<size_t>{});
  }
}

// A GEMM that sums over M gives zeros without rows, and needs no value that has rows.
TEST(OddChains, WithoutRowsSumsOverMAreMade) {
  const Chain chain = ReadChain("x: bf16[M,64]; y: bf16[M,32]; r = relu(x); out bf16(r.T @ y)");
  size_t kernels = 0;
  const std::vector<size_t> launched = LaunchedWithoutRows(chain, &kernels);
  EXPECT_EQ(kernels, 2u);
  EXPECT_EQ(launched, std::vector<size_t>{1});
}

// What only outputs of rows need is not made either.
TEST(OddChains, WithoutRowsWhatOnlyRowsReadIsNotMade) {
  const Chain chain =
      ReadChain("x: f32[M,64]; v: f32[8192,64]; out x * spread(reduce_max(v, 0, keep), x)");
  size_t kernels = 0;
  EXPECT_TRUE(LaunchedWithoutRows(chain, &kernels).empty());
}

}  // namespace
}  // namespace sinter
