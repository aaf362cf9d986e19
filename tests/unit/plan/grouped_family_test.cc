// Kernels of grouped GEMMs: their bytes, whose decoder trusts nothing, their launch and their
// descriptions.
#include "src/plan/grouped_family.h"

#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/plan/kernel_code.h"
#include "tests/support/damage.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

// silu(y) * up, of sums plus biases if `bias` says of which leaves, times a number of each slot if
// there are `weights`.
void GiveProgram(bool weights, const std::vector<GroupedLeaf>& biases, GroupedProduct* p) {
  ChainBuilder b;
  std::vector<LeafKind> kinds;
  const auto input = [&](LeafKind kind, DType dtype, const GroupedLeaf& leaf) {
    kinds.push_back(kind);
    p->leaves.push_back(leaf);
    return *b.Input({dtype, {C(2)}});
  };
  p->leaves.clear();
  ValueId sums[] = {input(LeafKind::kValue, DType::kF32, {}),
                    input(LeafKind::kUp, DType::kF32, {})};
  for (size_t i = 0; i < biases.size(); ++i) {
    const ValueId bias = input(LeafKind::kColumn, DType::kBF16, biases[i]);
    sums[i] = *b.Binary(BinaryKind::kAdd, sums[i], *b.Cast(bias, DType::kF32));
  }
  ValueId y = *b.Binary(BinaryKind::kMul, *AddActivation(b, Activation::kSilu, sums[0]), sums[1]);
  if (weights) {
    const int operand = biases.empty() ? 0 : 1;
    const GroupedLeaf of_slots = {.operand = operand, .row = p->slots, .slot = 1};
    y = *b.Binary(BinaryKind::kMul, y, input(LeafKind::kRow, DType::kF32, of_slots));
  }
  const DType stored = p->result == DType::kE4M3 ? DType::kF32 : p->result;
  EXPECT_TRUE(b.Output(*b.Cast(y, stored)).ok());
  auto body = std::make_shared<const Chain>(*b.Finish());
  std::vector<LeafKind> canonical;
  const std::vector<GroupedLeaf> given = std::exchange(p->leaves, {});
  for (const int32_t at : body->InputOrder()) {
    canonical.push_back(kinds[static_cast<size_t>(at)]);
    p->leaves.push_back(given[static_cast<size_t>(at)]);
  }
  p->program = GroupedProgramOf(std::move(body), std::move(canonical), *p);
}

GroupedProduct PairProduct() {
  GroupedProduct p{.result = DType::kBF16,
                   .experts = 16,
                   .slots = 4,
                   .n = 96,
                   .k = 256,
                   .pair = GroupedPair::kHalves,
                   .row_stride = 256,
                   .id_stride = 4,
                   .id_slot_stride = 1,
                   .expert_stride = 192 * 256,
                   .weight_stride = 256,
                   .out_stride = 4 * 96,
                   .out_slot_stride = 96};
  GiveProgram(true, {}, &p);
  return p;
}

GroupedProduct BiasedProduct() {
  GroupedProduct p = PairProduct();
  p.pair = GroupedPair::kInTurns;
  GiveProgram(true, {{.expert = 192, .column = 2, .offset = 1}, {.expert = 192, .column = 2}}, &p);
  return p;
}

GroupedProduct ScaledProduct() {
  GroupedProduct p = PairProduct();
  p.rows = p.weights = DType::kE4M3;
  p.n = p.out_slot_stride = 128;
  p.out_stride = 4 * 128;
  p.expert_stride = 256 * 256;
  p.row_scales = p.weight_scales = GroupedScales::kGroups;
  p.row_scale_stride = 2;
  p.row_scale_group = p.weight_scale_group = 1;
  p.weight_scale_expert = 4;
  p.weight_scale_column = 2;
  return p;
}

GroupedProduct QuantizedProduct() {
  GroupedProduct p = ScaledProduct();
  p.result = DType::kE4M3;
  p.quantizer = {true, false, 1e-10, 0};
  GiveProgram(false, {}, &p);
  return p;
}

KernelSpec SpecOf(const GroupedProduct& p, const GroupedSchedule& s) {
  KernelSpec spec{.family = &GroupedFamily()};
  std::vector<BufferPlace> places = {{0, 0}, {1, 256}, {2, 0}};
  if (p.HasScales()) places.insert(places.end(), {{5, 0}, {6, 0}});
  if (p.Reads(LeafKind::kColumn)) places.push_back({4, 0});
  if (p.Reads(LeafKind::kRow)) places.push_back({3, 0});
  if (p.quantizer.present) places.push_back({kWorkspaceBuffer, 1 << 20});
  places.push_back({kWorkspaceBuffer, 65536});
  spec.body = MakeBody(GroupedSpec{{p, s}, places});
  return spec;
}

const GroupedSchedule kTiles{64, 128, 4, 100}, kDots{0, 0, 0, 100}, kWarpDots{0, 1, 0, 100},
    kSwapped{128, 256, 4, 100, 2};

constexpr char kRefused[] = "tests/unit/plan/refused_grouped.txt";

// What reading the product's bytes says.
absl::Status ReadBack(const GroupedProduct& p) {
  return ReadFrom<GroupedProduct>(Written(p)).status();
}

void ExpectRefusedProducts(const std::string& section, const GroupedProduct& good) {
  ExpectRefusedChanges(kRefused, section, good, ReadBack, absl::StatusCode::kDataLoss);
}

TEST(GroupedFamily, CodesReadBackAndKnowNoPlaceRowsOrGrid) {
  for (const GroupedSchedule& s : {kTiles, kDots, kWarpDots, kSwapped}) {
    const KernelCode code = *CodeOf(SpecOf(PairProduct(), s));
    const auto read = Got(ReadCode(code.Bytes(), code.ScheduleBytes()));
    EXPECT_EQ(read.Bytes(), code.Bytes());
    EXPECT_EQ(read.ScheduleBytes(), code.ScheduleBytes());
    GroupedProduct fixed = PairProduct();
    fixed.fixed_rows = 40;
    GroupedSchedule other = s;
    other.grid = 6;
    EXPECT_EQ(CodeOf(SpecOf(fixed, other))->Bytes(), code.Bytes());
    EXPECT_EQ(CodeOf(SpecOf(fixed, other))->ScheduleBytes(), code.ScheduleBytes());
  }
}

TEST(GroupedFamily, ScaledProductsTellTheirScales) {
  const DeviceModel model = *BuiltinModel("h100");
  const GroupedProduct p = ScaledProduct();
  EXPECT_TRUE(absl::StrContains(p.ToString(), "dtype=e4m3 scales=1x128,128x128 result=bf16"))
      << p.ToString();
  const KernelSpec spec = SpecOf(p, kTiles);
  const auto kernel = Got(Generate(spec, model));
  EXPECT_TRUE(absl::StrContains(kernel.request.source, "struct Wgmma<64, FloatE4M3"));
  EXPECT_EQ(kernel.recipe.args.size(), 8u);
  const auto buffers = GroupedKernels().Buffers(spec, 10);
  ASSERT_EQ(buffers.size(), 7u);
  EXPECT_EQ(buffers[3].type, "f32[M,2]");
  EXPECT_EQ(buffers[4].type, "f32[16,2,2]");
  // Swapped tiles of 64 slots, and no tiles that begin inside of a block of scales.
  ExpectRefusedSchedules(kRefused, "schedules of scales", p, kTiles, model);
  ExpectRefusedProducts("scales", p);
}

// A tile has whole groups of 128 results, whose scales are stored in front of the codes.
TEST(GroupedFamily, QuantizedResultsHaveScalesOfTheirOwn) {
  const DeviceModel model = *BuiltinModel("h100");
  const GroupedProduct p = QuantizedProduct();
  EXPECT_TRUE(absl::StrContains(p.ToString(), " quantize=group eps=1e-10 result=e4m3"))
      << p.ToString();
  const KernelSpec spec = SpecOf(p, {64, 256, 4, 100});
  const auto kernel = Got(Generate(spec, model));
  EXPECT_TRUE(absl::StrContains(kernel.request.source, "kCodes = 1;"));
  EXPECT_TRUE(absl::StrContains(kernel.request.source, "float* code_scales,"));
  const auto buffers = GroupedKernels().Buffers(spec, 10);
  ASSERT_EQ(buffers.size(), 7u);
  EXPECT_EQ(buffers[5].type, "f32[M,4,1]");
  EXPECT_TRUE(buffers[5].write && buffers[6].write && !buffers[4].write);
  EXPECT_EQ(buffers[6].type, "e4m3[M,4,128]");
  ExpectRefusedSchedules(kRefused, "schedules of a quantizer", p, GroupedSchedule{64, 256, 4, 100},
                         model);
  ExpectRefusedProducts("quantizer", p);
}

TEST(GroupedFamily, DamagedBytesAreRefusedOrAnotherCode) {
  for (const GroupedProduct& p : {BiasedProduct(), ScaledProduct(), QuantizedProduct()}) {
    const KernelCode code = *CodeOf(SpecOf(p, kTiles));
    const std::string bytes = code.Bytes(), schedule = code.ScheduleBytes();
    ExpectTruncationsRefused(bytes, [&](const std::string& of) { return ReadCode(of, schedule); });
    ExpectTruncationsRefused(schedule, [&](const std::string& of) { return ReadCode(bytes, of); });
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const int bit : {0, 3, 7}) {
        std::string flipped = bytes;
        flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
        const auto read = ReadCode(flipped, schedule);
        if (read.ok() && read->family == &GroupedFamily()) {
          EXPECT_EQ(read->Bytes(), flipped);
        }
      }
    }
  }
}

TEST(GroupedFamily, ProductsBeyondAChainsBoundsAreNotRead) {
  ExpectRefusedProducts("pair", PairProduct());
  GroupedProduct by_ends = Changed(PairProduct(), "by_ends=true slots=1");
  GiveProgram(false, {}, &by_ends);
  EXPECT_OK(ReadBack(by_ends));
  for (const char* words : {"operand=2", "column=1", "expert=1"}) {
    GroupedProduct p = PairProduct();
    p.leaves.back() = Changed(p.leaves.back(), words);
    EXPECT_FALSE(CheckGroupedProgram(p).ok()) << words;
  }
}

// Columns times their stride are 2^64 here.
TEST(GroupedFamily, WeightsFarApartAreNotMapped) {
  GroupedProduct p = PairProduct();
  EXPECT_TRUE(MapsWeights(p, kTiles));
  p.k = 8;
  p.n = int64_t{1} << 29;
  p.weight_stride = int64_t{1} << 34;
  p.expert_stride = 0;
  EXPECT_FALSE(MapsWeights(p, kTiles));
}

// Warpgroup products of 16-bit elements need a newer compiler than threads do.
TEST(GroupedFamily, TilesNameTheLeastCompiler) {
  for (const auto& [schedule, least] :
       {std::make_pair(kTiles, 1209), std::make_pair(kDots, 0), std::make_pair(kSwapped, 1209)}) {
    const KernelSpec spec = SpecOf(PairProduct(), schedule);
    CompileRequest request;
    ASSERT_TRUE(GroupedFamily().WriteRequest(spec, *CodeOf(spec), &request).ok());
    EXPECT_EQ(request.least_nvrtc, least) << schedule.ToString();
  }
}

TEST(GroupedFamily, DecisionsReadBack) {
  Plan plan{.bucket = 64};
  plan.kernels.emplace_back();
  plan.kernels[0].spec = SpecOf(PairProduct(), kTiles);
  plan.kernels[0].ops = {{9}, false, 0};
  const std::string bytes = EncodeDecisions(DecisionsOf(plan));
  const auto read = Got(DecodeDecisions(bytes));
  EXPECT_EQ(read.kernels[0].family, &GroupedFamily());
  EXPECT_EQ(*GroupedKernels().ScheduleFrom(read.kernels[0].own), kTiles);
  EXPECT_EQ(EncodeDecisions(read), bytes);
  KernelDecision other = read.kernels[0];
  GroupedSchedule grid = kTiles;
  grid.grid = 3;
  other.own = GroupedKernels().BytesOf(grid);
  EXPECT_TRUE(GroupedFamily().SameSource(other, read.kernels[0]));
  grid.stages = 5;
  other.own = GroupedKernels().BytesOf(grid);
  EXPECT_FALSE(GroupedFamily().SameSource(other, read.kernels[0]));
}

TEST(GroupedFamily, ASpecIsItsProductSchedulesAndPlaces) {
  const KernelSpec spec = SpecOf(PairProduct(), kTiles);
  EXPECT_TRUE(spec == SpecOf(PairProduct(), kTiles));
  GroupedSchedule grid = kTiles;
  grid.grid = 3;
  EXPECT_FALSE(spec == SpecOf(PairProduct(), grid));
  GroupedProduct in_turns = PairProduct();
  in_turns.pair = GroupedPair::kInTurns;
  EXPECT_FALSE(spec == SpecOf(in_turns, kTiles));
}

TEST(GroupedFamily, LaunchesNameWhatDoesNotFit) {
  GroupedProduct p = PairProduct();
  EXPECT_TRUE(RecipeOf(SpecOf(p, kTiles)).ok());
  EXPECT_FALSE(RecipeOf(p, kTiles, {{0, 0}, {1, 0}}).ok());
  EXPECT_TRUE(absl::StrContains(
      RecipeOf(p, kTiles, {{0, 8}, {1, 0}, {2, 0}, {3, 0}, {4, 0}}).status().message(),
      "offset 8 is not a multiple of 16"));
  const LaunchRecipe recipe = *RecipeOf(SpecOf(p, kTiles));
  EXPECT_TRUE(recipe.Check().ok()) << recipe.Check();
  EXPECT_EQ(recipe.args[0].int_value, 512) << "a longer launch advances the rows";
  EXPECT_EQ(recipe.args[4].int_value, 0) << "and reuses the workspace";
  EXPECT_EQ(recipe.args[5].kind, ArgKind::kSymbolM);
  p.fixed_rows = 40;
  EXPECT_EQ(RecipeOf(SpecOf(p, kTiles))->args[5].int_value, 40);
}

// Rows that M does not count are all there in each pass over M, and their ends count from 0.
TEST(GroupedFamily, EndsOfFixedRowsCountFromTheFirstOne) {
  GroupedProduct p = PairProduct();
  p.by_ends = true;
  p.slots = p.id_stride = 1;
  p.id_slot_stride = 0;
  GiveProgram(false, {}, &p);
  EXPECT_EQ(RecipeOf(SpecOf(p, kTiles))->args.back().kind, ArgKind::kFirstRow);
  p.fixed_rows = 40;
  const LaunchRecipe recipe = *RecipeOf(SpecOf(p, kTiles));
  EXPECT_TRUE(recipe.Check().ok()) << recipe.Check();
  EXPECT_EQ(recipe.args.back().kind, ArgKind::kInt32);
  EXPECT_EQ(recipe.args.back().int_value, 0);
}

TEST(GroupedFamily, ChecksNameTheFieldTheValueAndTheBound) {
  const DeviceModel model = *BuiltinModel("h200");
  for (const GroupedSchedule& s : {kTiles, kDots, kWarpDots, kSwapped}) {
    EXPECT_OK(CheckSchedule(PairProduct(), s, model));
  }
  ExpectRefusedSchedules(kRefused, "tiles", PairProduct(), kTiles, model);
  ExpectRefusedSchedules(kRefused, "dots of warps", PairProduct(), kWarpDots, model);
  ExpectRefusedSchedules(kRefused, "swapped tiles", PairProduct(), kSwapped, model);
  // Padded: the last vector of a row has 8 elements past k.
  const GroupedProduct whole =
      Changed(ScaledProduct(),
              "row_scales=1 weight_scales=1 k=32 row_stride=32 weight_stride=32 "
              "expert_stride=8192");
  ExpectRefusedSchedules(kRefused, "whole scales", whole, kTiles, model);
  EXPECT_OK(CheckSchedule(ScaledProduct(), kWarpDots, model));
  EXPECT_EQ(CheckSchedule(QuantizedProduct(), kWarpDots, model).message(),
            "results have scales of 128, must have none of dots of warps");
}

// Two blocks load the columns of both; rows of sixteen columns lie so that a thread has neighbours.
TEST(GroupedFamily, SwappedTilesAreClustersOfTwo) {
  const LaunchRecipe recipe = *RecipeOf(SpecOf(PairProduct(), kSwapped));
  EXPECT_TRUE(recipe.Check().ok()) << recipe.Check();
  EXPECT_EQ(recipe.cluster[0], 2u);
  EXPECT_EQ(recipe.block[0], 512u);
  ASSERT_EQ(recipe.tensor_maps.size(), 1u);
  const TensorMapTemplate& map = recipe.tensor_maps[0];
  // Gate and up are separate matrices: a box reads nothing past the 96 columns of either.
  EXPECT_EQ(map.dims[3], Dim::Constant(96 / 16));
  EXPECT_EQ(map.dims[4], Dim::Constant(16 * 2));
  EXPECT_EQ(map.stride_bytes, (std::vector<uint64_t>{1024, 512, 16 * 512, 96 * 512}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{64, 8, 2, 8, 1}));
  EXPECT_FALSE(GroupedFamily().CheckRowOrder(SpecOf(PairProduct(), kSwapped)).ok());
}

TEST(GroupedFamily, IsDescribed) {
  PlannedKernel kernel{.spec = SpecOf(PairProduct(), kTiles)};
  const KernelDescription told =
      GroupedFamily().Describe(kernel, 64, *BuiltinModel("h200"), BufferNames());
  EXPECT_EQ(told.problem,
            "grouped product top=4 experts=16 n=96 k=256 pair=halves "
            "program=mul(mul(mul(y,sigmoid(y)),up),s) of f32 layout=oi dtype=bf16 result=bf16");
  EXPECT_EQ(told.lines[0].second, "#0 bf16[M,256], #1 bf16[16,192,256], #2 s32[M,4], #3 f32[M,4]");
  EXPECT_EQ(told.lines[1].second, "ws+65536 bf16[M,4,96]");
  kernel.spec = SpecOf(BiasedProduct(), kTiles);
  const KernelDescription biased =
      GroupedFamily().Describe(kernel, 64, *BuiltinModel("h200"), BufferNames());
  EXPECT_EQ(biased.problem,
            "grouped product top=4 experts=16 n=96 k=256 pair=in turns "
            "program=mul(mul(mul(y,sigmoid(y)),up),s) of bf16,bf16,f32 layout=oi dtype=bf16 "
            "result=bf16");
  EXPECT_EQ(biased.lines[0].second,
            "#0 bf16[M,256], #1 bf16[16,192,256], #2 s32[M,4], #4 bf16[16,192], #3 f32[M,4]");
}

}  // namespace
}  // namespace sinter
