// Kernels of grouped GEMMs: their bytes, whose decoder trusts nothing, their launch and their
// descriptions.
#include "src/plan/grouped_family.h"

#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/plan/kernel_code.h"
#include "tests/support/test.h"

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
  EXPECT_EQ(CheckSchedule(p, kSwapped, model).message(),
            "block_m is 128, must be 64 of swapped tiles with scales: their sums are added beside "
            "fresh ones");
  EXPECT_TRUE(CheckSchedule(p, {64, 256, 5, 100, 2}, model).ok());
  GroupedProduct narrow = p;
  narrow.n = 96;
  EXPECT_EQ(CheckSchedule(narrow, kTiles, model).message(),
            "n is 96, must be a multiple of 64 with scales of 128 x 128");
  EXPECT_TRUE(CheckSchedule(narrow, {64, 64, 4, 100}, model).ok());
  // Both scales or none, and e4m3 alone has some.
  for (void (*change)(GroupedProduct*) :
       {+[](GroupedProduct* p) { p->row_scales = GroupedScales::kNone; },
        +[](GroupedProduct* p) { p->weights = DType::kBF16; },
        +[](GroupedProduct* p) { p->input_major = true; }}) {
    GroupedProduct bad = p;
    change(&bad);
    ByteWriter w;
    bad.Write(w);
    const std::string bytes = w.Take();
    ByteReader r(bytes);
    EXPECT_EQ(GroupedProduct::Read(r).status().message(), "grouped product: scales");
  }
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
  EXPECT_EQ(CheckSchedule(p, kTiles, model).message(),
            "block_n is 128, must be 256 with a quantiser of 128 results");
  EXPECT_TRUE(CheckSchedule(p, {64, 256, 5, 100, 1}, model).ok());
  EXPECT_TRUE(CheckSchedule(p, kDots, model).ok());
  for (void (*change)(GroupedProduct*) :
       {+[](GroupedProduct* p) { p->result = DType::kBF16; },
        +[](GroupedProduct* p) { p->quantizer.eps = 0; }, +[](GroupedProduct* p) { p->n = 96; }}) {
    GroupedProduct bad = p;
    change(&bad);
    ByteWriter w;
    bad.Write(w);
    const std::string bytes = w.Take();
    ByteReader r(bytes);
    EXPECT_EQ(GroupedProduct::Read(r).status().message(), "grouped product: quantizer");
  }
}

TEST(GroupedFamily, DamagedBytesAreRefusedOrAnotherCode) {
  for (const GroupedProduct& p : {BiasedProduct(), ScaledProduct(), QuantizedProduct()}) {
    const KernelCode code = *CodeOf(SpecOf(p, kTiles));
    const std::string bytes = code.Bytes(), schedule = code.ScheduleBytes();
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(ReadCode(bytes.substr(0, length), schedule).ok()) << length;
    }
    for (size_t length = 0; length < schedule.size(); ++length) {
      EXPECT_FALSE(ReadCode(bytes, schedule.substr(0, length)).ok()) << length;
    }
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
  const auto with = [](void (*change)(GroupedProduct*)) {
    GroupedProduct p = PairProduct();
    change(&p);
    ByteWriter w;
    p.Write(w);
    const std::string bytes = w.Take();
    ByteReader r(bytes);
    return GroupedProduct::Read(r).status();
  };
  const auto lost = [&](void (*change)(GroupedProduct*)) {
    return std::string(with(change).message());
  };
  EXPECT_TRUE(with([](GroupedProduct* p) { p->slots = 32, p->experts = 1024, p->k = 264; }).ok());
  EXPECT_EQ(lost([](GroupedProduct* p) { p->slots = 33; }), "grouped product: slots");
  const auto by_ends = [](GroupedProduct* p) {
    p->by_ends = true, p->slots = 1;
    GiveProgram(false, {}, p);
  };
  EXPECT_TRUE(with(by_ends).ok());
  EXPECT_EQ(lost([](GroupedProduct* p) { p->by_ends = true; }), "grouped product: slots of ends");
  EXPECT_EQ(lost([](GroupedProduct* p) { p->by_ends = true, p->slots = 1; }),
            "grouped product: program")
      << "its weights have slots";
  EXPECT_EQ(lost([](GroupedProduct* p) { p->pair = GroupedPair::kNone; }),
            "grouped product: program");
  for (void (*change)(GroupedLeaf*) :
       {+[](GroupedLeaf* leaf) { leaf->operand = 2; }, +[](GroupedLeaf* leaf) { leaf->column = 1; },
        +[](GroupedLeaf* leaf) { leaf->expert = 1; }}) {
    GroupedProduct p = PairProduct();
    change(&p.leaves.back());
    EXPECT_FALSE(CheckGroupedProgram(p).ok());
  }
  EXPECT_EQ(lost([](GroupedProduct* p) { p->pair = static_cast<GroupedPair>(3); }),
            "grouped product: flags");
  EXPECT_EQ(lost([](GroupedProduct* p) { p->experts = 1025; }), "grouped product: experts");
  EXPECT_EQ(lost([](GroupedProduct* p) { p->k = 260; }), "grouped product: k");
  EXPECT_EQ(lost([](GroupedProduct* p) { p->n = int64_t{1} << 31; }), "grouped product: extent");
  EXPECT_EQ(lost([](GroupedProduct* p) { p->n = int64_t{1} << 30; }), "grouped product: weights");
  EXPECT_EQ(lost([](GroupedProduct* p) { p->n = (int64_t{1} << 27) + 1; }),
            "grouped product: weights");
  EXPECT_TRUE(with([](GroupedProduct* p) { p->n = int64_t{1} << 27; }).ok());
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
  const auto why = [&](const GroupedProduct& p, const GroupedSchedule& s) {
    return std::string(CheckSchedule(p, s, model).message());
  };
  EXPECT_EQ(why(PairProduct(), kTiles), "");
  EXPECT_EQ(why(PairProduct(), kDots), "");
  EXPECT_EQ(why(PairProduct(), {96, 128, 4, 1}), "block_m is 96, must be 0, 64 or 128");
  EXPECT_EQ(why(PairProduct(), {64, 96, 4, 1}), "block_n is 96, must be 64, 128 or 256");
  EXPECT_EQ(why(PairProduct(), {64, 128, 2, 1}), "stages are 2, must be in [3, 12]");
  EXPECT_TRUE(absl::StrContains(why(PairProduct(), {64, 128, 4, 0}), "grid is 0, must be in [1, "));
  EXPECT_TRUE(absl::StrContains(why(PairProduct(), {128, 256, 6, 1}), "shared memory is "));
  EXPECT_EQ(why(PairProduct(), {0, 64, 0, 1}), "block_n is 64, must be 0 or 1 of dots");
  EXPECT_EQ(why(PairProduct(), kWarpDots), "");
  EXPECT_EQ(why(PairProduct(), kSwapped), "");
  EXPECT_EQ(why(PairProduct(), {64, 256, 5, 3, 1}), "");
  EXPECT_EQ(why(PairProduct(), {0, 0, 0, 2, 2}), "dots have no stages and are not swapped");
  EXPECT_EQ(why(PairProduct(), {64, 128, 4, 2, 2}), "block_n is 128, must be 256 of swapped tiles");
  EXPECT_EQ(why(PairProduct(), {128, 256, 4, 3, 2}), "grid is 3, must be a multiple of 2");
  EXPECT_EQ(why(PairProduct(), {128, 256, 4, 3, 3}),
            "swapped is 3, must be 0 to 2 blocks of a cluster");
  GroupedProduct p = PairProduct();
  p.input_major = true;
  EXPECT_EQ(why(p, kWarpDots), "layout is io, must be oi of dots of warps");
  p = PairProduct();
  p.by_ends = true;
  EXPECT_EQ(why(p, kWarpDots), "slots are by ends, must be by ids of dots of warps");
  EXPECT_EQ(why(ScaledProduct(), kWarpDots), "");
  EXPECT_EQ(why(QuantizedProduct(), kWarpDots),
            "results have scales of 128, must have none of dots of warps");
  p = PairProduct();
  p.k = 64;
  EXPECT_EQ(why(p, kSwapped), "k is 64, must be above 64 of swapped tiles");
  p = PairProduct();
  p.n = 104;
  EXPECT_EQ(why(p, kSwapped),
            "weights of swapped tiles must be [experts, columns, k] without gaps and have sets of "
            "16 columns");
  p = PairProduct();
  p.row_stride = 260;
  EXPECT_EQ(why(p, kTiles), "rows are 260 elements apart, must be a multiple of 8");
  p = PairProduct();
  p.rows = DType::kF32;
  EXPECT_EQ(why(p, kTiles),
            "rows are f32 and weights bf16, must both be bf16, both f16 or both e4m3");
  p = ScaledProduct();  // padded: the last vector of a row has 8 elements past k
  p.row_scales = p.weight_scales = GroupedScales::kWhole;
  p.k = 24;
  p.row_stride = p.weight_stride = 32;
  p.expert_stride = 256 * 32;
  EXPECT_EQ(why(p, kTiles), "k is 24, must be a multiple of 16");
  EXPECT_EQ(why(p, kDots), "");
  p.k = 32;
  EXPECT_EQ(why(p, kTiles), "");
  p = PairProduct();
  p.input_major = true;
  EXPECT_EQ(
      why(p, {128, 256, 4, 1}),
      "block_n is 256, must be 64 or 128 with 128 rows in layout io: the copying threads have "
      "too few registers");
  p.n = 100;
  EXPECT_EQ(why(p, kTiles), "n is 100, must be a multiple of 8 in layout io");
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
