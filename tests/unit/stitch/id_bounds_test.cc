// IdBounds: which gathers need not ask whether an id names a place.
#include <initializer_list>

#include "gtest/gtest.h"
#include "src/chain/builder.h"
#include "src/stitch/index.h"
#include "tests/support/gather_graphs.h"

namespace sinter {
namespace {

const Op& GatherOf(const Chain& chain) {
  for (const Op& op : chain.ops()) {
    if (op.kind == OpKind::kGather) return op;
  }
  ADD_FAILURE() << "no gather";
  return chain.op(0);
}

// table[rows, 8] by ids that `make` computes from s32 input ids[4].
template <typename Make>
bool Names(int64_t rows, const Make& make) {
  ChainBuilder b;
  const auto d = [](int64_t v) { return Dim::Constant(v); };
  const ValueId table = *b.Input({DType::kBF16, {d(rows), d(8)}});
  const ValueId ids = *b.Input({DType::kS32, {d(4)}});
  EXPECT_TRUE(b.Output(*b.Gather(table, make(b, ids))).ok());
  const Chain chain = *b.Finish();
  return NamesAPlace(chain, GatherOf(chain));
}

ValueId Clamped(ChainBuilder& b, ValueId ids, double least, double most) {
  const ValueId below = *b.Binary(BinaryKind::kMin, ids, *b.Scalar(most, DType::kS32));
  return *b.Binary(BinaryKind::kMax, below, *b.Scalar(least, DType::kS32));
}

TEST(IdBounds, OfIdsBetweenTwoNumbers) {
  EXPECT_TRUE(Names(5, [](auto& b, ValueId ids) { return Clamped(b, ids, 0, 4); }));
  EXPECT_FALSE(Names(5, [](auto& b, ValueId ids) { return Clamped(b, ids, 0, 5); }));
  EXPECT_FALSE(Names(5, [](auto& b, ValueId ids) { return Clamped(b, ids, -1, 4); }));
  EXPECT_FALSE(Names(5, [](auto&, ValueId ids) { return ids; }));
}

TEST(IdBounds, OfIdsThatMayWrapNothingIsKnown) {
  const auto scaled = [](double factor) {
    return [factor](auto& b, ValueId ids) {
      const ValueId some = Clamped(b, ids, 0, 1000);
      const ValueId many = *b.Binary(BinaryKind::kMul, some, *b.Scalar(factor, DType::kS32));
      return *b.Binary(BinaryKind::kMin, many, *b.Scalar(4, DType::kS32));
    };
  };
  EXPECT_TRUE(Names(5, scaled(1000)));
  EXPECT_FALSE(Names(5, scaled(10e6))) << "a product below 0";
}

// A NaN is 0 as an integer, and what is too large the largest one.
TEST(IdBounds, OfFloatsThatAreCut) {
  const auto of_float = [](double least) {
    return [least](auto& b, ValueId ids) {
      const ValueId x = *b.Unary(UnaryKind::kExp, *b.Cast(ids, DType::kF32));
      const ValueId kept = *b.Binary(BinaryKind::kMax, x, *b.Scalar(least));
      return *b.Binary(BinaryKind::kMin, *b.Cast(kept, DType::kS32), *b.Scalar(4, DType::kS32));
    };
  };
  EXPECT_TRUE(Names(5, of_float(2)));
  EXPECT_FALSE(Names(5, of_float(-2)));
}

// Whether the integer of what `make` computes from an f32 between 0 and 1000, plus `offset`, names
// one of 5 places.
template <typename Make>
bool NamesFloat(double offset, const Make& make) {
  return Names(5, [&](auto& b, ValueId ids) {
    const ValueId y = make(b, *b.Cast(Clamped(b, ids, 0, 1000), DType::kF32));
    return *b.Binary(BinaryKind::kAdd, *b.Cast(y, DType::kS32), *b.Scalar(offset, DType::kS32));
  });
}

ValueId Times(ChainBuilder& b, ValueId x, std::initializer_list<double> factors) {
  for (const double factor : factors) x = *b.Binary(BinaryKind::kMul, x, *b.Scalar(factor));
  return x;
}

ValueId Between(ChainBuilder& b, ValueId x, double least, double most) {
  return *b.Binary(BinaryKind::kMin, *b.Binary(BinaryKind::kMax, x, *b.Scalar(least)),
                   *b.Scalar(most));
}

TEST(IdBounds, OfFloatsThatMayBecomeInfiniteNothingIsKnown) {
  const auto square = [](double factor) {
    return [factor](auto& b, ValueId y) {
      const ValueId z = Times(b, y, {factor});
      return Times(b, *b.Binary(BinaryKind::kMul, z, z), {1e-38, 1e-22});
    };
  };
  EXPECT_TRUE(NamesFloat(0, square(1e15)));
  EXPECT_FALSE(NamesFloat(0, square(1e27))) << "1e60 is infinite, and so is what it is scaled to";
  // Infinite less infinite is NaN, which is 0 as an integer.
  const auto difference = [](double factor) {
    return [factor](auto& b, ValueId y) {
      const ValueId z = Times(b, y, {factor, factor});
      return Between(b, *b.Binary(BinaryKind::kSub, z, z), -8, -8);
    };
  };
  EXPECT_TRUE(NamesFloat(8, difference(1)));
  EXPECT_FALSE(NamesFloat(8, difference(1e30)));
}

TEST(IdBounds, OfFloatsThatMayBecomeZeroNothingIsKnown) {
  const auto scaled = [](std::initializer_list<double> factors) {
    return [factors](auto& b, ValueId y) {
      return Between(b, Times(b, Between(b, y, 1, 1000), factors), -1000, 103);
    };
  };
  EXPECT_TRUE(NamesFloat(-100, scaled({1e-10, 1.001e12})));
  EXPECT_FALSE(NamesFloat(-100, scaled({1e-30, 1e-20, 1e30, 1.001e22}))) << "1e-50 is 0";
}

TEST(IdBounds, OfPixelsBesideAPlaceBetweenThem) {
  const Chain between = testing::PixelsBetween(5, 12, 16);
  int gathers = 0;
  for (const Op& op : between.ops()) {
    if (op.kind != OpKind::kGather) continue;
    ++gathers;
    EXPECT_TRUE(NamesAPlace(between, op));
  }
  EXPECT_EQ(gathers, 2);
  const Chain outside = testing::ComputedIds(0, 8, DType::kF32);
  EXPECT_FALSE(NamesAPlace(outside, GatherOf(outside)));
}

}  // namespace
}  // namespace sinter
