// Indices against counting: every element of small boxes.
#include "src/stitch/index.h"

#include "tests/support/test.h"
#include "tests/unit/stitch/evaluate.h"

namespace sinter {
namespace {

using testing::Evaluate;

int64_t Count(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (int64_t dim : dims) product *= dim;
  return product;
}

// The digits of `n` in a box; a leading 0 is unbounded.
std::vector<int64_t> Digits(int64_t n, const std::vector<int64_t>& dims) {
  std::vector<int64_t> digits(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    digits[i] = i == 0 ? n : n % dims[i];
    if (i > 0) n /= dims[i];
  }
  return digits;
}

Index RowMajor(const std::vector<Index>& position, const std::vector<int64_t>& dims) {
  Index linear;
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    linear = linear.Plus(position[i].Times(stride));
    stride *= dims[i];
  }
  return linear;
}

const std::vector<std::vector<int64_t>> kBoxes = {
    {7},          {4, 6},    {1, 5},    {5, 1, 3},    {3, 4, 5},      {2, 1, 3, 1, 4},
    {2, 3, 4, 5}, {1, 1, 1}, {0, 6, 4}, {0, 1, 3, 2}, {2, 2, 2, 2, 2}};

TEST(Index, TermsThatCancelLeaveNothing) {
  const Index a = Index::Of(3).Times(4).Plus(Index::Of(1)).Plus(5);
  EXPECT_EQ(a.Plus(Index::Of(3).Times(-4)), Index::Of(1).Plus(5));
  EXPECT_EQ(a.Times(0), Index());
  EXPECT_TRUE(Index(7).IsConstant());
  EXPECT_FALSE(a.IsConstant());
  EXPECT_TRUE(a < a.Plus(1));
}

TEST(IndexSpace, BoxesCountRowMajorAndFoldBackToTheirLoop) {
  for (const std::vector<int64_t>& dims : kBoxes) {
    IndexSpace space;
    const int64_t count = dims[0] == 0 ? 5 * Count({dims.begin() + 1, dims.end()}) : Count(dims);
    const IndexVar loop = space.AddLoop("i", dims[0] == 0 ? 0 : count, 1);
    const std::vector<Index> at = space.Box(loop, dims);
    EXPECT_EQ(space.Box(loop, dims), at) << "asked again";
    const Index linear = space.Canonical(RowMajor(at, dims));
    if (count > 1) {
      EXPECT_EQ(linear, Index::Of(loop)) << "a contiguous address divides";
    }
    for (int64_t n = 0; n < count; ++n) {
      const std::vector<int64_t> digits = Digits(n, dims);
      for (size_t i = 0; i < dims.size(); ++i) {
        EXPECT_EQ(Evaluate(space, at[i], {{loop, n}}), digits[i]) << n << " axis " << i;
      }
    }
  }
}

// Any factors: strided, transposed, repeated. Folding must not change the number.
TEST(IndexSpace, FoldingKeepsTheNumber) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const std::vector<int64_t>& dims = kBoxes[random() % kBoxes.size()];
    IndexSpace space;
    const int64_t count = dims[0] == 0 ? 3 * Count({dims.begin() + 1, dims.end()}) : Count(dims);
    const IndexVar loop = space.AddLoop("i", dims[0] == 0 ? 0 : count, 1);
    const std::vector<Index> at = space.Box(loop, dims);
    const int64_t choices[] = {0, 1, 2, 3, 4, 5, 12, 20, 60};
    std::vector<int64_t> factors;
    Index sum(static_cast<int64_t>(random() % 5));
    for (const Index& one : at) {
      factors.push_back(choices[random() % std::size(choices)]);
      sum = sum.Plus(one.Times(factors.back()));
    }
    for (int64_t n = 0; n < count; ++n) {
      int64_t expected = sum.offset();
      const std::vector<int64_t> digits = Digits(n, dims);
      for (size_t i = 0; i < dims.size(); ++i) expected += factors[i] * digits[i];
      ASSERT_EQ(Evaluate(space, sum, {{loop, n}}), expected) << "round " << round << " at " << n;
    }
  }
}

// Tests sums that are never negative, whatever the sign of their offset.
TEST(IndexSpace, QuotientsAndRemaindersAreExact) {
  std::mt19937 random(2);
  int checked = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::vector<int64_t>& dims = kBoxes[random() % kBoxes.size()];
    if (dims[0] == 0) continue;
    IndexSpace space;
    const int64_t count = Count(dims);
    const IndexVar loop = space.AddLoop("i", count, 1);
    const int64_t divisors[] = {1, 2, 3, 4, 6, 8, 12}, factors[] = {0, 1, 2, 3, 4, 6, 8, 12};
    Index sum(static_cast<int64_t>(random() % 12) - (round % 2 == 0 ? 8 : 0));
    for (const Index& one : space.Box(loop, dims)) {
      sum = sum.Plus(one.Times(factors[random() % std::size(factors)]));
    }
    const int64_t divisor = divisors[random() % std::size(divisors)];
    const Index quotient = space.Quotient(sum, divisor), rest = space.Remainder(sum, divisor);
    for (int64_t n = 0; n < count; ++n) {
      const int64_t value = Evaluate(space, sum, {{loop, n}});
      if (value < 0) continue;  // a branch that is not taken
      ++checked;
      ASSERT_EQ(Evaluate(space, quotient, {{loop, n}}), value / divisor)
          << "round " << round << ": " << value << " / " << divisor;
      ASSERT_EQ(Evaluate(space, rest, {{loop, n}}), value % divisor)
          << "round " << round << ": " << value << " % " << divisor;
    }
  }
  EXPECT_GT(checked, 20000);
}

TEST(IndexSpace, AQuotientAndItsRemainderFoldBack) {
  IndexSpace space;
  const IndexVar row = space.AddLoop("u", 0, 1), i = space.AddLoop("i", 0, 2);
  const Index base = Index::Of(row).Times(640).Plus(3);
  const Index quotient = space.Quotient(Index::Of(i), 128);
  const Index rest = space.Remainder(Index::Of(i), 128);
  const Index twice = base.Plus(quotient.Times(256)).Plus(rest.Times(2));
  EXPECT_EQ(space.Canonical(twice), base.Plus(Index::Of(i).Times(2)));
  const Index apart = base.Plus(quotient.Times(128)).Plus(rest.Times(2));
  EXPECT_EQ(space.Canonical(apart), apart) << "not the factors of one number";
  const Index deep = space.Quotient(rest, 8).Times(8).Plus(space.Remainder(rest, 8));
  EXPECT_EQ(space.Canonical(quotient.Times(128).Plus(deep)), Index::Of(i));
}

TEST(IndexSpace, DimsThatAreDividedOneByOneFoldBack) {
  const std::vector<int64_t> dims = {4, 7, 5, 6};
  IndexSpace space;
  const IndexVar loop = space.AddLoop("u", Count(dims), 1);
  std::vector<Index> apart;
  for (const Index& one : space.Box(loop, dims)) apart.push_back(space.Canonical(one));
  EXPECT_EQ(space.Canonical(RowMajor(apart, dims)), Index::Of(loop));
  apart[1] = apart[1].Times(2);
  const Index other = space.Canonical(RowMajor(apart, dims));
  for (int64_t n = 0; n < Count(dims); ++n) {
    const std::vector<int64_t> digits = Digits(n, dims);
    EXPECT_EQ(Evaluate(space, other, {{loop, n}}), n + digits[1] * dims[2] * dims[3]) << n;
  }
}

TEST(IndexSpace, BoxesOfSegmentsMoveWithTheirLoop) {
  IndexSpace space;
  const IndexVar i = space.AddLoop("i", 3840, 2), segment = space.SegmentOf(i, 128);
  EXPECT_EQ(space.SegmentOf(i, 1), i);
  const std::vector<Index> at = space.Box(segment, {5, 6});
  EXPECT_TRUE(space.MovesWith(at[1], i));
  EXPECT_EQ(space.Canonical(at[0].Times(6).Plus(at[1])), Index::Of(segment));
  EXPECT_EQ(Evaluate(space, at[0], {{i, 128 * 13 + 7}}), 2);
  EXPECT_EQ(Evaluate(space, at[1], {{i, 128 * 13 + 7}}), 1);
}

TEST(IndexSpace, DivisionsThatTheTermsAllowAreNotDone) {
  IndexSpace space;
  const IndexVar row = space.AddLoop("u", 0, 1), i = space.AddLoop("i", 32, 2);
  const Index sum = Index::Of(row).Times(64).Plus(Index::Of(i));
  EXPECT_EQ(space.Quotient(sum, 64), Index::Of(row));
  EXPECT_EQ(space.Remainder(sum, 64), Index::Of(i));
  EXPECT_EQ(space.Quotient(sum, 32), Index::Of(row).Times(2));
  const Index halved = space.Quotient(sum, 16);
  EXPECT_EQ(halved.terms().size(), 2u);
  EXPECT_EQ(space.Quotient(sum, 16), halved) << "a variable of the same meaning twice";
}

TEST(IndexSpace, KnowsWhichLoopMovesAnIndex) {
  IndexSpace space;
  const IndexVar u = space.AddLoop("u", 0, 1), i = space.AddLoop("i", 24, 2);
  const std::vector<Index> at = space.Box(i, {4, 6});
  const Index swapped = at[1].Times(4).Plus(at[0]);
  EXPECT_EQ(space.Depth(Index(3)), 0);
  EXPECT_EQ(space.Depth(Index::Of(u)), 1);
  EXPECT_EQ(space.Depth(swapped), 2);
  EXPECT_EQ(space.Depth(Index::Of(u).Plus(swapped)), 2);
  EXPECT_TRUE(space.MovesWith(swapped, i));
  EXPECT_TRUE(space.MovesWith(space.Canonical(swapped), i));
  EXPECT_FALSE(space.MovesWith(swapped, u));
  EXPECT_FALSE(space.MovesWith(Index(3), i));
}

}  // namespace
}  // namespace sinter
