// The fast reference of the GPU tests agrees with the oracle of src/reference.
#include "tests/gpu/ffn_reference.h"

#include "src/engine/verify.h"
#include "src/reference/compare.h"
#include "src/reference/reference.h"
#include "tests/support/chains.h"
#include "tests/support/test.h"

namespace sinter::gpu_testing {
namespace {

void ExpectAgrees(const absl::StatusOr<Chain>& chain, int64_t m) {
  ASSERT_TRUE(chain.ok()) << chain.status();
  const auto inputs = Got(RandomInputs(*chain, m, 5));
  std::vector<const void*> pointers;
  for (const std::string& input : inputs) pointers.push_back(input.data());
  const auto oracle =
      Got(RunReferenceF64(*chain, m, pointers, {.threads = 1, .skip_final_cast = true}));
  const auto fast = Got(FfnReference(*chain, m, inputs, AllRows(m), 2));
  const ErrorMeasure errors = Compare(fast, oracle[0]);
  // The constants of gelu are f32 scalars in a chain.
  EXPECT_LT(errors.relative, 1e-7) << errors.ToString();
  EXPECT_EQ(errors.nans, 0);
}

TEST(FfnReference, AgreesWithTheOracleOnEveryVariant) {
  for (Activation act : kActivations) {
    for (int mask = 0; mask < 32; ++mask) {
      FfnSpec spec;
      spec.act = act;
      spec.gated = (mask & 1) != 0;
      spec.layout = (mask & 2) != 0 ? Layout::kIO : Layout::kOI;
      spec.dtype = (mask & 4) != 0 ? DType::kF16 : DType::kBF16;
      spec.bias1 = (mask & 8) != 0;
      spec.bias2 = (mask & 8) == 0;
      spec.products = (mask & 16) != 0 ? 1 : 2;
      if (spec.products == 1) spec.bias2 = false;
      spec.n = 40;
      spec.k = 1032;  // more than one block of K, and no multiple of it
      spec.l = 19;
      SCOPED_TRACE(absl::StrCat("act ", static_cast<int>(act), " mask ", mask));
      ExpectAgrees(MakeFfnChain(spec), 7);
    }
  }
}

TEST(FfnReference, AgreesWithTheOracleOnResiduals) {
  for (int mask = 0; mask < 8; ++mask) {
    FfnSpec spec;
    spec.act = Activation::kSilu;
    spec.gated = (mask & 1) != 0;
    spec.products = (mask & 2) != 0 ? 1 : 2;
    spec.dtype = (mask & 4) != 0 ? DType::kF16 : DType::kBF16;
    spec.n = 40;
    spec.k = 72;
    spec.l = 19;
    spec.residual = true;
    SCOPED_TRACE(absl::StrCat("mask ", mask));
    ExpectAgrees(MakeFfnChain(spec), 7);
  }
}

TEST(FfnReference, AgreesWithTheOracleOnConvolutions) {
  for (const char* line :
       {"conv_chain b=M ic=24 h=5 w=7 oc1=16 oc2=40 k1=3 k2=1 act=relu bias1=1 bias2=1",
        "conv_chain b=M ic=8 h=9 w=6 oc1=16 oc2=24 k1=3,2 k2=1 act=relu stride=2,1 pad=2,0,1,1 "
        "dilation=1,2 weights=HWIO dtype=f16",
        "conv b=M ic=40 h=5 w=3 oc=24 k=3 act=relu scale=1 bias=1 residual=before",
        "conv_chain b=M ic=24 h=5 w=7 oc1=16 oc2=40 k1=1 k2=1 act=silu"}) {
    SCOPED_TRACE(line);
    const auto problem = Got(ParseProblem(line));
    const auto inputs = RandomInputs(problem.chain, 3, 5);
    std::vector<const void*> pointers;
    for (const std::string& input : *inputs) pointers.push_back(input.data());
    const auto oracle = Got(RunReferenceF64(problem.chain, 3, pointers, {1, nullptr, true, {}}));
    const auto rows = AllRows(static_cast<int64_t>(oracle[0].size()) /
                              problem.chain.output_type(0).dims.back().value);
    const auto fast = Got(FfnReference(problem.chain, 3, *inputs, rows, 2));
    const ErrorMeasure errors = Compare(fast, oracle[0]);
    EXPECT_LT(errors.relative, 1e-12) << errors.ToString();
    EXPECT_FALSE(FfnReference(problem.chain, 2, *inputs, rows).ok());
  }
}

TEST(FfnReference, AgreesWithTheOracleOnScaledProducts) {
  for (int mask = 0; mask < 256; ++mask) {
    FfnSpec spec;
    spec.act = Activation::kSilu;
    spec.gated = (mask & 1) != 0;
    spec.products = (mask & 2) != 0 ? 1 : 2;
    spec.scale_w1 = (mask & 32) != 0;
    spec.scale_w2 = (mask & 64) != 0 && spec.products == 2;
    spec.scale_w_dtype = (mask & 128) != 0 ? DType::kF32 : spec.dtype;
    spec.factor_dtype = (mask & 4) != 0 ? DType::kF32 : spec.dtype;
    spec.factor1 = (mask & 8) != 0;
    spec.factor2 = (mask & 16) != 0 && spec.products == 2;
    spec.scale1 = 0.75;
    spec.n = 40;
    spec.k = 72;
    spec.l = 19;
    spec.bias1 = true;
    SCOPED_TRACE(absl::StrCat("mask ", mask));
    ExpectAgrees(MakeFfnChain(spec), 7);
  }
}

TEST(FfnReference, AgreesWithTheOracleOnSequencesOfProducts) {
  for (const char* line :
       {"products m=M k=72 n=40,136,19 act=relu,identity,silu bias=1",
        "products m=M k=40 n=24,56,40,16,8 act=identity,silu,identity,gelu_tanh,relu "
        "gated=0,1,0,1,0 bias=0,1,0,1,0 layout=io dtype=f16"}) {
    SCOPED_TRACE(line);
    const Problem problem = Got(ParseProblem(line));
    ExpectAgrees(problem.chain, 7);
  }
}

TEST(FfnReference, TakesRowsInAnyOrder) {
  const Chain chain = MakeFfnChain({.n = 24, .k = 16, .l = 5}).value();
  const auto inputs = RandomInputs(chain, 9, 1).value();
  const auto all = FfnReference(chain, 9, inputs, AllRows(9), 1).value();
  const auto some = FfnReference(chain, 9, inputs, {8, 0, 3}, 1).value();
  ASSERT_EQ(some.size(), 15u);
  for (int c = 0; c < 5; ++c) {
    EXPECT_EQ(some[static_cast<size_t>(c)], all[static_cast<size_t>(40 + c)]);
    EXPECT_EQ(some[static_cast<size_t>(5 + c)], all[static_cast<size_t>(c)]);
    EXPECT_EQ(some[static_cast<size_t>(10 + c)], all[static_cast<size_t>(15 + c)]);
  }
  EXPECT_EQ(FfnReference(chain, 9, inputs, {9}, 1).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(FfnReference, SampledRowsAreDistinctAndHaveTheEnds) {
  const std::vector<int64_t> rows = SampledRows(1000, 64, 3);
  ASSERT_EQ(rows.size(), 64u);
  EXPECT_TRUE(std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end());
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 999);
  EXPECT_EQ(SampledRows(5, 64, 3), AllRows(5));
  EXPECT_EQ(SampledRows(1000, 64, 3), SampledRows(1000, 64, 3));
}

}  // namespace
}  // namespace sinter::gpu_testing
