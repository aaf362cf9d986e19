#include "src/base/refusal.h"
#include "src/reference/rows.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

// How chains run: strides, rows, threads, M = 0, aliases, refusals.

using testing::C;
using testing::Decode;
using testing::Encode;
using testing::Random;
using testing::RunF64;
using V = std::vector<double>;

std::vector<V> InputsOf(const Chain& chain, int64_t m) {
  std::vector<V> in;
  for (int32_t i : chain.CallerOrder()) {
    const TensorType& type = chain.input_op(i).type;
    in.push_back(Random(type.dtype, *ElementCount(type.dims, m), 7 + i));
  }
  return in;
}

TEST(Reference, StridedInputsAndOutputsAreReadAndWrittenInPlaceOnly) {
  // x^T of [M,3] with padded rows, written with padded rows.
  const Chain chain =
      ReadChain("x: s32[M,3] strides(5, 1); out transpose(x, 1, 0) strides(2*M, 1)");
  const std::vector<uint8_t> in = Encode(DType::kS32, {0, 1, 2, -1, -1, 10, 11, 12});
  std::vector<uint8_t> out = Encode(DType::kS32, V(10, 99));
  ASSERT_TRUE(RunReference(chain, 2, {in.data()}, {out.data()}).ok());
  EXPECT_EQ(Decode(DType::kS32, out), (V{0, 10, 99, 99, 1, 11, 99, 99, 2, 12}));
}

TEST(Reference, SomeRowsEqualThoseOfAllRows) {
  for (const char* line :
       {"gated_ffn m=M n=24 k=16 l=8 act=silu bias1=1 bias2=1", "layernorm rows=M cols=9",
        "masked_softmax rows=M cols=9", "rope rows=M heads=2 dim=4"}) {
    const Chain chain = ParseProblem(line)->chain;
    ASSERT_TRUE(IsRowIndependent(chain));
    const std::vector<V> in = InputsOf(chain, 11);
    const V all = RunF64(chain, 11, in)[0];
    const size_t width = all.size() / 11;
    for (const std::vector<int64_t>& rows :
         {std::vector<int64_t>{10, 0, 3, 3}, std::vector<int64_t>{4, 5, 6},
          std::vector<int64_t>{}}) {
      ReferenceOptions options{.rows = &rows};
      V expected;
      for (int64_t r : rows)
        expected.insert(expected.end(), all.begin() + r * width, all.begin() + (r + 1) * width);
      EXPECT_EQ(RunF64(chain, 11, in, options)[0], expected) << line;
    }
  }
}

TEST(Reference, WithRowsOnlyThoseAreWritten) {
  // M is the last axis.
  const Chain chain = ReadChain("x: f32[2,M]; out x + iota([2,M], 1, f32)");
  const std::vector<uint8_t> in = Encode(DType::kF32, {10, 20, 30, 40, 50, 60});
  std::vector<uint8_t> out = Encode(DType::kF32, V(6, -1));
  const std::vector<int64_t> rows = {2, 0};
  ASSERT_TRUE(RunReference(chain, 3, {in.data()}, {out.data()}, {.rows = &rows}).ok());
  EXPECT_EQ(Decode(DType::kF32, out), (V{10, -1, 32, 40, -1, 62}));
}

TEST(Reference, RowsAreRefusedWhereRowsMix) {
  const auto why = [](const char* mixed) {
    const Chain chain = ReadChain("x: f32[M,4]; out $0", mixed);
    const std::vector<int64_t> rows = {0};
    ReferenceOptions options{.rows = &rows};
    const float data[16] = {};
    EXPECT_FALSE(IsRowIndependent(chain));
    return std::string(RunReferenceF64(chain, 2, {data}, options).status().message());
  };
  EXPECT_EQ(why("sum(x, 0)"), "reference: rows given, but op 1 (reduce) : f32[4] mixes rows of M");
  EXPECT_EQ(why("x @ x.T"), "reference: rows given, but op 1 (matmul) : f32[M,M] mixes rows of M");
  EXPECT_EQ(why("x.T @ x"), "reference: rows given, but op 1 (matmul) : f32[4,4] mixes rows of M");
  EXPECT_EQ(why("reshape(x, [4,M])"),
            "reference: rows given, but op 1 (reshape) : f32[4,M] mixes rows of M");
}

TEST(Reference, MixedRowsRunWhole) {
  const Chain chain = ReadChain("x: f32[M,2]; out x.T @ x");
  EXPECT_EQ(RunF64(chain, 3, {{1, 2, 3, 4, 5, 6}})[0], (V{35, 44, 44, 56}));
}

TEST(Reference, TheNumberOfThreadsAndPassesChangesNoBit) {
  const Chain chain = ParseProblem("gated_ffn m=M n=300 k=260 l=140 act=gelu_tanh")->chain;
  const std::vector<V> in = InputsOf(chain, 70);
  ReferenceOptions options{.threads = 1};
  const auto one = RunF64(chain, 70, in, options);
  for (int threads : {2, 3, 7}) {
    options.threads = threads;
    EXPECT_EQ(RunF64(chain, 70, in, options), one);
  }
}

TEST(Reference, ManyPassesEqualOne) {
  // 2^17 columns make a pass of 64 rows; an output without M is stored once.
  const Chain chain =
      ReadChain("x: f32[M,1]; v: f32[2]; wide = spread(x, [M,131072]); out mean(wide, 1), v + v");
  const V in = Random(DType::kF32, 130, 1);
  const auto result = RunF64(chain, 130, {in, {1, 2}});
  testing::ExpectNear(result[0], in, 1e-12);
  EXPECT_EQ(result[1], (V{2, 4}));
}

TEST(Reference, ZeroRowsWriteTheOutputsWithoutM) {
  const Chain ffn = ParseProblem("gemm_chain m=0 n=8 k=8 l=8 act=relu")->chain;
  const std::vector<uint8_t> w(128, 0);
  std::vector<const void*> in(3, w.data());
  in[0] = nullptr;
  EXPECT_TRUE(RunReference(ffn, 0, in, {nullptr}).ok());
  EXPECT_EQ(RunReferenceF64(ffn, 0, in)->at(0).size(), 0u);
  const Chain sum = ReadChain("x: f32[M,2]; out sum(x, 0)");
  EXPECT_EQ(RunReferenceF64(sum, 0, {nullptr})->at(0), (V{0, 0}));
  const double infinity = std::numeric_limits<double>::infinity();
  const std::pair<const char*, double> kinds[] = {
      {"sum", 0}, {"reduce_max", -infinity}, {"reduce_min", infinity}, {"mean", std::nan("")}};
  for (const auto& [kind, value] : kinds) {
    for (const bool whole : {false, true}) {
      const Chain chain =
          ReadChain("x: f32[M,2]; out abs(x), $0(x, $1)", kind, whole ? "0, 1" : "0");
      std::vector<float> rows = {7}, out = {5, 6};
      ASSERT_TRUE(RunReference(chain, 0, {nullptr}, {rows.data(), out.data()}).ok());
      EXPECT_EQ(rows[0], 7);
      EXPECT_TRUE(out[0] == value || (std::isnan(value) && std::isnan(out[0]))) << out[0];
      EXPECT_EQ(out[1] == 6, whole);
    }
  }
  const std::pair<const char*, int32_t> integers[] = {
      {"sum", 0}, {"reduce_max", INT32_MIN}, {"reduce_min", INT32_MAX}};
  for (const auto& [kind, value] : integers) {
    int32_t out = 5;
    ASSERT_TRUE(
        RunReference(ReadChain("x: s32[M]; out $0(x, 0)", kind), 0, {nullptr}, {&out}).ok());
    EXPECT_EQ(out, value);
  }
}

// The sum over M of a product is 0 where nothing is added; what it is made into follows.
TEST(Reference, ZeroRowsGoOnThroughProductsAndActivations) {
  const Chain chain = ReadChain(
      "x: f32[M,2]; w: f32[3,2]; sum = sum(x, 0, keep); one = sigmoid(sum); "
      "out one @ w.T, x.T @ x");
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  std::vector<float> y(3, -1), gram(4, -1);
  ASSERT_TRUE(RunReference(chain, 0, {nullptr, weights.data()}, {y.data(), gram.data()}).ok());
  EXPECT_EQ(y, (std::vector<float>{1.5, 3.5, 5.5}));
  EXPECT_EQ(gram, (std::vector<float>{0, 0, 0, 0}));
}

TEST(Reference, AnOutputMayShareItsInputsBuffer) {
  // A swap of two buffers, and a square transposed in place.
  const Chain chain = ReadChain("x, y: f32[2,2]; out transpose(y, 1, 0) over x, x over y");
  std::vector<float> p = {1, 2, 3, 4}, q = {5, 6, 7, 8};
  const std::vector<int32_t> order = chain.InputOrder();
  std::vector<const void*> in;
  for (int32_t caller : order) in.push_back(caller == 0 ? p.data() : q.data());
  ASSERT_TRUE(RunReference(chain, 1, in, {p.data(), q.data()}).ok());
  EXPECT_EQ(p, (std::vector<float>{5, 7, 6, 8}));
  EXPECT_EQ(q, (std::vector<float>{1, 2, 3, 4}));
}

TEST(Reference, RefusesWrongCountsPointersSizesAndRows) {
  const Chain chain = ParseProblem("softmax rows=M cols=4 dtype=f32")->chain;
  std::vector<float> x(8), y(8);
  EXPECT_EQ(RunReference(chain, 2, {}, {y.data()}).message(),
            "reference: inputs are 0, the chain has 1");
  EXPECT_EQ(RunReference(chain, 2, {x.data()}, {}).message(),
            "reference: outputs are 0, the chain has 1");
  EXPECT_EQ(RunReference(chain, 2, {nullptr}, {y.data()}).message(),
            "reference: pointer of input 0 is null, 32 bytes are needed");
  EXPECT_EQ(RunReference(chain, 2, {x.data()}, {nullptr}).message(),
            "reference: pointer of output 0 is null, 32 bytes are needed");
  EXPECT_EQ(RunReference(chain, -1, {x.data()}, {y.data()}).message(),
            "m is -1, must be in [0, 2^31 - 1]");
  const std::vector<int64_t> rows = {2};
  EXPECT_EQ(RunReference(chain, 2, {x.data()}, {y.data()}, {.rows = &rows}).message(),
            "reference: row is 2, must be in [0, 1]");
}

// What a run would take of memory and time, and that too much is refused before it begins.

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
Chain Spread(const std::string& dims, const char* axes) {
  return ReadChain("wide = spread({f32[1]}, [$0]); out sum(wide + wide, $1)", dims, axes);
}

TEST(Budget, WhatTakesTooMuchIsRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const float one = 1;
  float sum = 0;
  // 2^40 elements of a constant tensor, and the largest tensor of M there is.
  for (const auto& [chain, m] :
       {std::pair(Spread("1048576,1048576", "0, 1"), int64_t{1}),
        std::pair(Spread(absl::StrCat("M,", kMaxExtent), "0, 1"), int64_t{1} << 30)}) {
    const absl::Status run = RunReference(chain, m, {&one}, {&sum});
    EXPECT_EQ(run.code(), absl::StatusCode::kResourceExhausted) << run;
    EXPECT_THAT(run.message(), HasSubstr("reference: at op 2 (add"));
    EXPECT_EQ(OpOf(run), 2);
    EXPECT_THAT(run.message(), HasSubstr("the bound is"));
    EXPECT_THAT(run.message(), HasSubstr("fewer rows"));
    EXPECT_FALSE(RunReferenceF64(chain, m, {&one}).ok());
  }
  const absl::Status slow = Check(ParseProblem("matmul m=M n=65536 k=65536")->chain, 1 << 20);
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
  ChainReader line("x: f32[1024,1024]");  // two values live at once: 16 MiB
  for (int i = 0; i < 20; ++i) line.Add("x = exp(x)");
  line.Add("out transpose(x, 1, 0)");  // a view
  const Chain chain = line.Finish();
  EXPECT_EQ(LeastMiB(chain, 1), 16);
  EXPECT_EQ(LeastMiB(chain, 1, -1, /*keeps_outputs=*/true), 24);
  // The first of four values lives until the last.
  EXPECT_EQ(LeastMiB(ReadChain("y = exp({f32[1024,1024]}); out exp(exp(exp(y))) + y"), 1), 24);
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

TEST(ParallelTest, WhatAThreadThrowsReachesTheCaller) {
  for (int at = 0; at < 16; ++at) {
    std::atomic<int> begun{0};
    EXPECT_THROW(reference::ForEachIndex(16,
                                         [&](int i) {
                                           ++begun;
                                           if (i == at) throw std::bad_alloc();
                                         }),
                 std::bad_alloc);
    EXPECT_LE(begun, 16);
  }
}

TEST(ParallelTest, WhenAllThrowOneIsTold) {
  EXPECT_THROW(reference::ForEachIndex(64, [](int) { throw std::bad_alloc(); }), std::bad_alloc);
  std::atomic<int> done{0};
  reference::ForEachIndex(64, [&](int) { ++done; });
  EXPECT_EQ(done, 64);
}

TEST(ParallelTest, NoMoreThreadsThanAsked) {
  std::atomic<int> inside{0}, most{0};
  reference::ForEachIndex(
      16,
      [&](int) {
        most = std::max(most.load(), ++inside);
        std::this_thread::yield();
        --inside;
      },
      1);
  EXPECT_EQ(most, 1);
}

TEST(ParallelTest, TheReferencesThreadsTellTooWhatTheyThrow) {
  EXPECT_THROW(reference::ParallelFor(4, 1000, 1, [](int64_t, int64_t) { throw std::bad_alloc(); }),
               std::bad_alloc);
}

}  // namespace
}  // namespace sinter
