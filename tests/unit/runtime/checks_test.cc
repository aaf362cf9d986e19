#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

TensorMapTemplate GoodMap() { return ExampleRecipe().tensor_maps[0]; }

TEST(TensorMapPrepare, RefusesElementsThatNoMapHas) {
  TensorMapTemplate map = GoodMap();
  map.dtype = DType::kS64;
  EXPECT_THAT(Text(PrepareTensorMap(map, 0x10000).status()), HasSubstr("elements of s64"));
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
    void (*damage)(LaunchRecipe*);
    const char* message;
  } rows[] = {
      {[](auto* r) { r->grid[1] = 70000; }, "grid = 70000, must be 1..65535"},
      {[](auto* r) {
         r->block = {1, 1, 65};
       },
       "block = 65, must be 1..64"},
      {[](auto* r) {
         r->block = {512, 4, 1};
       },
       "threads per block = 2048, must be 1..1024"},
      {[](auto* r) { r->shared_bytes = 232449; }, "232449 exceeds the device's 232448"},
      {[](auto* r) { r->grid[0] = 0; }, "grid = 0, must be 1.."},
      {[](auto* r) { r->cluster[0] = 3; }, "grid = 16, must be a multiple of the cluster's 3"},
      {[](auto* r) {
         r->cluster = {16, 2, 1};
       },
       "blocks per cluster = 32, must be 1..16"},
      {[](auto* r) { r->entry.clear(); }, "entry is not a C identifier"},
      {[](auto* r) { r->args[0].index = 2; }, "tensor map index = 2, must be below 2"},
      {[](auto* r) { r->args[0].index = -1; }, "tensor map index = -1"},
      {[](auto* r) { r->args[2].int_value = -4; }, "row pitch = -4"},
      {[](auto* r) { r->args[2].kind = static_cast<ArgKind>(9); }, "argument kind = 9"},
      {[](auto* r) { r->args.resize(513); }, "arguments = 513, must be 0..512"},
      {[](auto* r) { r->tensor_maps.resize(17); }, "tensor maps = 17, must be 0..16"},
      {[](auto* r) { r->tensor_maps[1].box[1] = 999; }, "box = 999, must be 1..256"},
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
