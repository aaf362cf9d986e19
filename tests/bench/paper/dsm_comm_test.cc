#include "tests/bench/paper/paper.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(DsmComm, DerivesShuffleAndReduceOfThePapersExamples) {
  const ClusterShape a{2, 4, 2, 4}, b{2, 4, 2, 8};
  EXPECT_EQ(a.Blocks(), 16);
  EXPECT_EQ(a.Shuffle(), 2);
  EXPECT_EQ(a.Reduce(), 2);
  EXPECT_EQ(b.Blocks(), 16);
  EXPECT_EQ(b.Shuffle(), 4);
  EXPECT_EQ(b.Reduce(), 1);
}

TEST(DsmComm, BothProductsSeeTheSameBlocks) {
  int consistent = 0;
  for (const ClusterShape& c : AllClusterShapes()) {
    if (!c.Consistent()) continue;
    consistent++;
    EXPECT_EQ(c.m * c.n * c.k, c.m * c.l * c.Reduce());
    EXPECT_EQ(c.Shuffle() * c.Reduce(), c.n);
    EXPECT_EQ(c.Shuffle() * c.k, c.l);
  }
  EXPECT_GT(consistent, 100);
  EXPECT_FALSE((ClusterShape{1, 2, 4, 2}.Consistent())) << "l is not a multiple of k";
  EXPECT_FALSE((ClusterShape{1, 2, 1, 4}.Consistent())) << "more columns of E than blocks";
}

TEST(DsmComm, NoPartnerMovesNoByte) {
  const BlockTile tile{128, 128, 64, 128};
  EXPECT_EQ(AllExchangeBytes({1, 4, 1, 4}, tile), 0);
  EXPECT_EQ(ShuffleRingBytes({1, 4, 2, 2}, tile), 0);
  EXPECT_EQ(ReduceScatterBytes({1, 4, 1, 4}, tile), 0);
}

TEST(DsmComm, CountsEveryByteThatLeavesABlock) {
  const BlockTile tile{128, 128, 64, 64};
  EXPECT_EQ(AllExchangeBytes({1, 1, 2, 2}, tile), 2 * 128 * 128 * 4);
  EXPECT_EQ(ShuffleRingBytes({1, 4, 1, 4}, tile), 4 * 3 * 128 * 128 * 2);
  EXPECT_EQ(ReduceScatterBytes({1, 4, 1, 1}, tile), 3 * 128 * 64 * 4);
}

}  // namespace
}  // namespace sinter
