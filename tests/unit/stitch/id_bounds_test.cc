// IdBounds: which gathers need not ask whether an id names a place.
#include "src/stitch/index.h"
#include "tests/support/named_graphs.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

const Op& GatherOf(const Chain& chain) {
  for (const Op& op : chain.ops()) {
    if (op.kind == OpKind::kGather) return op;
  }
  ADD_FAILURE() << "no gather";
  return chain.op(0);
}

// table[rows, 8] by `taken`, computed from ids, s32[4].
bool Names(int64_t rows, const std::string& taken) {
  const Chain chain = ReadChain(
      absl::StrCat("table: bf16[", rows, ",8]; ids: s32[4]; out gather(table, ", taken, ")"));
  return NamesAPlace(chain, GatherOf(chain));
}

TEST(IdBounds, OfIdsBetweenTwoNumbers) {
  EXPECT_TRUE(Names(5, "max(min(ids, 4:s32), 0:s32)"));
  EXPECT_FALSE(Names(5, "max(min(ids, 5:s32), 0:s32)"));
  EXPECT_FALSE(Names(5, "max(min(ids, 4:s32), -1:s32)"));
  EXPECT_FALSE(Names(5, "ids"));
}

TEST(IdBounds, OfIdsThatMayWrapNothingIsKnown) {
  EXPECT_TRUE(Names(5, "min(max(min(ids, 1000:s32), 0:s32) * 1000:s32, 4:s32)"));
  EXPECT_FALSE(Names(5, "min(max(min(ids, 1000:s32), 0:s32) * 10e6:s32, 4:s32)"))
      << "a product below 0";
}

// A NaN is 0 as an integer, and a value that is too large is the largest integer.
TEST(IdBounds, OfFloatsThatAreCut) {
  EXPECT_TRUE(Names(5, "min(s32(max(exp(f32(ids)), 2)), 4:s32)"));
  EXPECT_FALSE(Names(5, "min(s32(max(exp(f32(ids)), -2)), 4:s32)"));
}

// Whether the integer of `text`, computed from y, an f32 between 0 and 1000, plus `offset`, names
// one of 5 places.
bool NamesFloat(int offset, const std::string& text) {
  const Chain chain = ReadChain(
      "table: bf16[5,8]; ids: s32[4]; y = f32(max(min(ids, 1000:s32), 0:s32)); $0;"
      "out gather(table, s32(_) + $1:s32)",
      text, offset);
  return NamesAPlace(chain, GatherOf(chain));
}

TEST(IdBounds, OfFloatsThatMayBecomeInfiniteNothingIsKnown) {
  EXPECT_TRUE(NamesFloat(0, "z = y * 1e15; z * z * 1e-38 * 1e-22"));
  EXPECT_FALSE(NamesFloat(0, "z = y * 1e27; z * z * 1e-38 * 1e-22"))
      << "1e60 is infinite, and so is what it is scaled to";
  // Infinite less infinite is NaN, which is 0 as an integer.
  EXPECT_TRUE(NamesFloat(8, "z = y * 1 * 1; min(max(z - z, -8), -8)"));
  EXPECT_FALSE(NamesFloat(8, "z = y * 1e30 * 1e30; min(max(z - z, -8), -8)"));
}

TEST(IdBounds, OfFloatsThatMayBecomeZeroNothingIsKnown) {
  const auto scaled = [](const char* factors) {
    return absl::StrCat("min(max(min(max(y, 1), 1000)", factors, ", -1000), 103)");
  };
  EXPECT_TRUE(NamesFloat(-100, scaled(" * 1e-10 * 1.001e12")));
  EXPECT_FALSE(NamesFloat(-100, scaled(" * 1e-30 * 1e-20 * 1e30 * 1.001e22"))) << "1e-50 is 0";
}

TEST(IdBounds, OfPixelsBesideAPlaceBetweenThem) {
  const Chain between = testing::GraphOf("pixels_between(5, 12, 16)");
  int gathers = 0;
  for (const Op& op : between.ops()) {
    if (op.kind != OpKind::kGather) continue;
    ++gathers;
    EXPECT_TRUE(NamesAPlace(between, op));
  }
  EXPECT_EQ(gathers, 2);
  const Chain outside = testing::GraphOf("computed_ids(M, 8, f32)");
  EXPECT_FALSE(NamesAPlace(outside, GatherOf(outside)));
}

}  // namespace
}  // namespace sinter
