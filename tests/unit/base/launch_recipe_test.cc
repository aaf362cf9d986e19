#include "src/base/launch_recipe.h"

#include "tests/support/refusals.h"

namespace sinter {
namespace {

LaunchRecipe SampleRecipe() {
  LaunchRecipe recipe{.entry = "chain_ffn_s8",
                      .grid = {120, 1, 1},
                      .block = {384, 1, 1},
                      .cluster = {8, 1, 1},
                      .shared_bytes = 232448,
                      .cooperative = true,
                      .pdl = true};
  TensorMapTemplate rows{.buffer = 2,
                         .offset_bytes = 4096,
                         .dtype = DType::kF16,
                         .dims = {Dim::Constant(1024), Dim::M()},
                         .stride_bytes = {2048},
                         .box = {64, 128}};
  TensorMapTemplate vector{.buffer = kWorkspaceBuffer,
                           .dtype = DType::kF32,
                           .dims = {Dim::Constant(48)},
                           .box = {16},
                           .swizzle = Swizzle::kNone};
  recipe.tensor_maps = {rows, vector};
  recipe.args.resize(6);
  recipe.args[0].kind = ArgKind::kTensorMap;
  recipe.args[0].index = 1;
  recipe.args[1].kind = ArgKind::kPointer;
  recipe.args[1].index = kWorkspaceBuffer;
  recipe.args[1].offset_bytes = 64;
  recipe.args[2].kind = ArgKind::kSymbolM;
  recipe.args[3].kind = ArgKind::kInt32;
  recipe.args[3].int_value = std::numeric_limits<int32_t>::min();
  recipe.args[4].kind = ArgKind::kFloat32;
  recipe.args[4].float_value = -std::numeric_limits<double>::infinity();
  recipe.args[5].kind = ArgKind::kBytes;
  recipe.args[5].bytes = "12345678";
  return recipe;
}

TEST(LaunchRecipe, EqualitySeesEveryField) {
  constexpr char kChanges[] =
      "entry+=x grid[2]=2 block[0]=32 cluster[0]=4 shared_bytes=1 cooperative=false pdl=false "
      "rows_per_m=2 grid_rows=2 tensor_maps.size=1 tensor_maps[0].buffer=0 "
      "tensor_maps[0].offset_bytes=0 tensor_maps[0].dtype=bf16 tensor_maps[0].dims[1]=1 "
      "tensor_maps[0].stride_bytes[0]=16 tensor_maps[0].box[1]=1 tensor_maps[0].swizzle=2 "
      "tensor_maps[0].walk=default args.size=5 args[0].kind=2 args[1].index=3 "
      "args[1].offset_bytes=0 args[3].int_value=0 args[4].float_value=0 args[5].bytes=1234";
  for (const absl::string_view words : absl::StrSplit(kChanges, ' ')) {
    const LaunchRecipe changed = Changed(SampleRecipe(), words);
    EXPECT_FALSE(changed == SampleRecipe()) << words;
    EXPECT_NE(changed.Encode(), SampleRecipe().Encode()) << words;
  }
}

TEST(LaunchRecipe, TheWalkOfAnIm2colMapIsComparedAndChecked) {
  LaunchRecipe sample = SampleRecipe();
  TensorMapTemplate& map = sample.tensor_maps[0];
  map.dims = {Dim::Constant(64), Dim::Constant(9), Dim::Constant(7), Dim::M()};
  map.stride_bytes = {256, 9 * 256, 63 * 256};
  map.box = {16, 48};
  map.walk = PixelWalk{{-1, -2}, {0, 1}, {1, 2}};
  const auto check = [&](const TensorMapTemplate& walking) {
    LaunchRecipe changed = sample;
    changed.tensor_maps[0] = walking;
    if (!(walking == map)) {
      EXPECT_FALSE(changed == sample);
      EXPECT_NE(changed.Encode(), sample.Encode());
    }
    return changed.Check();
  };
  ExpectRefusedChanges("tests/unit/base/refused_recipes.txt", "walks", map, check);
}

TEST(LaunchRecipe, OutOfRangeFieldsAreRefusedByName) {
  ExpectRefusedChanges("tests/unit/base/refused_recipes.txt", "fields", SampleRecipe(),
                       [](const LaunchRecipe& recipe) { return recipe.Check(); });
}

}  // namespace
}  // namespace sinter
