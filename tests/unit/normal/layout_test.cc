#include "gtest/gtest.h"
#include "src/normal/rules.h"

namespace sinter {
namespace {

Dim D(int64_t extent) { return Dim::Constant(extent); }
const Dim kM = Dim::M();

NormalLayout Whole(std::vector<Dim> dims) {
  NormalLayout layout;
  layout.strides = ContiguousStrides(dims);
  layout.dims = std::move(dims);
  return layout;
}

TEST(Layout, ReshapesWhatLiesOneBehindTheOther) {
  NormalLayout layout = Whole({D(8), kM, D(64)});
  ASSERT_TRUE(ReshapeLayout({kM, D(8), D(64)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{512, 0}, {64, 0}, {1, 0}}));
  layout = Whole({D(1), kM, D(4), D(16)});
  ASSERT_TRUE(ReshapeLayout({kM, D(64)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{64, 0}, {1, 0}}));
  ASSERT_TRUE(ReshapeLayout({kM, D(1), D(2), D(32)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{64, 0}, {64, 0}, {32, 0}, {1, 0}}));
}

TEST(Layout, ReshapesWithGapsWhereNoAxisCrossesOne) {
  NormalLayout layout{{D(4), D(6), D(8)}, {{480, 0}, {80, 0}, {1, 0}}, 0};
  ASSERT_TRUE(ReshapeLayout({D(24), D(2), D(4)}, &layout));
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{80, 0}, {4, 0}, {1, 0}}));
  NormalLayout kept = layout;
  EXPECT_FALSE(ReshapeLayout({D(12), D(16)}, &layout));
  EXPECT_EQ(layout.dims, kept.dims);
  NormalLayout turned{{D(32), D(35), D(512)}, {{512, 0}, {16384, 0}, {1, 0}}, 0};
  EXPECT_FALSE(ReshapeLayout({D(1120), D(512)}, &turned));
}

TEST(Layout, OfASliceStartsBehindAndStepsFarther) {
  NormalLayout layout = Whole({kM, D(96)});
  Op slice;
  slice.kind = OpKind::kSlice;
  slice.starts = {0, 32};
  slice.steps = {1, 2};
  slice.type.dims = {kM, D(16)};
  ASSERT_TRUE(ViewLayout(slice, &layout));
  EXPECT_EQ(layout.offset, 32);
  EXPECT_EQ(layout.strides, (std::vector<Stride>{{96, 0}, {2, 0}}));
}

TEST(Layout, IsAMatrixWithOneStrideOfWholeVectors) {
  EXPECT_TRUE(IsMatrix(Whole({kM, D(64)}), DType::kBF16));
  EXPECT_TRUE(IsMatrix(Whole({kM, D(5), D(64)}), DType::kBF16));
  EXPECT_FALSE(IsMatrix(Whole({kM, D(36)}), DType::kBF16));
  EXPECT_TRUE(IsMatrix(Whole({kM, D(36)}), DType::kF32));
  EXPECT_FALSE(IsMatrix(Whole({D(5), kM, D(64)}), DType::kBF16));
  EXPECT_TRUE(IsMatrix({{kM, D(64)}, {{192, 0}, {1, 0}}, 0}, DType::kBF16));
  EXPECT_FALSE(IsMatrix({{kM, D(64)}, {{32, 0}, {1, 0}}, 0}, DType::kBF16));
  EXPECT_FALSE(IsMatrix({{D(64), D(64)}, {{1, 0}, {64, 0}}, 0}, DType::kBF16));
  EXPECT_FALSE(IsMatrix({{D(4), D(2), D(64)}, {{64, 0}, {256, 0}, {1, 0}}, 0}, DType::kBF16));
}

}  // namespace
}  // namespace sinter
