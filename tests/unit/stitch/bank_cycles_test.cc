// Bank conflicts of accesses whose cycles are known by hand.
#include "src/stitch/sectors.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr int64_t kWord = 4, kHalf = 2;

class Banks : public ::testing::Test {
 protected:
  Index At(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
    const std::vector<Index> box = space_.Box(element_, extents);
    Index place;
    for (size_t i = 0; i < box.size(); ++i) place = place.Plus(box[i].Times(strides[i]));
    return place;
  }

  int64_t Cycles(const Index& place, int width, int64_t bytes) {
    return BankCycles(space_, place, element_, width, bytes).cycles;
  }

  IndexSpace space_;
  const IndexVar element_ = space_.AddLoop("i", 1024, 2);
};

TEST_F(Banks, NeighboursTakeOneCycleAWord) {
  EXPECT_EQ(Cycles(At({1024}, {1}), 1, kWord), 1);
  EXPECT_EQ(Cycles(At({1024}, {1}), 4, kWord), 4) << "512 bytes";
  EXPECT_EQ(Cycles(At({1024}, {1}), 8, kWord), 16) << "every other 16 bytes, twice";
  EXPECT_EQ(Cycles(At({1024}, {1}), 1, kHalf), 1) << "two lanes a word";
  EXPECT_EQ(Cycles(At({1024}, {1}), 8, kHalf), 4);
}

TEST_F(Banks, LanesAccessWholeVectorsAtOnce) {
  EXPECT_EQ(BankCycles(space_, At({1024}, {1}), element_, 4, kWord).accesses, 1);
  EXPECT_EQ(BankCycles(space_, At({1024}, {1}), element_, 8, kWord).accesses, 2);
  EXPECT_EQ(BankCycles(space_, At({1024}, {1}), element_, 8, kHalf).accesses, 1);
  EXPECT_EQ(BankCycles(space_, At({1024}, {1}).Plus(1), element_, 4, kWord).accesses, 4);
}

TEST_F(Banks, OneElementIsSentToAll) { EXPECT_EQ(Cycles(Index(), 1, kWord), 1); }

TEST_F(Banks, ColumnsOfWholeRowsOfBanksTakeTurns) {
  EXPECT_EQ(Cycles(At({32, 32}, {1, 32}), 1, kWord), 32);
  EXPECT_EQ(Cycles(At({32, 32}, {1, 33}), 1, kWord), 1);
  EXPECT_EQ(Cycles(At({32, 32}, {1, 36}), 1, kWord), 4);
  EXPECT_EQ(Cycles(At({64, 16}, {1, 16}), 1, kWord), 8);
}

TEST_F(Banks, ScatteredVectorsAreElementsOneByOne) {
  EXPECT_EQ(Cycles(At({1024}, {1}).Plus(1), 2, kWord), 4) << "not aligned";
}

}  // namespace
}  // namespace sinter
