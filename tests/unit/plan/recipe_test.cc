#include "src/plan/kernel_code.h"
#include "tests/support/test.h"
#include "tests/unit/plan/changed_spec.h"

namespace sinter {
namespace {

LaunchRecipe RecipeFor(const KernelSpec& spec) { return Got(RecipeOf(spec)); }

// "map0 ptr4+0 m": arguments in order; pointers with buffer and offset.
std::string Args(const LaunchRecipe& recipe) {
  std::string text;
  for (const ArgSlot& arg : recipe.args) {
    if (!text.empty()) text += " ";
    if (arg.kind == ArgKind::kTensorMap) text += "map" + std::to_string(arg.index);
    if (arg.kind == ArgKind::kSymbolM) text += "m";
    if (arg.kind == ArgKind::kPointer)
      text += "ptr" + std::to_string(arg.index) + "+" + std::to_string(arg.offset_bytes);
  }
  return text;
}

void ExpectMap(const TensorMapTemplate& map, int buffer, Dim columns, Dim rows, uint64_t stride,
               uint32_t box_rows) {
  EXPECT_EQ(map.buffer, buffer);
  EXPECT_EQ(map.offset_bytes, 0u);
  EXPECT_EQ(map.dtype, DType::kBF16);
  EXPECT_THAT(map.dims, ElementsAre(columns, rows));
  EXPECT_THAT(map.stride_bytes, ElementsAre(stride));
  EXPECT_THAT(map.box, ElementsAre(64, box_rows));
  EXPECT_EQ(map.swizzle, Swizzle::k128B);
}

// Such kernels have three warpgroups and may start early.
struct Launch {
  const char* entry;
  std::array<uint32_t, 3> grid, cluster;
  bool cooperative = false;
};
void ExpectLaunch(const LaunchRecipe& r, const Launch& want) {
  EXPECT_EQ(r.entry, want.entry);
  EXPECT_EQ(r.grid, want.grid);
  EXPECT_THAT(r.block, ElementsAre(384, 1, 1));
  EXPECT_EQ(r.cluster, want.cluster);
  EXPECT_EQ(r.cooperative, want.cooperative);
  EXPECT_TRUE(r.pdl);
}

TEST(Recipe, OfAGatedProduct) {
  const LaunchRecipe r = RecipeFor(SampleSpec(SampleS8(), Dataflow::kProduct));
  ExpectLaunch(r, {.entry = "sinter_product", .grid = {128, 1, 1}, .cluster = {2, 1, 1}});
  EXPECT_EQ(Args(r), "map0 map1 map2 ptr3+0 m");
  ASSERT_EQ(r.tensor_maps.size(), 3u);
  ExpectMap(r.tensor_maps[0], 0, Dim::Constant(1024), Dim::M(), 2048, 128);
  ExpectMap(r.tensor_maps[1], 1, Dim::Constant(1024), Dim::Constant(3072), 2048, 48);
  ExpectMap(r.tensor_maps[2], 2, Dim::Constant(1024), Dim::Constant(3072), 2048, 48);
}

// Each block of a pair loads half a box of what both need.
TEST(Recipe, HalvesTheBoxesThatPairsShare) {
  KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kProduct);
  ProductIn(&spec).schedule.cluster = 4;
  ProductIn(&spec).schedule.share = Share::kRows;
  LaunchRecipe r = RecipeFor(spec);
  EXPECT_THAT(r.tensor_maps[0].box, ElementsAre(64, 64));
  EXPECT_THAT(r.tensor_maps[1].box, ElementsAre(64, 48));
  ProductIn(&spec).schedule.share = Share::kWeights;
  r = RecipeFor(spec);
  EXPECT_THAT(r.tensor_maps[0].box, ElementsAre(64, 128));
  EXPECT_THAT(r.tensor_maps[1].box, ElementsAre(64, 24));
  EXPECT_THAT(r.tensor_maps[2].box, ElementsAre(64, 24));
  SetLayout(&ProductIn(&spec).sequence, Layout::kIO);
  ProductIn(&spec).schedule.first.block_n = 64;
  EXPECT_THAT(RecipeFor(spec).tensor_maps[1].box, ElementsAre(64, 64));  // half of K's 128
}

// Where a thread stores its accumulators in 16 bits, sets of 32 rows of weights are permuted:
// row 32 b + 8 q + 2 g + i of the matrix is row 32 b + 8 g + 2 q + i of the box.
TEST(Recipe, PermutesRowsOfWeightsThatComeInSetsOf32) {
  KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kProduct);
  ProductIn(&spec).schedule.cluster = 1;
  ProductIn(&spec).schedule.first = {64, 1};
  ASSERT_TRUE(PermutesColumns(ProductOf(spec).sequence, ProductOf(spec).schedule));
  LaunchRecipe r = RecipeFor(spec);
  for (int i : {1, 2}) {
    const TensorMapTemplate& map = r.tensor_maps[static_cast<size_t>(i)];
    EXPECT_THAT(map.dims, ElementsAre(Dim::Constant(1024), Dim::Constant(2), Dim::Constant(4),
                                      Dim::Constant(4), Dim::Constant(96)));
    EXPECT_THAT(map.stride_bytes, ElementsAre(2048, 8 * 2048, 2 * 2048, 32 * 2048));
    EXPECT_THAT(map.box, ElementsAre(64, 2, 4, 4, 2));
  }
  EXPECT_EQ(r.tensor_maps[0].dims.size(), 2u) << "rows lie as they are";
  ProductIn(&spec).schedule.cluster = 2;
  ProductIn(&spec).schedule.share = Share::kWeights;
  EXPECT_THAT(RecipeFor(spec).tensor_maps[1].box, ElementsAre(64, 2, 4, 4, 1));
}

TEST(Recipe, LeavesOtherWeightsAsTheyLie) {
  const KernelSpec good = [] {
    KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kProduct);
    ProductIn(&spec).schedule.cluster = 1;
    ProductIn(&spec).schedule.first = {64, 1};
    return spec;
  }();
  const auto permutes = [&](absl::string_view words) {
    const KernelSpec spec = Changed(good, words);
    return PermutesColumns(ProductOf(spec).sequence, ProductOf(spec).schedule);
  };
  EXPECT_TRUE(permutes(""));
  for (const char* words :
       {"p.1.n=3080", "p.1.result=f32", "p.layout=io", "s.first.block_n=48", "s.first.split_k=2",
        "s.swapped=true", "s.share=weights s.first.block_n=96"}) {
    EXPECT_FALSE(permutes(words)) << words;
  }
}

TEST(Recipe, OfConstantRowsHasThemInsteadOfTheLaunchs) {
  KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kProduct);
  ProductIn(&spec).constant_rows = true;
  const LaunchRecipe r = RecipeFor(spec);
  ASSERT_EQ(r.args.size(), 5u);
  EXPECT_EQ(r.args[3].int_value, 0);  // the result does not move with pieces of a launch
  EXPECT_EQ(r.args[4].kind, ArgKind::kInt32);
  EXPECT_EQ(r.args[4].int_value, ProductOf(spec).sequence.m);
  ExpectMap(r.tensor_maps[0], 0, Dim::Constant(1024), Dim::Constant(ProductOf(spec).sequence.m),
            2048, 128);
}

// [K, rows] and [K, n], whose K may be the launch's M; boxes have K of a stage.
TEST(Recipe, OfTransposedRowsLoadsThemInBlocksOfK) {
  for (const bool over_m : {false, true}) {
    ProductSequence p = MakeSequence(768, MakeProduct(256, 1024));
    SetLayout(&p, Layout::kIO);
    SetTransposedRows(&p, over_m);
    KernelSpec spec = SampleSpec(p, SampleSchedule(p, Dataflow::kProduct));
    ProductIn(&spec).schedule.first.block_n = 64;
    ProductIn(&spec).schedule.grid = 48;
    LaunchRecipe r = RecipeFor(spec);
    const Dim k = over_m ? Dim::M() : Dim::Constant(1024);
    ExpectMap(r.tensor_maps[0], 0, Dim::Constant(768), k, 1536, 128);
    ExpectMap(r.tensor_maps[1], 1, Dim::Constant(256), k, 512, 128);
    EXPECT_EQ(Args(r), over_m ? "map0 map1 ptr2+0  m" : "map0 map1 ptr2+0 ");
    EXPECT_EQ(r.args[2].int_value, 0);
    ProductIn(&spec).schedule.share = Share::kRows;
    ProductIn(&spec).schedule.cluster = 4;
    r = RecipeFor(spec);
    EXPECT_THAT(r.tensor_maps[0].box, ElementsAre(64, 64));
    EXPECT_THAT(r.tensor_maps[1].box, ElementsAre(64, 128));
  }
}

TEST(Recipe, OfAGatedGridExchange) {
  const KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
  const LaunchRecipe r = RecipeFor(spec);
  ExpectLaunch(r, {.entry = "sinter_grid_exchange",
                   .grid = {120, 1, 1},
                   .cluster = {4, 1, 1},
                   .cooperative = true});
  EXPECT_EQ(r.shared_bytes,
            SizesOf(ProductOf(spec).sequence, ProductOf(spec).schedule).shared_bytes);
  // a, w1, w_up, C read by TMA, w2; out, C written by stores, flags; m.
  EXPECT_EQ(Args(r), "map0 map1 map2 map3 map4 ptr4+0 ptr-1+65536 ptr-1+0 m");
  ASSERT_EQ(r.tensor_maps.size(), 5u);
  EXPECT_EQ(r.tensor_maps[3].buffer, kWorkspaceBuffer);
  EXPECT_EQ(r.tensor_maps[3].offset_bytes, kWorkspaceFlagBytes);
  EXPECT_THAT(r.tensor_maps[3].dims, ElementsAre(Dim::Constant(3072), Dim::M()));
  EXPECT_THAT(r.tensor_maps[3].box, ElementsAre(64, 128));
  ExpectMap(r.tensor_maps[4], 3, Dim::Constant(3072), Dim::Constant(1024), 6144, 32);
}

TEST(Recipe, OfAGatedClusterExchange) {
  const LaunchRecipe r = RecipeFor(SampleSpec(SampleS8(), Dataflow::kClusterExchange));
  // Two consumer warpgroups along N.
  ExpectLaunch(r, {.entry = "sinter_cluster_exchange", .grid = {128, 1, 1}, .cluster = {16, 1, 1}});
  EXPECT_EQ(Args(r), "map0 map1 map2 map3 ptr4+0 m");
  ExpectMap(r.tensor_maps[0], 0, Dim::Constant(1024), Dim::M(), 2048, 16);
  ExpectMap(r.tensor_maps[1], 1, Dim::Constant(1024), Dim::Constant(3072), 2048, 96);
  ExpectMap(r.tensor_maps[3], 3, Dim::Constant(3072), Dim::Constant(1024), 6144, 32);
}

// Blocks of several clusters wait for one another; their parts lie in the workspace.
TEST(Recipe, OfClustersThatShareARowTile) {
  const LaunchRecipe r = RecipeFor(SampleSpec(SampleS8(), Dataflow::kClusterRanges));
  EXPECT_EQ(r.entry, "sinter_cluster_ranges");
  EXPECT_THAT(r.grid, ElementsAre(112, 1, 1));
  EXPECT_THAT(r.cluster, ElementsAre(8, 1, 1));
  EXPECT_TRUE(r.cooperative);
  EXPECT_EQ(Args(r), "map0 map1 map2 map3 ptr4+0 ptr-1+65536 ptr-1+0 m");
}

TEST(Recipe, OfPlainChains) {
  const KernelSpec one_group = SampleSpec(SampleG7(), Dataflow::kClusterExchange);
  EXPECT_THAT(RecipeFor(one_group).block, ElementsAre(256, 1, 1));
  EXPECT_EQ(Args(RecipeFor(one_group)), "map0 map1 map2 ptr3+0 m");
  EXPECT_EQ(Args(RecipeFor(SampleSpec(SampleG7(), Dataflow::kProduct))), "map0 map1 ptr2+0 m");
  EXPECT_EQ(Args(RecipeFor(SampleSpec(SampleG7(), Dataflow::kGridExchange))),
            "map0 map1 map2 map3 ptr3+0 ptr-1+65536 ptr-1+0 m");
}

TEST(Recipe, PutsBiasesBetweenMapsAndOutput) {
  ProductSequence p = SampleS8();
  SetBias(&p, 0);
  SetBias(&p, 1);
  EXPECT_EQ(Args(RecipeFor(SampleSpec(p, Dataflow::kClusterExchange))),
            "map0 map1 map2 map3 ptr3+0 ptr4+0 ptr6+0 ptr7+0 m");
  EXPECT_EQ(Args(RecipeFor(SampleSpec(p, Dataflow::kProduct))),
            "map0 map1 map2 ptr3+0 ptr4+0 ptr5+0 m");
}

TEST(Recipe, LoadsLayoutIoInBlocksOfK) {
  ProductSequence p = SampleS8();
  SetLayout(&p, Layout::kIO);
  Schedule s = SampleSchedule(p, Dataflow::kGridExchange);
  s.first.block_n = s.second.block_n = 64;
  const LaunchRecipe r = RecipeFor(SampleSpec(p, s));
  ExpectMap(r.tensor_maps[1], 1, Dim::Constant(3072), Dim::Constant(1024), 6144, 128);
  ExpectMap(r.tensor_maps[4], 3, Dim::Constant(1024), Dim::Constant(3072), 2048, 128);
}

// Maps of filters count taps where a tap's channels end inside a subtile, and nowhere else.
TEST(Recipe, CountsTapsWhoseChannelsAreOdd) {
  const Schedule schedule = SampleC6Schedule(Dataflow::kProduct);
  const auto weights = [&](int64_t channels, Layout layout, Share share) {
    ProductSequence p = FirstOf(SampleC6(channels));
    SetLayout(&p, layout);
    Schedule s = schedule;
    if (layout == Layout::kIO) s.first.block_n = 64;
    s.share = share;
    if (share != Share::kNone) s.first.split_k = 2;
    return RecipeFor(SampleSpec(p, s)).tensor_maps[1];
  };
  const auto constant = [](int64_t n) { return Dim::Constant(n); };
  EXPECT_EQ(weights(128, Layout::kOI, Share::kNone).dims.size(), 2u);
  const TensorMapTemplate oi = weights(40, Layout::kOI, Share::kNone);
  EXPECT_THAT(oi.dims, ElementsAre(constant(40), constant(9), constant(128)));
  EXPECT_THAT(oi.stride_bytes, ElementsAre(80, 720));
  EXPECT_THAT(oi.box, ElementsAre(64, 1, 32));
  EXPECT_THAT(weights(40, Layout::kOI, Share::kWeights).box, ElementsAre(64, 1, 16));
  const TensorMapTemplate io = weights(40, Layout::kIO, Share::kNone);
  EXPECT_THAT(io.dims, ElementsAre(constant(128), constant(40), constant(9)));
  EXPECT_THAT(io.stride_bytes, ElementsAre(256, 10240));
  EXPECT_THAT(io.box, ElementsAre(64, 64, 1));
}

TEST(Recipe, KeepsStridesAndOffsetsOfOperands) {
  KernelSpec spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
  // Plain stores of the output take any stride.
  spec = Changed(spec,
                 "a.row_stride=1040 a.offset_bytes=32 flags=4096 out.row_stride=1025 "
                 "out.offset_bytes=2");
  const LaunchRecipe r = RecipeFor(spec);
  EXPECT_THAT(r.tensor_maps[0].stride_bytes, ElementsAre(2080));
  EXPECT_EQ(r.tensor_maps[0].offset_bytes, 32u);
  EXPECT_EQ(Args(r), "map0 map1 map2 map3 map4 ptr4+2 ptr-1+65536 ptr-1+4096 m");
}

// A launch looped over rows moves the output, not what lies in the workspace.
TEST(Recipe, MovesOnlyTheOutputWithRows) {
  for (Dataflow dataflow : DataflowsOf(SampleS8())) {
    int moving = 0;
    for (const ArgSlot& arg : RecipeFor(SampleSpec(SampleS8(), dataflow)).args) {
      if (arg.kind != ArgKind::kPointer || arg.int_value == 0) continue;
      moving++;
      EXPECT_NE(arg.index, kWorkspaceBuffer);
      EXPECT_EQ(arg.int_value, 2 * (dataflow == Dataflow::kProduct ? 3072 : 1024));
    }
    EXPECT_EQ(moving, 1);
  }
  KernelSpec into_c = SampleSpec(SampleS8(), Dataflow::kProduct);
  ProductIn(&into_c).operands.back().buffer = kWorkspaceBuffer;
  for (const ArgSlot& arg : RecipeFor(into_c).args) EXPECT_EQ(arg.int_value, 0);
}

TEST(Recipe, PutsTheResidualBeforeTheOutput) {
  ProductSequence p = SampleS8();
  SetBias(&p, 1);
  SetResidual(&p, Residual::kAdded);
  EXPECT_EQ(Args(RecipeFor(SampleSpec(p, Dataflow::kClusterExchange))),
            "map0 map1 map2 map3 ptr4+0 ptr5+0 ptr6+0 m");
  EXPECT_EQ(Args(RecipeFor(SampleSpec(p, Dataflow::kGridExchange))),
            "map0 map1 map2 map3 map4 ptr4+0 ptr5+0 ptr6+0 ptr-1+65536 ptr-1+0 m");
  const ProductSequence one = SecondOf(p);
  EXPECT_EQ(Args(RecipeFor(SampleSpec(one, SampleSchedule(one, Dataflow::kProduct)))),
            "map0 map1 ptr2+0 ptr3+0 ptr4+0 m");
}

// Bytes a row of each pointer that moves with the rows of a looped launch.
std::vector<int64_t> Moving(const LaunchRecipe& recipe) {
  std::vector<int64_t> bytes;
  for (const ArgSlot& arg : recipe.args) {
    if (arg.kind == ArgKind::kPointer && arg.int_value != 0) bytes.push_back(arg.int_value);
  }
  return bytes;
}

TEST(Recipe, MovesAResidualThatLiesInABuffer) {
  ProductSequence p = SampleS8();
  SetResidual(&p, Residual::kAddedRounded);
  KernelSpec spec = SampleSpec(p, Dataflow::kGridExchange);
  EXPECT_THAT(Moving(RecipeFor(Changed(spec, "residual.row_stride=1040"))),
              ElementsAre(2080, 2048));
  EXPECT_THAT(Moving(RecipeFor(Changed(spec, "residual.row_stride=1040 residual.buffer=-1"))),
              ElementsAre(2048));
  // Buffer 5 is the output's own.
  spec = Changed(spec, "residual.row_stride=1040 residual.buffer=5 constant_rows=true");
  EXPECT_THAT(Moving(RecipeFor(spec)), ElementsAre());
}

TEST(Recipe, MovesFactorsOfRows) {
  ProductSequence p = SampleS8();
  SetScale(&p, 0, 0.5f);
  SetFactor(&p, 0, RowFactor::kF32);
  SetFactor(&p, 1, RowFactor::kElement);
  KernelSpec spec = SampleSpec(p, Dataflow::kGridExchange);
  EXPECT_EQ(Args(RecipeFor(spec)),
            "map0 map1 map2 map3 map4 ptr4+0 ptr5+0 ptr6+0 ptr-1+65536 ptr-1+0 m");
  EXPECT_THAT(Moving(RecipeFor(spec)), ElementsAre(4, 2, 2048));
  EXPECT_THAT(Moving(RecipeFor(Changed(spec, "factor1.buffer=-1"))), ElementsAre(2, 2048));
}

TEST(Recipe, IsWithinItsBounds) {
  for (const ProductSequence& p : {SampleS8(), SampleG7()}) {
    for (Dataflow dataflow : DataflowsOf(p)) {
      EXPECT_OK(RecipeFor(SampleSpec(p, dataflow)).Check());
    }
  }
}

}  // namespace
}  // namespace sinter
