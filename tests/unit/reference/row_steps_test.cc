// top_k, scan and random against loops and known numbers.
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;
using testing::kInf;
using testing::kNaN;
using testing::Random;
using testing::RunF64;

using Ids = std::vector<double>;

TEST(RowSteps, GiveTheValuesOfTheFile) {
  testing::ExpectValues("row steps");
  EXPECT_TRUE(IsRowIndependent(ReadChain("x: f32[M,6]; out topk(x, 6), argmax(x), argmin(x)")));
}

// Each place is named once, and what it names is no less than all that is named later or never.
TEST(TopK, NamesTheLargestOfStridedRows) {
  constexpr int64_t kM = 5, kColumns = 70, kTaken = 32;
  const std::vector<double> x = Random(DType::kBF16, kM * 2 * kColumns * 2, 1);
  const Chain chain = ReadChain("x: bf16[M,2,$0] strides($1, $0, 1); out topk(x, $2)", kColumns,
                                4 * kColumns, kTaken);
  const auto result = RunF64(chain, kM, {x});
  for (int64_t row = 0; row < kM * 2; ++row) {
    const double* from = x.data() + row / 2 * 4 * kColumns + row % 2 * kColumns;
    std::vector<bool> named(kColumns);
    double last = kInf;
    for (int64_t i = 0; i < kTaken; ++i) {
      const auto id = static_cast<size_t>(result[0][row * kTaken + i]);
      ASSERT_LT(id, named.size());
      EXPECT_FALSE(named[id]);
      named[id] = true;
      EXPECT_LE(from[id], last);
      last = from[id];
    }
    for (size_t id = 0; id < named.size(); ++id) EXPECT_TRUE(named[id] || from[id] <= last);
  }
}

TEST(Scan, SumsBF16InF32AndS32InItself) {
  const Chain chain = ReadChain("x: bf16[M,3]; i: s32[4]; out cumsum(x), cumsum(i)");
  EXPECT_EQ(chain.output_type(0).dtype, DType::kF32);
  EXPECT_EQ(chain.output_type(1).dtype, DType::kS32);
}

// The first words of Philox4x32-10 as its authors (0, 0) and Triton (42, 1) give them.
TEST(Random, IsThatOfTriton) {
  const auto uniform = [](uint32_t word) {
    const auto bits = static_cast<int32_t>(word);
    return static_cast<double>(static_cast<float>(bits < 0 ? -bits - 1 : bits) * 4.6566127342e-10f);
  };
  struct Case {
    int64_t seed, offset;
    uint32_t word;
  };
  for (const Case& c :
       {Case{0, 0, 0x6627e8d5}, Case{42, 1, 4242219303u}, Case{-1, -1, 0x4d18d7d2}}) {
    // Its second number, but where the first one is asked for.
    const int64_t back = c.offset == 0 ? 0 : 1;
    const Chain chain = ReadChain(
        "seeds: s64[3]; offset: s64[]; out random([M,2], reshape(seeds[1:2], []), offset)");
    const int64_t given[] = {7, c.seed, 9}, first = c.offset - back;
    std::vector<float> result(4);
    ASSERT_TRUE(RunReference(chain, 2, {given, &first}, {result.data()}).ok());
    EXPECT_EQ(result[static_cast<size_t>(back)], uniform(c.word)) << c.seed;
    for (const float number : result) EXPECT_TRUE(number >= 0 && number < 1);
    if (c.seed != 0) continue;
    // Rows computed without the others keep their own numbers.
    ReferenceOptions options;
    const std::vector<int64_t> rows = {1};
    options.rows = &rows;
    const auto alone = Got(RunReferenceF64(chain, 2, {given, &first}, options));
    EXPECT_EQ(alone[0], (std::vector<double>{result[2], result[3]}));
  }
}

// A row's numbers follow from its seed and offset, wherever the row stands.
TEST(Random, OfRowsWithSeedsCountsWithinARow) {
  const int64_t seeds[] = {42, 7, 42}, offsets[] = {5, int64_t{1} << 40, 5};
  const Chain one = ReadChain("seed: s64[]; offset: s64[]; out random([M,2,3], seed, offset)");
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < 3; ++i) {
    expected.emplace_back(6);
    const void* const given[] = {&seeds[i], &offsets[i]};
    ASSERT_TRUE(RunReference(one, 1, {given[0], given[1]}, {expected.back().data()}).ok());
  }
  EXPECT_EQ(expected[0], expected[2]);
  EXPECT_NE(expected[0], expected[1]);
  const Chain rows = ReadChain("seed: s64[M]; offset: s64[M]; out random([M,2,3], seed, offset)");
  std::vector<float> result(18);
  ASSERT_TRUE(RunReference(rows, 3, {seeds, offsets}, {result.data()}).ok());
  for (size_t i = 0; i < 18; ++i) EXPECT_EQ(result[i], expected[i / 6][i % 6]) << i;
  // An offset of each row and one seed: the place in the row counts too.
  const Chain offset = ReadChain("seed: s32[]; offset: s64[M]; out random([M,2,3], seed, offset)");
  const int32_t seed = 42;
  ASSERT_TRUE(RunReference(offset, 3, {&seed, offsets}, {result.data()}).ok());
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(result[i], expected[0][i]) << i;
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(result[12 + i], expected[0][i]) << i;
}

}  // namespace
}  // namespace sinter
