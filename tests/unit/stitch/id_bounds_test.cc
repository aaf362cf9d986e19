// IdBounds: which gathers need not ask whether an id names a place.
#include "src/stitch/id_bounds.h"

#include "gtest/gtest.h"
#include "src/chain/builder.h"
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
