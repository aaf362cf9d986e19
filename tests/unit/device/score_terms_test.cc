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
  held.load(0);
  EXPECT_EQ(held.at(0), 5);
  EXPECT_EQ(held.at(2), 6);
  held.place(rows + 2 * kRow, 3, 11);
  held.load(0);
  EXPECT_EQ(held.at(0), 5);
  EXPECT_EQ(held.at(2), 13);
}

TEST(ScoreTerms, AreKeptWhereBothRowsAreTheSame) {
  alignas(8) float rows[16 * kRow] = {};
  Held held;
  held.place(rows, 1, 9);
  held.load(0);
  rows[kRow] = 1;
  held.place(rows, 1, 9);
  held.load(0);
  EXPECT_EQ(held.at(0), 0);
  held.place(rows, 1, 8);
  held.load(0);
  EXPECT_EQ(held.at(0), 1);
}

}  // namespace
}  // namespace sinter
