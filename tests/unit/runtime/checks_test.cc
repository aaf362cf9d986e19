#include <functional>

#include "runtime/launch/recipe_check.h"
#include "runtime/launch/tensor_map.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

TensorMapTemplate GoodMap() { return ExampleRecipe().tensor_maps[0]; }

TEST(TensorMapCheck, AcceptsWhatTheDriverAccepts) {
  EXPECT_TRUE(CheckTensorMap(GoodMap()).ok());
  TensorMapTemplate wide;  // several 64-column atoms in one instruction
  wide.dims = {Dim::Constant(64), Dim::M(), Dim::Constant(8)};
  wide.stride_bytes = {1024, 128};
  wide.box = {64, 256, 2};
  EXPECT_TRUE(CheckTensorMap(wide).ok());
  TensorMapTemplate line;
  line.dtype = DType::kF32;
  line.dims = {Dim::Constant(int64_t{1} << 32)};
  line.box = {256};
  line.swizzle = Swizzle::kNone;
  EXPECT_TRUE(CheckTensorMap(line).ok());
}

TEST(TensorMapCheck, RefusesEveryBrokenRuleByName) {
  const struct {
    std::function<void(TensorMapTemplate*)> damage;
    const char* message;
  } rows[] = {
      {[](auto* m) { m->dims.clear(); }, "rank 0 is outside 1..5"},
      {[](auto* m) { m->dims.resize(6); }, "rank 6 is outside 1..5"},
      {[](auto* m) { m->stride_bytes.clear(); }, "needs 1 strides"},
      {[](auto* m) { m->box.push_back(1); }, "2 box extents"},
      {[](auto* m) { m->dims[0] = Dim::Constant(0); }, "dimension 0: extent 0"},
      {[](auto* m) { m->dims[0] = Dim::Constant((int64_t{1} << 32) + 1); }, "extent 4294967297"},
      {[](auto* m) { m->dims[0] = Dim::M(); }, "2 dimensions are M"},
      {[](auto* m) { m->stride_bytes[0] = 120; }, "stride 120 bytes is not a multiple of 16"},
      {[](auto* m) { m->stride_bytes[0] = 0; }, "dimension 1: stride 0"},
      {[](auto* m) { m->stride_bytes[0] = uint64_t{1} << 40; }, "stride 1099511627776"},
      {[](auto* m) { m->box[1] = 0; }, "dimension 1: box 0 is outside 1..256"},
      {[](auto* m) { m->box[1] = 257; }, "box 257 is outside 1..256"},
      {[](auto* m) { m->box[0] = 65; }, "inner box of 130 bytes is not a multiple of 16"},
      {[](auto* m) { m->box[0] = 72; }, "inner box of 144 bytes exceeds the swizzle span of 128"},
      {[](auto* m) { m->swizzle = Swizzle::k32B; }, "exceeds the swizzle span of 32"},
      {[](auto* m) { m->swizzle = static_cast<Swizzle>(9); }, "unknown swizzle 9"},
      {[](auto* m) { m->dtype = static_cast<DType>(77); }, "unknown dtype 77"},
  };
  for (const auto& row : rows) {
    TensorMapTemplate map = GoodMap();
    row.damage(&map);
    const absl::Status status = CheckTensorMap(map);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.message;
    EXPECT_THAT(Text(status), HasSubstr(row.message));
  }
}

TEST(TensorMapPrepare, RefusesAnAddressThatIsNotAligned) {
  const auto map = PrepareTensorMap(GoodMap(), 0x10008);
  EXPECT_THAT(Text(map.status()), HasSubstr("buffer 0: address 0x10008"));
}

DeviceLimits Limits() {
  FakeDriver fake;
  return OpenFake(fake)->limits();
}

TEST(RecipeCheck, RefusesWhatTheDeviceCannotRunWithBothNumbers) {
  const DeviceLimits limits = Limits();
  ASSERT_TRUE(CheckRecipe(ExampleRecipe(), limits).ok());
  const struct {
    std::function<void(LaunchRecipe*)> damage;
    const char* message;
  } rows[] = {
      {[](auto* r) { r->grid[1] = 70000; }, "grid.y 70000 exceeds the device's 65535"},
      {[](auto* r) {
         r->block = {1, 1, 65};
       },
       "block.z 65 exceeds the device's 64"},
      {[](auto* r) {
         r->block = {512, 4, 1};
       },
       "threads per block 2048 exceeds the device's 1024"},
      {[](auto* r) { r->shared_bytes = 232449; }, "232449 exceeds the device's 232448"},
      {[](auto* r) { r->grid[0] = 0; }, "at least 1 in x"},
      {[](auto* r) { r->cluster[0] = 3; }, "grid.x 16 is not a multiple of cluster.x 3"},
      {[](auto* r) {
         r->cluster = {16, 2, 1};
       },
       "cluster of 32 blocks exceeds"},
      {[](auto* r) { r->entry.clear(); }, "entry is empty"},
      {[](auto* r) { r->args[0].index = 2; }, "tensor map 2 does not exist, there are 2"},
      {[](auto* r) { r->args[0].index = -1; }, "tensor map -1 does not exist"},
      {[](auto* r) { r->args[2].int_value = -4; }, "row pitch -4"},
      {[](auto* r) { r->args[2].kind = static_cast<ArgKind>(9); }, "unknown kind 9"},
      {[](auto* r) { r->args.resize(513); }, "513 arguments exceed 512"},
      {[](auto* r) { r->tensor_maps.resize(17); }, "17 tensor maps exceed 16"},
      {[](auto* r) { r->tensor_maps[1].box[1] = 999; }, "tensor map 1: dimension 1: box 999"},
  };
  for (const auto& row : rows) {
    LaunchRecipe recipe = ExampleRecipe();
    row.damage(&recipe);
    const absl::Status status = CheckRecipe(recipe, limits);
    EXPECT_FALSE(status.ok()) << row.message;
    EXPECT_THAT(Text(status), HasSubstr(row.message));
  }
}

}  // namespace
}  // namespace sinter
