// Sums over ranks in the reference, which runs all ranks.
#include "src/reference/compare.h"
#include "src/reference/evaluator.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;
using testing::Encode;
using testing::Random;
using V = std::vector<double>;

std::vector<V> RunRanks(const Chain& chain, int64_t m, const std::vector<V>& inputs,
                        DType dtype = DType::kBF16) {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<const void*> pointers;
  for (const V& input : inputs) bytes.push_back(Encode(dtype, input));
  for (const auto& input : bytes) pointers.push_back(input.data());
  return Got(RunReferenceF64(chain, m, pointers));
}

TEST(AllReduce, AddsInTheOrderOfRanksInF32AndRoundsOnce) {
  // In another order, or in float64, the sum were another one.
  const double big = 0x1p30, small = 1;
  const Chain chain = ReadChain("x: f32[M,2]; out all_reduce(x, 3)");
  const std::vector<V> out =
      RunRanks(chain, 1, {{big, small}, {small, big}, {-big, -big}}, DType::kF32);
  ASSERT_EQ(out.size(), 3u);
  for (const V& rank : out) EXPECT_EQ(rank, (V{0, 0}));
  const std::vector<V> exact = RunRanks(chain, 1, {{big, 3}, {-big, 4}, {small, 5}}, DType::kF32);
  for (const V& rank : exact) EXPECT_EQ(rank, (V{1, 12}));
}

TEST(AllReduce, EachRankAddsItsOwnResidual) {
  const Chain chain = ParseProblem("all_reduce rows=M cols=8 ranks=2 residual=1")->chain;
  const V x0 = Random(DType::kBF16, 24, 1), x1 = Random(DType::kBF16, 24, 2);
  const V r0 = Random(DType::kBF16, 24, 3), r1 = Random(DType::kBF16, 24, 4);
  std::vector<V> inputs(4);
  for (int i = 0; i < 2; ++i) {
    const bool first = chain.InputOrder()[static_cast<size_t>(i)] == 0;
    inputs[static_cast<size_t>(i)] = first ? x0 : r0;
    inputs[static_cast<size_t>(i + 2)] = first ? x1 : r1;
  }
  const std::vector<V> out = RunRanks(chain, 3, inputs);
  ASSERT_EQ(out.size(), 2u);
  for (size_t i = 0; i < x0.size(); ++i) {
    const double sum = reference::RoundTo(DType::kBF16, x0[i] + x1[i]);
    EXPECT_EQ(out[0][i], reference::RoundTo(DType::kBF16, sum + r0[i]));
    EXPECT_EQ(out[1][i], reference::RoundTo(DType::kBF16, sum + r1[i]));
  }
}

TEST(AllReduce, CarriesInfinitiesAndNaNs) {
  const Chain chain = ParseProblem("all_reduce rows=M cols=8 ranks=2")->chain;
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<V> out =
      RunRanks(chain, 1, {{inf, inf, 0, NAN, 1, 2, 3, 4}, {1, -inf, NAN, 1, 0, 0, 0, 0}});
  EXPECT_EQ(out[0][0], inf);
  for (const int i : {1, 2, 3}) EXPECT_TRUE(std::isnan(out[1][static_cast<size_t>(i)]));
  EXPECT_EQ(out[1][7], 4);
}

// Bit for bit: a part of the sum equals the same part of the whole sum, and a gather of all parts
// equals the whole.
TEST(ReduceScatter, HasItsPartOfTheSumAndAGatherJoinsThem) {
  for (const int ranks : {2, 3, 8}) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      for (const int axis : {0, 2, 3}) {
        const std::vector<Dim> dims = {C(24), Dim::M(), C(24), C(24)};
        constexpr int64_t kM = 2;
        std::vector<V> inputs;
        for (int r = 0; r < ranks; ++r)
          inputs.push_back(Random(dtype, 24 * kM * 24 * 24, static_cast<uint64_t>(r + 1)));
        const auto run = [&](const auto& add) {
          ChainBuilder b;
          return RunRanks(Finished(b, {add(b, *b.Input({dtype, dims}))}), kM, inputs, dtype);
        };
        const std::vector<V> sums =
            run([&](ChainBuilder& b, ValueId x) { return *b.AllReduce(x, ranks); });
        const std::vector<V> parts =
            run([&](ChainBuilder& b, ValueId x) { return *b.ReduceScatter(x, axis, ranks); });
        const std::vector<V> joined = run([&](ChainBuilder& b, ValueId x) {
          return *b.AllGather(*b.ReduceScatter(x, axis, ranks), axis, ranks);
        });
        int64_t behind = 1;
        for (int i = axis + 1; i < 4; ++i) behind *= i == 1 ? kM : 24;
        for (int r = 0; r < ranks; ++r) {
          EXPECT_EQ(joined[static_cast<size_t>(r)], sums[0]);
          V want;
          for (size_t i = 0; i < sums[0].size(); ++i) {
            const int64_t place = static_cast<int64_t>(i) / behind % 24;
            if (place / (24 / ranks) == r) want.push_back(sums[0][i]);
          }
          EXPECT_EQ(parts[static_cast<size_t>(r)], want) << ranks << " " << axis << " " << r;
        }
      }
    }
  }
}

TEST(AllGather, RoundsAndKeepsInfinitiesAndNaNs) {
  const double inf = std::numeric_limits<double>::infinity();
  const Chain chain = ReadChain("x: bf16[M,2]; out all_gather(x + 0.000244140625:bf16, 1, 2)");
  const std::vector<V> out = RunRanks(chain, 1, {{1, inf}, {-inf, NAN}});
  for (const V& rank : out) {
    EXPECT_EQ(rank[0], 1) << "rounded to its type";
    EXPECT_EQ(rank[1], inf);
    EXPECT_EQ(rank[2], -inf);
    EXPECT_TRUE(std::isnan(rank[3]));
  }
  const Chain none = ParseProblem("all_gather rows=M cols=8 ranks=2 along=rows")->chain;
  EXPECT_TRUE(RunRanks(none, 0, {{}, {}})[0].empty());
}

TEST(AllReduce, ASplitProductIsTheWholeProduct) {
  const Chain split = ParseProblem("row_parallel m=M n=16 k=8 ranks=2 dtype=f32")->chain;
  const Chain whole = ParseProblem("matmul m=M n=16 k=16 dtype=f32")->chain;
  constexpr int64_t kM = 5;
  V a = Random(DType::kF32, kM * 16, 1), w = Random(DType::kF32, 16 * 16, 2);
  const V r = Random(DType::kF32, kM * 16, 3), gamma = Random(DType::kF32, 16, 4);
  std::vector<V> inputs;
  for (int rank = 0; rank < 2; ++rank) {
    const auto half = [&](const V& of) {
      V part;
      for (size_t i = 0; i < of.size(); ++i) {
        if (i % 16 / 8 == static_cast<size_t>(rank)) part.push_back(of[i]);
      }
      return part;
    };
    const V given[] = {half(a), half(w), r, gamma};  // in the caller's order
    for (const int32_t input : split.InputOrder()) inputs.push_back(given[input]);
  }
  const std::vector<V> out = RunRanks(split, kM, inputs, DType::kF32);
  ASSERT_EQ(out.size(), 4u);
  const std::vector<V> want = testing::RunF64(whole, kM, {a, w});
  for (size_t i = 0; i < want[0].size(); ++i) {
    EXPECT_NEAR(out[0][i], want[0][i] + r[i], 1e-5);
    EXPECT_EQ(out[0][i], out[2][i]);
    EXPECT_EQ(out[1][i], out[3][i]);
  }
}

TEST(AllReduce, AsksForTheInputsOfAllRanks) {
  const Chain chain = ParseProblem("all_reduce rows=M cols=8 ranks=2")->chain;
  const std::vector<uint8_t> x(16);
  const auto alone = RunReferenceF64(chain, 1, {x.data()});
  EXPECT_EQ(alone.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(alone.status().message()),
            "reference: inputs are 1, the chain has 1 of each of 2 ranks: give those of rank 0, "
            "then those of rank 1, and so on");
}

}  // namespace
}  // namespace sinter
