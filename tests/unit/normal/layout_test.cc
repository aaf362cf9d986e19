#include "src/normal/rules.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

Dim Fixed(int64_t extent) { return Dim::Constant(extent); }
const Dim kRows = Dim::M();

NormalLayout Whole(std::vector<Dim> dims) {
  NormalLayout layout;
  layout.strides = ContiguousStrides(dims);
  layout.dims = std::move(dims);
  return layout;
}

TEST(Layout, ReshapesWhatLiesOneBehindTheOther) {
  NormalLayout layout = Whole({Fixed(8), kRows, Fixed(64)});
  ASSERT_TRUE(ReshapeLayout({kRows, Fixed(8), Fixed(64)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{512, 0}, {64, 0}, {1, 0}}));
  layout = Whole({Fixed(1), kRows, Fixed(4), Fixed(16)});
  ASSERT_TRUE(ReshapeLayout({kRows, Fixed(64)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{64, 0}, {1, 0}}));
  ASSERT_TRUE(ReshapeLayout({kRows, Fixed(1), Fixed(2), Fixed(32)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{64, 0}, {64, 0}, {32, 0}, {1, 0}}));
}

TEST(Layout, ReshapesWithGapsWhereNoAxisCrossesOne) {
  NormalLayout layout{{Fixed(4), Fixed(6), Fixed(8)}, {{480, 0}, {80, 0}, {1, 0}}, 0};
  ASSERT_TRUE(ReshapeLayout({Fixed(24), Fixed(2), Fixed(4)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{80, 0}, {4, 0}, {1, 0}}));
  NormalLayout kept = layout;
  EXPECT_FALSE(ReshapeLayout({Fixed(12), Fixed(16)}, &layout));
  EXPECT_EQ(layout.dims, kept.dims);
  NormalLayout turned{{Fixed(32), Fixed(35), Fixed(512)}, {{512, 0}, {16384, 0}, {1, 0}}, 0};
  EXPECT_FALSE(ReshapeLayout({Fixed(1120), Fixed(512)}, &turned));
}

TEST(Layout, OfASliceStartsBehindAndStepsFarther) {
  NormalLayout layout = Whole({kRows, Fixed(96)});
  Op slice{.kind = OpKind::kSlice, .starts = {0, 32}, .steps = {1, 2}};
  slice.type.dims = {kRows, Fixed(16)};
  ASSERT_TRUE(ViewLayout(slice, &layout));
  EXPECT_EQ(layout.offset, 32);
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{96, 0}, {2, 0}}));
}

TEST(Layout, IsAMatrixWithOneStrideOfWholeVectors) {
  EXPECT_TRUE(IsMatrix(Whole({kRows, Fixed(64)}), DType::kBF16));
  EXPECT_TRUE(IsMatrix(Whole({kRows, Fixed(5), Fixed(64)}), DType::kBF16));
  EXPECT_FALSE(IsMatrix(Whole({kRows, Fixed(36)}), DType::kBF16));
  EXPECT_TRUE(IsMatrix(Whole({kRows, Fixed(36)}), DType::kF32));
  EXPECT_FALSE(IsMatrix(Whole({Fixed(5), kRows, Fixed(64)}), DType::kBF16));
  EXPECT_TRUE(IsMatrix({{kRows, Fixed(64)}, {{192, 0}, {1, 0}}, 0}, DType::kBF16));
  EXPECT_FALSE(IsMatrix({{kRows, Fixed(64)}, {{32, 0}, {1, 0}}, 0}, DType::kBF16));
  EXPECT_FALSE(IsMatrix({{Fixed(64), Fixed(64)}, {{1, 0}, {64, 0}}, 0}, DType::kBF16));
  EXPECT_FALSE(
      IsMatrix({{Fixed(4), Fixed(2), Fixed(64)}, {{64, 0}, {256, 0}, {1, 0}}, 0}, DType::kBF16));
}

}  // namespace
}  // namespace sinter
