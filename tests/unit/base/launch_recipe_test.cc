#include "src/base/launch_recipe.h"

#include "tests/support/test.h"

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
  void (*const kChanges[])(LaunchRecipe&) = {
      [](LaunchRecipe& r) { r.entry += "x"; },
      [](LaunchRecipe& r) { r.grid[2] = 2; },
      [](LaunchRecipe& r) { r.block[0] = 32; },
      [](LaunchRecipe& r) { r.cluster[0] = 4; },
      [](LaunchRecipe& r) { r.shared_bytes = 1; },
      [](LaunchRecipe& r) { r.cooperative = false; },
      [](LaunchRecipe& r) { r.pdl = false; },
      [](LaunchRecipe& r) { r.rows_per_m = 2; },
      [](LaunchRecipe& r) { r.grid_rows = 2; },
      [](LaunchRecipe& r) { r.tensor_maps.pop_back(); },
      [](LaunchRecipe& r) { r.tensor_maps[0].buffer = 0; },
      [](LaunchRecipe& r) { r.tensor_maps[0].offset_bytes = 0; },
      [](LaunchRecipe& r) { r.tensor_maps[0].dtype = DType::kBF16; },
      [](LaunchRecipe& r) { r.tensor_maps[0].dims[1] = Dim::Constant(1); },
      [](LaunchRecipe& r) { r.tensor_maps[0].stride_bytes[0] = 16; },
      [](LaunchRecipe& r) { r.tensor_maps[0].box[1] = 1; },
      [](LaunchRecipe& r) { r.tensor_maps[0].swizzle = Swizzle::k64B; },
      [](LaunchRecipe& r) { r.tensor_maps[0].walk = PixelWalk{}; },
      [](LaunchRecipe& r) { r.args.pop_back(); },
      [](LaunchRecipe& r) { r.args[0].kind = ArgKind::kSymbolM; },
      [](LaunchRecipe& r) { r.args[1].index = 3; },
      [](LaunchRecipe& r) { r.args[1].offset_bytes = 0; },
      [](LaunchRecipe& r) { r.args[3].int_value = 0; },
      [](LaunchRecipe& r) { r.args[4].float_value = 0; },
      [](LaunchRecipe& r) { r.args[5].bytes = "1234"; },
  };
  for (size_t i = 0; i < sizeof(kChanges) / sizeof(kChanges[0]); ++i) {
    LaunchRecipe changed = SampleRecipe();
    kChanges[i](changed);
    EXPECT_FALSE(changed == SampleRecipe()) << i;
    EXPECT_NE(changed.Encode(), SampleRecipe().Encode()) << i;
  }
}

TEST(LaunchRecipe, TheWalkOfAnIm2colMapIsComparedAndChecked) {
  LaunchRecipe sample = SampleRecipe();
  TensorMapTemplate& map = sample.tensor_maps[0];
  map.dims = {Dim::Constant(64), Dim::Constant(9), Dim::Constant(7), Dim::M()};
  map.stride_bytes = {256, 9 * 256, 63 * 256};
  map.box = {16, 48};
  map.walk = PixelWalk{{-1, -2}, {0, 1}, {1, 2}};
  EXPECT_TRUE(sample.Check().ok()) << sample.Check();
  const std::pair<const char*, void (*)(TensorMapTemplate&)> rows[] = {
      {"corner = -129", [](auto& m) { m.walk->lower[0] = -129; }},
      {"corner = 128", [](auto& m) { m.walk->upper[1] = 128; }},
      {"element stride = 9", [](auto& m) { m.walk->strides[1] = 9; }},
      {"element stride = 0", [](auto& m) { m.walk->strides[0] = 0; }},
      {"box = 257", [](auto& m) { m.box[1] = 257; }},
      {"rank of an im2col map = 3", [](auto& m) { m.dims.pop_back(); }},
      {"box rank of an im2col map = 1", [](auto& m) { m.box.pop_back(); }},
      {"dimension that is M = 2", [](auto& m) { m.dims[2] = Dim::M(); }},
  };
  for (const auto& [message, change] : rows) {
    LaunchRecipe changed = sample;
    change(changed.tensor_maps[0]);
    EXPECT_FALSE(changed == sample);
    EXPECT_NE(changed.Encode(), sample.Encode()) << message;
    EXPECT_TRUE(Says(changed.Check(), message));
  }
}

TEST(LaunchRecipe, OutOfRangeFieldsAreRefusedByName) {
  ASSERT_TRUE(SampleRecipe().Check().ok())
      << SampleRecipe().Check();  // each row changes one field of it
  const struct {
    const char* message;
    void (*change)(LaunchRecipe&);
  } kRows[] = {
      {"entry", [](LaunchRecipe& r) { r.entry = ""; }},
      {"entry", [](LaunchRecipe& r) { r.entry = "a-b"; }},
      {"entry", [](LaunchRecipe& r) { r.entry = "1a"; }},
      {"entry", [](LaunchRecipe& r) { r.entry = std::string(257, 'a'); }},
      {"grid = 0", [](LaunchRecipe& r) { r.grid[0] = 0; }},
      {"grid = 2147483648", [](LaunchRecipe& r) { r.grid[0] = 0x80000000u; }},
      {"grid = 65536", [](LaunchRecipe& r) { r.grid[1] = 65536; }},
      {"multiple of the cluster's 8", [](LaunchRecipe& r) { r.grid[0] = 121; }},
      {"block = 1025", [](LaunchRecipe& r) { r.block[0] = 1025; }},
      {"block = 0", [](LaunchRecipe& r) { r.block[1] = 0; }},
      {"block = 65", [](LaunchRecipe& r) { r.block[2] = 65; }},
      {"threads per block = 2048",
       [](LaunchRecipe& r) {
         r.block = {1024, 2, 1};
       }},
      {"cluster = 0", [](LaunchRecipe& r) { r.cluster[0] = 0; }},
      {"cluster = 17", [](LaunchRecipe& r) { r.cluster[0] = 17; }},
      {"rows_per_m = 0", [](LaunchRecipe& r) { r.rows_per_m = 0; }},
      {"rows_per_m = 16777217", [](LaunchRecipe& r) { r.rows_per_m = (1 << 24) + 1; }},
      {"blocks per cluster = 32",
       [](LaunchRecipe& r) {
         r.grid = {16, 2, 1};
         r.cluster = {16, 2, 1};
       }},
      {"shared_bytes = 262145", [](LaunchRecipe& r) { r.shared_bytes = 262145; }},
      {"tensor maps = 17", [](LaunchRecipe& r) { r.tensor_maps.resize(17, r.tensor_maps[0]); }},
      {"arguments = 513", [](LaunchRecipe& r) { r.args.resize(513, r.args[2]); }},
      {"buffer = -2", [](LaunchRecipe& r) { r.tensor_maps[0].buffer = -2; }},
      {"buffer = 4096", [](LaunchRecipe& r) { r.tensor_maps[0].buffer = 4096; }},
      {"tensor map offset", [](LaunchRecipe& r) { r.tensor_maps[0].offset_bytes = 8; }},
      {"tensor map offset", [](LaunchRecipe& r) { r.tensor_maps[0].offset_bytes = ~0ull; }},
      {"dtype = 9", [](LaunchRecipe& r) { r.tensor_maps[0].dtype = static_cast<DType>(9); }},
      {"rank = 0",
       [](LaunchRecipe& r) {
         r.tensor_maps[1].dims.clear();
         r.tensor_maps[1].box.clear();
       }},
      {"rank = 6", [](LaunchRecipe& r) { r.tensor_maps[0].dims.resize(6, Dim::M()); }},
      {"dim = 0", [](LaunchRecipe& r) { r.tensor_maps[0].dims[0] = Dim::Constant(0); }},
      {"dim = ", [](LaunchRecipe& r) { r.tensor_maps[0].dims[0] = Dim::Constant(-1); }},
      {"dimensions that are M = 2",
       [](LaunchRecipe& r) { r.tensor_maps[0].dims.assign(2, Dim::M()); }},
      {"strides = 2", [](LaunchRecipe& r) { r.tensor_maps[0].stride_bytes.push_back(16); }},
      {"stride = 24", [](LaunchRecipe& r) { r.tensor_maps[0].stride_bytes[0] = 24; }},
      {"stride = 0", [](LaunchRecipe& r) { r.tensor_maps[0].stride_bytes[0] = 0; }},
      {"box rank = 1", [](LaunchRecipe& r) { r.tensor_maps[0].box.pop_back(); }},
      {"box = 0", [](LaunchRecipe& r) { r.tensor_maps[0].box[1] = 0; }},
      {"box = 257", [](LaunchRecipe& r) { r.tensor_maps[0].box[1] = 257; }},
      {"inner box bytes = 34", [](LaunchRecipe& r) { r.tensor_maps[0].box[0] = 17; }},
      {"inner box bytes = 256", [](LaunchRecipe& r) { r.tensor_maps[0].box[0] = 128; }},
      {"swizzle = 4", [](LaunchRecipe& r) { r.tensor_maps[0].swizzle = static_cast<Swizzle>(4); }},
      {"argument kind = 9", [](LaunchRecipe& r) { r.args[0].kind = static_cast<ArgKind>(9); }},
      {"bytes of an argument = 0", [](LaunchRecipe& r) { r.args[0].kind = ArgKind::kBytes; }},
      {"bytes of an argument = 2052", [](LaunchRecipe& r) { r.args[5].bytes.resize(2052); }},
      {"a multiple of 4", [](LaunchRecipe& r) { r.args[5].bytes.resize(6); }},
      {"tensor map index = 2", [](LaunchRecipe& r) { r.args[0].index = 2; }},
      {"tensor map index = -1", [](LaunchRecipe& r) { r.args[0].index = -1; }},
      {"buffer = -2", [](LaunchRecipe& r) { r.args[1].index = -2; }},
      {"pointer offset", [](LaunchRecipe& r) { r.args[1].offset_bytes = ~0ull; }},
      {"row pitch = -4", [](LaunchRecipe& r) { r.args[1].int_value = -4; }},
      {"int argument", [](LaunchRecipe& r) { r.args[3].int_value = int64_t{1} << 31; }},
      {"float argument",
       [](LaunchRecipe& r) { r.args[4].float_value = std::numeric_limits<double>::quiet_NaN(); }},
  };
  for (const auto& row : kRows) {
    LaunchRecipe recipe = SampleRecipe();
    row.change(recipe);
    EXPECT_TRUE(Fails(recipe.Check(), absl::StatusCode::kInvalidArgument, row.message))
        << row.message;
  }
}

}  // namespace
}  // namespace sinter
