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
        "next_token rows=M cols=9000 count=20 k=1", "next_token rows=M cols=64 seeds=1",
        "masked_softmax rows=M cols=64 mask=row",
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

// Buckets of chains whose products have many rows for each index of M.

int64_t Largest(const char* line) { return LargestBucketOf(ParseProblem(line)->chain); }

TEST(ChainBuckets, OfMatricesAreThoseOfM) {
  EXPECT_EQ(Largest("gemm_chain m=M n=64 k=64 l=64 act=relu"), kLargestBucket);
  EXPECT_EQ(Largest("rope rows=M heads=64 dim=128"), kLargestBucket);
  const Chain chain = ParseProblem("matmul m=M n=64 k=64")->chain;
  for (const int64_t m : {1, 2, 300, 8192, 100000}) EXPECT_EQ(BucketOf(chain, m), BucketOf(m));
}

TEST(ChainBuckets, OfImagesEndAtTheRowsOfAPass) {
  EXPECT_EQ(Largest("conv_chain b=M ic=64 h=56 w=56 oc1=64 oc2=256 k1=1 k2=1"), 32);
  EXPECT_EQ(Largest("conv_chain b=M ic=64 h=56 w=56 oc1=64 oc2=256 k1=3 k2=1"), 32);
  EXPECT_EQ(Largest("conv b=M ic=8 h=7 w=7 oc=8 k=1"), 2560);
  EXPECT_EQ(Largest("conv b=M ic=8 h=512 w=256 oc=8 k=1"), 1);
  EXPECT_EQ(Largest("conv b=M ic=8 h=2000 w=2000 oc=8 k=1"), 1);
  EXPECT_EQ(Largest("conv b=M ic=8 h=4 w=4 oc=8 k=1"), 8192);
  EXPECT_EQ(Largest("conv b=M ic=8 h=512 w=256 oc=8 k=3 stride=16 pad=1"), 256);
}

TEST(ChainBuckets, NoLongerLaunchHasAnotherBucket) {
  const Chain chain = ParseProblem("conv b=M ic=8 h=56 w=56 oc=8 k=1")->chain;
  const std::pair<int64_t, int64_t> rows[] = {{1, 1},   {2, 8},   {9, 16},
                                              {32, 32}, {33, 32}, {9000, 32}};
  for (const auto& [m, bucket] : rows) EXPECT_EQ(BucketOf(chain, m), bucket) << m;
}

TEST(ChainBuckets, ProductsOfConstantRowsDoNotCount) {
  EXPECT_EQ(
      LargestBucketOf(ReadChain("x: bf16[4,512,8]; w: bf16[8,8]; y: f32[M]; out x @ w, relu(y)")),
      kLargestBucket);
}

}  // namespace
}  // namespace sinter
