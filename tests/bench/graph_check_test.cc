#include "tests/bench/graph_check.h"

#include "src/engine/verify.h"
#include "src/reference/evaluator.h"
#include "src/reference/reference.h"
#include "tests/bench/rounded_reference.h"
#include "tests/bench/sampled_rows.h"
#include "tests/support/pointers.h"
#include "tests/support/random_graph.h"
#include "tests/support/read_chain.h"
#include "tests/support/rough_chain.h"
#include "tests/support/test.h"

namespace sinter::bench {
namespace {

// y = cast(exp(x)), and with `columns` the sums over the rows too.
GraphCase ExpCase(int64_t rows, bool columns) {
  const Chain chain =
      ReadChain("x: f32[$0,8]; e = exp(x); out bf16(e) $1", rows, columns ? ", sum(e, 0)" : "");
  return GraphCase{.id = "exp", .chain = chain};
}

std::vector<std::string> ReferenceOutputs(const GraphCase& c,
                                          const std::vector<std::string>& inputs) {
  std::vector<std::string> outputs;
  std::vector<void*> to;
  for (int i = 0; i < c.chain.num_outputs(); ++i) {
    outputs.emplace_back(*OutputBytes(c.chain, i, c.m), '\xff');
  }
  for (std::string& output : outputs) to.push_back(&output[0]);
  EXPECT_TRUE(RunReference(c.chain, c.m, PointersTo(inputs), to).ok());
  return outputs;
}

TEST(GraphExpected, SmallGraphsAreComparedInFull) {
  const GraphCase c = ExpCase(100, true);
  const auto inputs = *RandomInputs(c.chain, 0, 1);
  const auto expected = Got(GraphExpected::Make(c, inputs, 1));
  EXPECT_EQ(expected.how(), "reference");
  std::vector<std::string> outputs = ReferenceOutputs(c, inputs);
  EXPECT_TRUE(expected.Judge(c, outputs).ok());
  outputs[1][3] ^= 0x40;  // a high bit of one sum
  const absl::Status wrong = expected.Judge(c, outputs).status();
  EXPECT_NE(wrong.message().find("output 1, f32[8]"), std::string::npos) << wrong;
}

TEST(GraphExpected, LargeOnesAreComparedByRowsWhereRowsDoNotMix) {
  const GraphCase c = ExpCase(1000, false);
  const auto inputs = *RandomInputs(c.chain, 0, 1);
  const auto expected = Got(GraphExpected::Make(c, inputs, 1, 100));
  EXPECT_EQ(expected.how(), "reference, 64 rows");
  std::vector<std::string> outputs = ReferenceOutputs(c, inputs);
  EXPECT_TRUE(expected.Judge(c, outputs).ok());
  for (size_t at = 1; at < outputs[0].size(); at += 16) outputs[0][at] ^= 0x02;  // in every row
  EXPECT_FALSE(expected.Judge(c, outputs).ok());
}

TEST(GraphExpected, OthersAreComparedWithTheUnfusedPlan) {
  const GraphCase c = ExpCase(1000, true);
  const auto inputs = *RandomInputs(c.chain, 0, 1);
  auto expected = Got(GraphExpected::Make(c, inputs, 1, 100));
  EXPECT_EQ(expected.how(), "unfused plan");
  std::vector<std::string> outputs = ReferenceOutputs(c, inputs);
  EXPECT_TRUE(absl::IsFailedPrecondition(expected.Judge(c, outputs).status()));
  ASSERT_TRUE(expected.SetFromOutputs(c, outputs).ok());
  EXPECT_TRUE(expected.Judge(c, outputs).ok());
  outputs[0][9] ^= 0x10;
  EXPECT_FALSE(expected.Judge(c, outputs).ok());
}

GraphCase RandomCase(const char* id, Chain chain, uint64_t seed) {
  const int64_t m = chain.UsesM() ? testing::RowsOfRandomGraph(seed) : 1;
  return {id, "", std::move(chain), m};
}

std::vector<const void*> Pointers(const std::vector<std::string>& inputs) {
  return PointersTo(inputs);
}

// Roundings by themselves exceed BoundsOf if a difference or a minimum leaves little of the values.
TEST(GraphExpected, KnowsWhatRoundingsLeave) {
  const struct {
    GraphCase c;
    int output;
    bool beyond;
  } cases[] = {
      // A sigmoid of 16 bits, whose rows are then normed: its roundings are divided by a small
      // deviation.
      {RandomCase("random", testing::MakeRandomGraph(5215), 5215), 1, true},
      // The least magnitude of 8,320 sums of e4m3 products.
      {RandomCase("random", testing::MakeRandomGraph(20688), 20688), 2, true},
      // Nothing that may be rounded but by the chain itself.
      {RandomCase("rough", testing::MakeRoughChain(77), 77), 0, false},
  };
  for (const auto& at : cases) {
    const Chain& chain = at.c.chain;
    const auto inputs = *RandomInputs(chain, at.c.m, 1);
    const auto exact = *RunReferenceF64(chain, at.c.m, Pointers(inputs));
    auto rounded = *RunRoundedReference(chain, at.c.m, Pointers(inputs));
    const DType dtype = chain.output_type(at.output).dtype;
    const auto output = static_cast<size_t>(at.output);
    EXPECT_EQ(Compare(rounded[output], exact[output], dtype).Within(BoundsOf(chain, at.output)),
              !at.beyond)
        << Compare(rounded[output], exact[output], dtype).ToString();
    const auto expected = Got(GraphExpected::Make(at.c, inputs, 1));
    const auto judge = [&] {
      std::vector<std::string> outputs;
      for (size_t i = 0; i < rounded.size(); ++i) {
        const DType stored = chain.output_type(static_cast<int>(i)).dtype;
        const auto count = static_cast<int64_t>(rounded[i].size());
        outputs.emplace_back(static_cast<size_t>(count * SizeOf(stored)), '\0');
        reference::StoreRun(rounded[i].data(), count, &outputs.back()[0],
                            reference::StorageOf(stored), 0, 1);
      }
      return expected.Judge(at.c, outputs).status();
    };
    EXPECT_TRUE(judge().ok()) << judge();
    // Three times as far off it is wrong.
    for (size_t e = 0; e < exact[output].size(); ++e) {
      const double error =
          at.beyond ? rounded[output][e] - exact[output][e] : exact[output][e] / 50;
      rounded[output][e] = exact[output][e] + 3 * error;
    }
    EXPECT_FALSE(judge().ok()) << at.c.id;
  }
}

// The bounds of most graphs are what they were.
TEST(GraphExpected, WidensFewBounds) {
  int outputs = 0, wider = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const GraphCase c = RandomCase("random", testing::MakeRandomGraph(seed), seed);
    const auto inputs = *RandomInputs(c.chain, c.m, 1);
    const auto exact = *RunReferenceF64(c.chain, c.m, Pointers(inputs));
    const auto rounded = Got(RunRoundedReference(c.chain, c.m, Pointers(inputs)), seed);
    for (size_t i = 0; i < exact.size(); ++i) {
      const DType dtype = c.chain.output_type(static_cast<int>(i)).dtype;
      const Bounds bounds = BoundsOf(c.chain, static_cast<int>(i));
      const Bounds now = BoundsWithRoundings(bounds, rounded[i], exact[i], dtype);
      ++outputs;
      wider += now.relative > bounds.relative || now.max > bounds.max ||
               now.neighbours > bounds.neighbours;
    }
  }
  EXPECT_LT(wider * 20, outputs) << wider << " of " << outputs;
}

TEST(SampledRows, AreDistinctAndHaveTheEnds) {
  const std::vector<int64_t> rows = SampledRows(1000, 64, 3);
  ASSERT_EQ(rows.size(), 64u);
  EXPECT_TRUE(std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end());
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 999);
  EXPECT_THAT(SampledRows(5, 64, 3), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(SampledRows(1000, 64, 3), SampledRows(1000, 64, 3));
}

}  // namespace
}  // namespace sinter::bench
