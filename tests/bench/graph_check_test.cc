#include "tests/bench/graph_check.h"

#include <gtest/gtest.h>

#include "src/chain/builder.h"
#include "src/engine/trial_data.h"
#include "src/reference/reference.h"
#include "tests/support/constant_dim.h"

namespace sinter::bench {
namespace {

// y = cast(exp(x)), and with `columns` the sums over the rows too.
GraphCase ExpCase(int64_t rows, bool columns) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {C(rows), C(8)}});
  const ValueId e = *b.Unary(UnaryKind::kExp, x);
  EXPECT_TRUE(b.Output(*b.Cast(e, DType::kBF16)).ok());
  if (columns) {
    EXPECT_TRUE(b.Output(*b.Reduce(ReduceKind::kSum, e, {0})).ok());
  }
  GraphCase c;
  c.id = "exp";
  c.chain = *b.Finish();
  return c;
}

std::vector<std::string> ReferenceOutputs(const GraphCase& c,
                                          const std::vector<std::string>& inputs) {
  std::vector<const void*> from;
  for (const std::string& input : inputs) from.push_back(input.data());
  std::vector<std::string> outputs;
  std::vector<void*> to;
  for (int i = 0; i < c.chain.num_outputs(); ++i) {
    outputs.emplace_back(*OutputBytes(c.chain, i, c.m), '\xff');
  }
  for (std::string& output : outputs) to.push_back(&output[0]);
  EXPECT_TRUE(RunReference(c.chain, c.m, from, to).ok());
  return outputs;
}

TEST(GraphExpected, SmallGraphsAreComparedInFull) {
  const GraphCase c = ExpCase(100, true);
  const auto inputs = *RandomInputs(c.chain, 0, 1);
  const auto expected = GraphExpected::Make(c, inputs, 1);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(expected->how(), "reference");
  std::vector<std::string> outputs = ReferenceOutputs(c, inputs);
  EXPECT_TRUE(expected->Judge(c, outputs).ok());
  outputs[1][3] ^= 0x40;  // a high bit of one sum
  const absl::Status wrong = expected->Judge(c, outputs).status();
  EXPECT_NE(wrong.message().find("output 1, f32[8]"), std::string::npos) << wrong;
}

TEST(GraphExpected, LargeOnesAreComparedByRowsWhereRowsDoNotMix) {
  const GraphCase c = ExpCase(1000, false);
  const auto inputs = *RandomInputs(c.chain, 0, 1);
  const auto expected = GraphExpected::Make(c, inputs, 1, 100);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(expected->how(), "reference, 64 rows");
  std::vector<std::string> outputs = ReferenceOutputs(c, inputs);
  EXPECT_TRUE(expected->Judge(c, outputs).ok());
  for (size_t at = 1; at < outputs[0].size(); at += 16) outputs[0][at] ^= 0x02;  // in every row
  EXPECT_FALSE(expected->Judge(c, outputs).ok());
}

TEST(GraphExpected, OthersAreComparedWithTheUnfusedPlan) {
  const GraphCase c = ExpCase(1000, true);
  const auto inputs = *RandomInputs(c.chain, 0, 1);
  auto expected = GraphExpected::Make(c, inputs, 1, 100);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(expected->how(), "unfused plan");
  std::vector<std::string> outputs = ReferenceOutputs(c, inputs);
  EXPECT_TRUE(absl::IsFailedPrecondition(expected->Judge(c, outputs).status()));
  ASSERT_TRUE(expected->SetFromOutputs(c, outputs).ok());
  EXPECT_TRUE(expected->Judge(c, outputs).ok());
  outputs[0][9] ^= 0x10;
  EXPECT_FALSE(expected->Judge(c, outputs).ok());
}

}  // namespace
}  // namespace sinter::bench
