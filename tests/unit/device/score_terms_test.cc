// Terms of scores: what a thread reads of its two rows, and when it keeps what it has.
#include "src/device/attention/terms.cuh"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr int kKeys = 8, kRow = 8;
using Held = HeldTerm<ScoreTerm<Float32, kRow, 1, true>, 1, kKeys, true>;

// Matrices that overlap: the first row of two items lies at one place, the second does not, as
// where it is the last row of one of them.
TEST(ScoreTerms, AreLoadedAnewWhereEitherRowIsAnother) {
  alignas(8) float rows[16 * kRow];
  for (int i = 0; i < 16 * kRow; ++i) rows[i] = static_cast<float>(i / kRow);
  threadIdx.x = 0;
  Held held;
  held.place(rows, 5, 6);
  held.load<true>(0);
  EXPECT_EQ(held.at(0), 5);
  EXPECT_EQ(held.at(2), 6);
  held.place(rows + 2 * kRow, 3, 11);
  held.load<true>(0);
  EXPECT_EQ(held.at(0), 5);
  EXPECT_EQ(held.at(2), 13);
}

TEST(ScoreTerms, AreKeptWhereBothRowsAreTheSame) {
  alignas(8) float rows[16 * kRow] = {};
  Held held;
  held.place(rows, 1, 9);
  held.load<true>(0);
  rows[kRow] = 1;
  held.place(rows, 1, 9);
  held.load<true>(0);
  EXPECT_EQ(held.at(0), 0);
  held.place(rows, 1, 8);
  held.load<true>(0);
  EXPECT_EQ(held.at(0), 1);
}

// One number of each row, as a gate's, and one for all rows, as a slope, serve all columns.
TEST(ScoreTerms, OfOneColumnAreHeldOnce) {
  constexpr int kGroups = 4;
  float rows[16];
  for (int i = 0; i < 16; ++i) rows[i] = static_cast<float>(i + 1);
  HeldTerm<ScoreTerm<Float32, 1, 0, false>, kGroups, 8 * kGroups, false> gate;
  HeldTerm<ScoreTerm<Float32, 0, 0, false>, kGroups, 8 * kGroups, false> slope;
  static_assert(sizeof(gate.raw) == 2 * sizeof(float) && sizeof(slope.raw) == sizeof(float));
  threadIdx.x = 3;
  gate.place(rows, 2, 10);
  gate.load<true>(0);
  slope.place(rows + 5, 2, 10);
  slope.load<true>(0);
  for (int i = 0; i < 4 * kGroups; ++i) {
    EXPECT_EQ(gate.at(i), i / 2 % 2 == 0 ? 3 : 11) << i;
    EXPECT_EQ(slope.at(i), 6) << i;
  }
  threadIdx.x = 0;
}

// Columns past the last key are zero in the last tile. Other tiles are read without a test for it.
TEST(ScoreTerms, EndWithTheKeys) {
  constexpr int kEnd = 5;
  alignas(8) float row[16];
  for (int i = 0; i < 16; ++i) row[i] = static_cast<float>(i + 1);
  HeldTerm<ScoreTerm<Float32, 0, 1, false>, 1, kEnd, false> apart;
  HeldTerm<ScoreTerm<Float32, 0, 2, false>, 1, kEnd, false> far;
  for (unsigned lane = 0; lane < 4; ++lane) {
    threadIdx.x = lane;
    const int column = 2 * static_cast<int>(lane);
    apart.place(row, 0, 0);
    apart.load<true>(0);
    EXPECT_EQ(apart.at(0), column < kEnd ? column + 1 : 0) << lane;
    EXPECT_EQ(apart.at(1), column + 1 < kEnd ? column + 2 : 0) << lane;
    apart.load<false>(0);
    EXPECT_EQ(apart.at(0), column + 1) << lane;
    EXPECT_EQ(apart.at(3), column + 2) << lane;
    far.place(row, 0, 0);
    far.load<true>(0);
    EXPECT_EQ(far.at(1), column + 1 < kEnd ? 2 * column + 3 : 0) << lane;
  }
  threadIdx.x = 0;
}

}  // namespace
}  // namespace sinter
