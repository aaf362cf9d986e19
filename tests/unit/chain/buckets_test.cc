// Buckets of chains whose products have many rows for each index of M.
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

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
