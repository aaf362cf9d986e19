// What a run would take of memory and time, and that too much is refused before it begins.
#include "src/reference/budget.h"

#include "src/base/refusal.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;

constexpr int64_t kMiB = 1 << 20;

absl::Status Check(const Chain& chain, int64_t m, const ReferenceBudget& budget = {},
                   int64_t rows = -1, bool keeps_outputs = false) {
  return reference::CheckBudget(chain, m, rows, keeps_outputs, budget);
}

// The smallest number of MiB with which `chain` runs.
int64_t LeastMiB(const Chain& chain, int64_t m, int64_t rows = -1, bool keeps_outputs = false) {
  int64_t mib = 1;
  while (!Check(chain, m, {static_cast<double>(mib * kMiB)}, rows, keeps_outputs).ok()) ++mib;
  return mib;
}

// A sum over all of a broadcast scalar: few bytes that ask for `dims` elements.
Chain Spread(const std::vector<Dim>& dims) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {C(1)}}, {});
  const ValueId wide = *b.Broadcast(x, dims);
  const ValueId more = *b.Binary(BinaryKind::kAdd, wide, wide);
  std::vector<int32_t> axes;
  for (size_t i = 0; i < dims.size(); ++i) axes.push_back(static_cast<int32_t>(i));
  return Finished(b, {*b.Reduce(ReduceKind::kSum, more, axes)});
}

TEST(Budget, WhatTakesTooMuchIsRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const float one = 1;
  float sum = 0;
  // 2^40 elements of a constant tensor, and the largest tensor of M there is.
  for (const auto& [chain, m] : {std::pair(Spread({C(1 << 20), C(1 << 20)}), int64_t{1}),
                                 std::pair(Spread({Dim::M(), C(kMaxExtent)}), int64_t{1} << 30)}) {
    const absl::Status run = RunReference(chain, m, {&one}, {&sum});
    EXPECT_EQ(run.code(), absl::StatusCode::kResourceExhausted) << run;
    EXPECT_THAT(run.message(), HasSubstr("reference: at op 2 (add"));
    EXPECT_EQ(OpOf(run), 2);
    EXPECT_THAT(run.message(), HasSubstr("the bound is"));
    EXPECT_THAT(run.message(), HasSubstr("fewer rows"));
    EXPECT_FALSE(RunReferenceF64(chain, m, {&one}).ok());
  }
  const Chain product = ParseProblem("matmul m=M n=65536 k=65536")->chain;
  const absl::Status slow = Check(product, 1 << 20);
  EXPECT_EQ(slow.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(slow.message(), HasSubstr("4.5e+15 operations"));
  EXPECT_THAT(slow.message(), HasSubstr("(matmul"));
  EXPECT_THAT(slow.message(), HasSubstr("the bound is 8.8e+12"));
  EXPECT_THAT(slow.message(), HasSubstr("--large-reference"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(Budget, LayersOfTheLargestModelsFit) {
  const std::pair<const char*, int64_t> layers[] = {
      {"gemm_chain m=M n=28672 k=8192 l=8192 act=gelu_tanh", 8192},
      {"gated_ffn m=M n=28672 k=8192 l=8192 act=silu", 8192},
      {"attention rows=M heads=32 queries=1024 keys=4096 dim=128", 16},  // batches
      {"layernorm rows=M cols=65536", 8192}};
  for (const auto& [line, m] : layers) {
    const auto problem = Got(ParseProblem(line));
    EXPECT_TRUE(Check(problem.chain, m).ok()) << line << Check(problem.chain, m);
  }
}

TEST(Budget, CountsBuffersWhileTheyLive) {
  ChainBuilder b;  // of one op after another, two values of 1024 x 1024 live at once: 16 MiB
  ValueId x = *b.Input({DType::kF32, {C(1024), C(1024)}}, {});
  for (int i = 0; i < 20; ++i) x = *b.Unary(UnaryKind::kExp, x);
  x = *b.Transpose(x, {1, 0});  // a view
  const Chain line = Finished(b, {x});
  EXPECT_EQ(LeastMiB(line, 1), 16);
  EXPECT_EQ(LeastMiB(line, 1, -1, /*keeps_outputs=*/true), 24);
  ChainBuilder c;  // the first of four values lives until the last
  const ValueId first = *c.Input({DType::kF32, {C(1024), C(1024)}}, {});
  const ValueId kept = *c.Unary(UnaryKind::kExp, first);
  ValueId y = kept;
  for (int i = 0; i < 3; ++i) y = *c.Unary(UnaryKind::kExp, y);
  EXPECT_EQ(LeastMiB(Finished(c, {*c.Binary(BinaryKind::kAdd, y, kept)}), 1), 24);
}

TEST(Budget, RowsBoundWhatAPassHolds) {
  const Chain chain = ParseProblem("layernorm rows=M cols=1024")->chain;
  EXPECT_LT(LeastMiB(chain, 1 << 24), 1024) << "a pass is of 2^13 rows";
  EXPECT_LT(LeastMiB(chain, 1 << 24, 64), 8) << "64 rows";
  // Values that do not depend on M are computed again in each pass.
  const Chain shared = ReadChain(
      "x: f32[M,131072]; y: f32[131072]; w = exp(y); both = x + spread(w, [M,131072]); "
      "out both");
  ReferenceBudget budget{.operations = 16.0 * (1 << 17) * (64 + 1)};
  EXPECT_TRUE(Check(shared, 64, budget).ok()) << Check(shared, 64, budget);
  budget.operations *= 2;
  EXPECT_TRUE(Check(shared, 128, budget).ok());
  EXPECT_FALSE(Check(shared, 129, budget).ok());
}

}  // namespace
}  // namespace sinter
