#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/chain/builder.h"
#include "src/chain/chain.h"
#include "src/chain/problem.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

Chain Finished(ChainBuilder builder, ValueId output) {
  EXPECT_TRUE(builder.Output(output).ok());
  return builder.Finish().value();
}

std::string WhyNot(const Chain& chain) { return std::string(CheckRowsApart(chain).message()); }

TEST(CheckRowsApart, TakesWhatKeepsM) {
  for (const char* line : {"softmax rows=M cols=512", "layernorm rows=M cols=96",
                           "lstm_cell rows=M hidden=24", "masked_softmax rows=M cols=64 mask=row",
                           "gated_ffn m=64 n=256 k=128 l=128 act=silu layout=oi dtype=bf16"}) {
    EXPECT_TRUE(CheckRowsApart(ParseProblem(line)->chain).ok()) << line;
  }
}

TEST(CheckRowsApart, NamesAReductionOverM) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {Dim::M(), Dim::Constant(8)}});
  const ValueId sum = *b.Reduce(ReduceKind::kSum, x, {0}, false);
  EXPECT_EQ(WhyNot(Finished(std::move(b), sum)),
            "op 1 (reduce) takes all rows of input 0, f32[M,8], together");
}

// Over a constant number of rows, and over M of them.
TEST(CheckRowsApart, NamesAScatterOfMRowsOrOverThem) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {Dim::Constant(9), Dim::Constant(8)}});
  const ValueId rows = *b.Input({DType::kF32, {Dim::M(), Dim::Constant(8)}});
  const ValueId ids = *b.Input({DType::kS32, {Dim::M()}});
  const ValueId written = *b.Scatter(x, ids, rows);
  EXPECT_EQ(WhyNot(Finished(std::move(b), written)),
            "op 3 (scatter) takes all rows of input 2, s32[M], together");
  ChainBuilder over;
  const ValueId all = *over.Input({DType::kF32, {Dim::M(), Dim::Constant(8)}});
  const ValueId some = *over.Input({DType::kS64, {Dim::Constant(3)}});
  const ValueId r = *over.Input({DType::kF32, {Dim::Constant(3), Dim::Constant(8)}});
  const ValueId among_all = *over.Scatter(all, some, r);
  EXPECT_EQ(WhyNot(Finished(std::move(over), among_all)),
            "op 3 (scatter) writes rows among all of f32[M,8]");
}

TEST(CheckRowsApart, NamesAGatherOfMRowsAndTakesOthers) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {Dim::M(), Dim::Constant(8)}});
  const ValueId ids = *b.Input({DType::kS32, {Dim::M()}});
  const ValueId taken = *b.Gather(x, ids);
  EXPECT_EQ(WhyNot(Finished(std::move(b), taken)), "op 2 (gather) takes rows from all of f32[M,8]");
  ChainBuilder apart;
  const ValueId table = *apart.Input({DType::kF32, {Dim::Constant(9), Dim::Constant(8)}});
  const ValueId rows = *apart.Gather(table, *apart.Input({DType::kS64, {Dim::M()}}));
  const ValueId which = *apart.Input({DType::kS32, {Dim::M(), Dim::Constant(2)}});
  const ValueId last = *apart.Gather(rows, which, -1);
  EXPECT_EQ(WhyNot(Finished(std::move(apart), last)), "");
}

TEST(CheckRowsApart, NamesAProductThatContractsM) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kBF16, {Dim::M(), Dim::Constant(8)}});
  const ValueId y = *b.Input({DType::kBF16, {Dim::M(), Dim::Constant(16)}});
  const ValueId gradient = *b.Matmul(x, y, true, false);
  EXPECT_THAT(WhyNot(Finished(std::move(b), gradient)), HasSubstr("(matmul) takes all rows of"));
}

TEST(CheckRowsApart, NamesAProductOfRowsWithRows) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kBF16, {Dim::M(), Dim::Constant(8)}});
  const ValueId scores = *b.Matmul(x, x, false, true);
  EXPECT_THAT(WhyNot(Finished(std::move(b), scores)),
              HasSubstr("(matmul) has M more than once: f32[M,M]"));
}

TEST(CheckRowsApart, NamesAReshapeThatMovesM) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {Dim::M(), Dim::Constant(8)}});
  const ValueId turned = *b.Reshape(x, {Dim::Constant(8), Dim::M()});
  EXPECT_EQ(WhyNot(Finished(std::move(b), turned)),
            "op 1 (reshape) moves M from f32[M,8] to f32[8,M]");
}

}  // namespace
}  // namespace sinter
