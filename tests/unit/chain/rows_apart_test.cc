#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

std::string WhyNot(const char* chain) {
  return std::string(CheckRowsApart(ReadChain(chain)).message());
}

TEST(CheckRowsApart, TakesWhatKeepsM) {
  for (const char* line :
       {"softmax rows=M cols=512", "layernorm rows=M cols=96", "lstm_cell rows=M hidden=24",
        "next_token rows=M cols=9000 count=20 k=1", "masked_softmax rows=M cols=64 mask=row",
        "gated_ffn m=64 n=256 k=128 l=128 act=silu layout=oi dtype=bf16"}) {
    EXPECT_TRUE(CheckRowsApart(ParseProblem(line)->chain).ok()) << line;
  }
}

TEST(CheckRowsApart, NamesAReductionOverM) {
  EXPECT_EQ(WhyNot("x: f32[M,8]; out sum(x, 0)"),
            "op 1 (reduce) takes all rows of 'x', f32[M,8], together");
}

// Over a constant number of rows, and over M of them.
TEST(CheckRowsApart, NamesAScatterOfMRowsOrOverThem) {
  EXPECT_EQ(WhyNot("x: f32[9,8]; rows: f32[M,8]; ids: s32[M]; out scatter(x, ids, rows)"),
            "op 3 (scatter) takes all rows of 'ids', s32[M], together");
  EXPECT_EQ(WhyNot("x: f32[M,8]; ids: s64[3]; rows: f32[3,8]; out scatter(x, ids, rows)"),
            "op 3 (scatter) writes rows among all of f32[M,8]");
}

TEST(CheckRowsApart, NamesAGatherOfMRowsAndTakesOthers) {
  EXPECT_EQ(WhyNot("x: f32[M,8]; ids: s32[M]; out gather(x, ids)"),
            "op 2 (gather) takes rows from all of f32[M,8]");
  EXPECT_EQ(WhyNot("table: f32[9,8]; ids: s64[M]; which: s32[M,2];"
                   "out gather(gather(table, ids), which, -1)"),
            "");
}

TEST(CheckRowsApart, NamesAProductThatContractsM) {
  EXPECT_THAT(WhyNot("x: bf16[M,8]; y: bf16[M,16]; out x.T @ y"),
              HasSubstr("(matmul) takes all rows of"));
}

TEST(CheckRowsApart, NamesAProductOfRowsWithRows) {
  EXPECT_THAT(WhyNot("x: bf16[M,8]; out x @ x.T"),
              HasSubstr("(matmul) has M more than once: f32[M,M]"));
}

TEST(CheckRowsApart, NamesAReshapeThatMovesM) {
  EXPECT_EQ(WhyNot("x: f32[M,8]; out reshape(x, [8,M])"),
            "op 1 (reshape) moves M from f32[M,8] to f32[8,M]");
}

}  // namespace
}  // namespace sinter
