#include "src/product/matcher.h"
#include "src/product/search/search.h"
#include "tests/support/epilogue_chains.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

// Each of `refusals` has the words that make a legal schedule illegal, and the message.
void ExpectRefused(const ProductSequence& p, const Schedule& legal,
                   const std::vector<RefusedInput>& refusals) {
  const DeviceModel model = *BuiltinModel("h200");
  ASSERT_OK(CheckSchedule(p, legal, model));
  for (const auto& [words, message] : refusals) {
    EXPECT_TRUE(Fails(CheckSchedule(p, With(legal, words), model),
                      absl::StatusCode::kInvalidArgument, message))
        << words;
  }
}

std::vector<RefusedInput> RefusedIn(const std::string& section) {
  return RefusalsOf("tests/unit/product/refused_schedules.txt", section);
}

TEST(CheckSchedule, GridExchangeRefusalsNameFieldValueAndBound) {
  ExpectRefused(SampleGated(), SampleGridExchange(),
                RefusedIn("GridExchangeRefusalsNameFieldValueAndBound"));
}

TEST(CheckSchedule, ProductRefusalsNameFieldValueAndBound) {
  const ProductSequence p = FirstOf(SampleGated());
  ExpectRefused(p, SampleProduct(p, 48, 2), RefusedIn("ProductRefusalsNameFieldValueAndBound"));
}

// The registers of one warpgroup hold the sums and the terms of their columns, and a program's
// values besides.
TEST(CheckSchedule, SwappedTilesWithAProgramLeaveRegistersForIt) {
  for (const bool biased : {false, true}) {
    testing::EpilogueTypes types{.bias = DType::kF32};
    const Chain chain =
        biased ? testing::ProductEpilogues(types)[0].chain : testing::PairEpilogues(types)[1].chain;
    const auto matched = MatchProducts(chain, 512);
    ASSERT_TRUE(matched.ok() && HasPrograms(matched->sequence)) << matched.status();
    Schedule s = ReadSchedule("product wg1x1 bk64 st3 cl1 swapped grid1 first 64/1");
    s.block_m = biased ? 232 : 112;
    ExpectRefused(matched->sequence, s,
                  {{biased ? "bm240" : "bm128",
                    biased ? "first accumulators 120 is above 118 registers a thread"
                           : "first accumulators 128 is above 120 registers a thread"}});
  }
}

// Scaled GEMMs with slow programs also need narrower tiles.
TEST(CheckSchedule, SwappedTilesWithASlowProgramBehindScalesAreNarrower) {
  const auto matched = MatchProducts(
      ReadChain("x: s8[M,256]; w: const s8[64,256]; of_x: f32[M,1]; of_w: const f32[64,1]; "
                "out bf16(erf(scaled(x, w, of_x, of_w)))"),
      512);
  ASSERT_TRUE(matched.ok() && HasPrograms(matched->sequence)) << matched.status();
  ExpectRefused(matched->sequence,
                ReadSchedule("product bm144 wg1x1 bk128 st3 cl1 swapped grid1 first 64/1"),
                {{"bm160", "first accumulators 80 is above 72 registers a thread"}});
}

// Three kinds of functions with slow paths need registers that a residual takes: the compiler
// spilled 12 bytes of 64 sums.
TEST(CheckSchedule, ManySlowFunctionsBesideAResidualTakeNarrowerTiles) {
  const auto schedule_of = [](int block_n) {
    return Schedule{.dataflow = Dataflow::kProduct,
                    .block_m = 128,
                    .warpgroups_m = 2,
                    .block_k = 64,
                    .stages = 4,
                    .cluster = 1,
                    .grid = 1,
                    .first = {block_n, 1}};
  };
  const auto sequence_of = [](const char* result) {
    const auto matched = MatchProducts(
        ReadChain("x: f16[M,1000]; w: const f16[256,1000]; y = x @ w.T; out f16($0)", result),
        8192);
    EXPECT_TRUE(matched.ok() && HasPrograms(matched->sequence)) << matched.status();
    return matched->sequence;
  };
  ExpectRefused(sequence_of("log1p(erf(tanh(y))) + f32({f16[M,256]})"), schedule_of(120),
                {{"first 128", "first accumulators 64 is above 60 registers a thread"}});
  const DeviceModel model = *BuiltinModel("h200");
  EXPECT_OK(CheckSchedule(sequence_of("log1p(erf(tanh(y)))"), schedule_of(208), model));
  EXPECT_OK(
      CheckSchedule(sequence_of("log1p(erf(y)) + f32({f16[M,256]})"), schedule_of(208), model));
}

// However many slow functions a program has, it has a schedule.
TEST(CheckSchedule, EveryProgramBesideAResidualHasASchedule) {
  const Chain chain = ReadChain(
      "x: bf16[M,1024]; w: const bf16[4096,1024]; r: f32[M,4096]; "
      "out log1p(erf(sigmoid(tanh(sqrt(x @ w.T))))) + r");
  const auto matched = Got(MatchProducts(chain, 16));
  SearchOptions options{.batch_invariant = true};
  for (const char* name : {"h100", "h200"})
    EXPECT_TRUE(SearchSchedules(matched.sequence, *BuiltinModel(name), options).ok()) << name;
}

// If ranks share K, a thread holds the terms of eight columns while it promotes sums, and block
// scales with their addresses. Together with 192 sums, 18 of 232 registers fit and 20 spilled.
TEST(CheckSchedule, PromotedSumsLeaveRegistersForTheTermsOfRanks) {
  ProductSequence p = MakeSequence(16, MakeProduct(2043, 4224, Activation::kSilu, true));
  SetCodes(&p, DType::kF32, ScaleKind::kBlock, ScaleKind::kTensor);
  Schedule s = ReadSchedule("product bm8 wg1x2 bk128 st3 cl8 grid64 first 256/4 share-weights");
  const DeviceModel model = *BuiltinModel("h200");
  EXPECT_OK(CheckSchedule(p, s, model));
  SetBias(&p, 0);
  EXPECT_EQ(CheckSchedule(p, s, model).message(),
            "schedule: first promoted accumulators, scales and terms 224 is above 210 registers a "
            "thread");
  ProductSequence blocks = p;
  SetBias(&blocks, 0, false);
  SetCodes(&blocks, DType::kF32, ScaleKind::kBlock, ScaleKind::kBlock);
  EXPECT_EQ(CheckSchedule(blocks, s, model).message(),
            "schedule: first promoted accumulators, scales and terms 216 is above 210 registers a "
            "thread");
  Schedule one = s;  // warpgroup, whose threads have 255
  one.warpgroups_n = 1;
  one.first.block_n = 128;
  EXPECT_OK(CheckSchedule(p, one, model));
  s.cluster = 2;
  s.grid = 16;
  s.first.split_k = 1;  // whose terms are loaded after the GEMM
  EXPECT_OK(CheckSchedule(p, s, model));
}

// wgmma has no other for integers.
TEST(CheckSchedule, TilesOfS8HaveMultiplesOf16ColumnsAbove32) {
  ProductSequence p = MakeSequence(64, MakeProduct(3072, 1024, Activation::kSilu));
  SetCodes(&p, DType::kF32, ScaleKind::kVector, ScaleKind::kVector, DType::kS8);
  Schedule s = ReadSchedule("product bm64 wg1x1 bk128 cl1 grid1");
  for (const int columns : {8, 24, 32, 40, 48, 120, 128}) {
    s.first.block_n = columns;
    const bool fits = columns <= 32 || columns % 16 == 0;
    EXPECT_EQ(CheckScheduleFields(p, s).ok(), fits) << columns << CheckScheduleFields(p, s);
  }
  s.first.block_n = 40;
  EXPECT_EQ(std::string(CheckScheduleFields(p, s).message()),
            "schedule: first columns of a warpgroup 40 is above 32 and no multiple of 16, of s8 "
            "operands");
  s.swapped = true;
  s.first.block_n = 64;
  for (const int rows : {8, 24, 40, 48}) {
    s.block_m = rows;
    EXPECT_EQ(CheckScheduleFields(p, s).ok(), rows != 40) << rows << CheckScheduleFields(p, s);
  }
}

TEST(CheckSchedule, TilesOfCodesHaveWholeGroups) {
  ProductSequence p = MakeSequence(64, MakeProduct(3072, 1024, Activation::kSilu, true));
  SetCodes(&p, DType::kF32, ScaleKind::kVector, ScaleKind::kVector);
  SetQuantized(&p, {128, 1e-10f, 0, false});
  Schedule s = ReadSchedule("product bm64 wg1x1 cl1 grid1");
  s.first.block_n = 64;
  EXPECT_EQ(std::string(CheckScheduleFields(p, s).message()),
            "schedule: first.block_n 64 is not a multiple of the 128 columns of codes that share a "
            "scale");
  s.first.block_n = 128;
  EXPECT_OK(CheckScheduleFields(p, s));
  s.first.block_n = 64;
  SetQuantized(&p, {});
  EXPECT_OK(CheckScheduleFields(p, s));
}

TEST(CheckSchedule, NormsOfRowsNeedWholeRowsOfFew) {
  ProductSequence p = FirstOf(SampleGated());
  SetNorm(&p, 0, 1e-6f);
  Schedule s = SampleProduct(p, 48, 1);
  s = With(s, "bm48 wg1x grid1");
  ExpectRefused(p, s,
                {{"first /2 cl2 grid2", "first.split_k 2 is not 1, with a norm of the rows"},
                 {"bm56", "block_m 56 is above 48, with a norm of the rows"}});
}

TEST(CheckSchedule, TransposedRowsNeedTilesOfWholeSwizzledRows) {
  ProductSequence p = FirstOf(SampleGated());
  SetTransposedRows(&p, true);
  Schedule s = SampleProduct(p, 64, 2);
  s.block_m = 128;
  s.stages = 2;
  ExpectRefused(p, s,
                {{"bm96", "block_m 96 is not a multiple of 64, with transposed rows"},
                 {"bm32 wg1x", "block_m 32 is not a multiple of 64, with transposed rows"}});
  s = With(s, "bm64 wg1x2 swapped first 128");
  ExpectRefused(p, s, {{"bm40", "block_m 40 is not a multiple of 64, with transposed rows"}});
}

// Nothing but a bias and a quick activation takes registers in addition to the sums.
TEST(CheckSchedule, BareSwappedProductsHaveWiderTiles) {
  const ProductSequence p = MakeSequence(768, MakeProduct(1024, 512, Activation::kSilu));
  Schedule s = SampleSwapped();
  s = With(s, "bm184 wgx2 bk64 st4 cl1 grid20 first 256/1");
  EXPECT_OK(CheckSchedule(p, s, *BuiltinModel("h200")));
  ExpectRefused(p, s, {{"bm192", "first accumulators 192 is above 184 registers a thread"}});
  const ProductSequence slow = MakeSequence(768, MakeProduct(1024, 512, Activation::kGeluErf));
  EXPECT_EQ(CheckSchedule(slow, s, *BuiltinModel("h200")).message(),
            "schedule: first accumulators 184 is above 104 registers a thread");
}

TEST(CheckSchedule, SwappedOperandsRefusalsNameFieldValueAndBound) {
  const ProductSequence p = SampleSwappedProblem();
  ExpectRefused(p, SampleSwapped(), RefusedIn("SwappedOperandsRefusalsNameFieldValueAndBound"));
  Schedule s = SampleGridExchange();
  s.swapped = true;
  EXPECT_EQ(CheckSchedule(SampleGated(), s, *BuiltinModel("h200")).message(),
            "schedule: swapped 1 is not 0 in grid-exchange");
}

TEST(CheckSchedule, PushesRefusalsNameFieldValueAndBound) {
  const DeviceModel model = *BuiltinModel("h200");
  ProductSequence p = SampleSwappedProblem();
  Schedule s = SampleSwapped();
  p.m = s.block_m;
  s.grid = s.cluster;
  s.pushes = 2;
  ASSERT_OK(CheckSchedule(p, s, model));
  ExpectRefused(p, s, RefusedIn("PushesRefusalsNameFieldValueAndBound"));
  const ProductSequence plain = FirstOf(SampleGated());
  Schedule split = SampleProduct(plain, 48, 2);
  split.pushes = 2;
  EXPECT_EQ(CheckSchedule(plain, split, model).message().substr(0, 60),
            "schedule: pushes 2 is not 0, with K split and operands not s");
  const auto refusal = [&](const std::function<void(ProductSequence&)>& change) {
    ProductSequence other = p;
    change(other);
    return std::string(CheckSchedule(other, s, model).message());
  };
  EXPECT_NE(refusal([](ProductSequence& o) { o[0].n -= 4; }).find("no multiple of 8"),
            std::string::npos);
  Schedule grid = SampleGridExchange();
  grid.pushes = 2;
  EXPECT_EQ(CheckSchedule(SampleGated(), grid, model).message(),
            "schedule: pushes 2 is not 0 in grid-exchange");
}

TEST(CheckSchedule, AProductsGridMayBeSmallerThanItsTiles) {
  const ProductSequence p = FirstOf(SampleGated());
  Schedule s = SampleProduct(p, 48, 2);
  s.grid = 6;
  EXPECT_OK(CheckSchedule(p, s, *BuiltinModel("h200")));
}

TEST(CheckSchedule, PairsThatShareLoadsRefusalsNameFieldValueAndBound) {
  ProductSequence p = FirstOf(SampleGated());
  p.m = 300;  // 3 row tiles, 2 pairs
  Schedule s = SampleProduct(p, 48, 1);
  s = With(s, "cl2 grid128 share-weights");
  ExpectRefused(p, s, RefusedIn("PairsThatShareLoadsRefusalsNameFieldValueAndBound"));
  s.share = Share::kRows;
  ExpectRefused(p, s,
                {{"grid194", "grid 194 is above the 192 blocks with work"},
                 {"bm120", "block_m 120 is not a multiple of 16"}});
  Schedule chain = SampleGridExchange();
  ExpectRefused(SampleGated(), chain, {{"share-rows", "share 2 is not 0 in grid-exchange"}});
}

TEST(CheckSchedule, ThreeWarpgroupsTakeNarrowTilesOfOneProduct) {
  ProductSequence p = FirstOf(SampleGated());
  p.m = 192;
  Schedule s = ReadSchedule("product bm192 wg3x1 bk64 st4 grid8 first 72/1");
  EXPECT_OK(CheckSchedule(p, s, *BuiltinModel("h200")));
  ExpectRefused(p, s, RefusedIn("ThreeWarpgroupsTakeNarrowTilesOfOneProduct"));
  SetResidual(&p, Residual::kAdded);
  s.first.block_n = 48;
  ExpectRefused(p, s, {{"first 56", "accumulators 56 is above 48"}});
}

TEST(CheckSchedule, ClusterExchangeMustCoverBothColumnRanges) {
  ProductSequence p = SampleGated();
  SetPair(&p, false);
  SetColumns(&p, 0, 512);
  p[0].k = 416;
  p[1].n = 256;
  Schedule s = ReadSchedule("cluster-exchange bm16 wg1x1 cl8 grid64 first 64/1 second 32/1");
  ExpectRefused(p, s, RefusedIn("ClusterExchangeMustCoverBothColumnRanges"));
}

TEST(CheckSchedule, RangesOfNRefusalsNameFieldValueAndBound) {
  const ProductSequence p = SampleRangesProblem();
  ASSERT_OK(CheckSchedule(p, SampleRanges(), *BuiltinModel("h200")));
  ExpectRefused(p, SampleRanges(), RefusedIn("RangesOfNRefusalsNameFieldValueAndBound"));
  ProductSequence wide = p;
  wide.m = 384;  // 6 row tiles: 144 blocks, 120 are resident
  Schedule s = SampleRanges();
  s.grid = 144;
  EXPECT_TRUE(Says(CheckSchedule(wide, s, *BuiltinModel("h200")),
                   "grid 144 is above the 120 blocks in clusters of 4"));
  EXPECT_OK(CheckScheduleFields(wide, s));
}

TEST(CheckSchedule, SlabRefusalsNameFieldValueAndBound) {
  ProductSequence p = SampleRangesProblem();
  Schedule s = SampleRanges();
  s = With(s, "cluster-slab st2 slab256 grid8 first 192");
  ASSERT_OK(CheckSchedule(p, s, *BuiltinModel("h200")));
  EXPECT_FALSE(IsCooperative(s));
  ExpectRefused(p, s, RefusedIn("SlabRefusalsNameFieldValueAndBound"));
}

TEST(CheckSchedule, SpatialGateRefusalsNameFieldValueAndBound) {
  ProductSequence p = SampleGated();
  SetColumns(&p, 0, 1024);
  Schedule s =
      ReadSchedule("spatial-gate bm16 wg1x1 bk64 st2 cl16 grid128 first 128/1 second 64/1");
  ASSERT_OK(CheckSchedule(p, s, *BuiltinModel("h200")));
  ExpectRefused(p, s, RefusedIn("SpatialGateRefusalsNameFieldValueAndBound"));
  SetPair(&p, false);
  EXPECT_TRUE(
      Says(CheckSchedule(p, s, *BuiltinModel("h200")), "dataflow 6 (spatial-gate) needs a gate"));
}

TEST(CheckSchedule, LayoutIoTakesColumnsInSixtyFoursPerWarpgroup) {
  ProductSequence p = SampleGated();
  SetLayout(&p, Layout::kIO);
  Schedule s = SampleGridExchange();
  s = With(s, "st2 first 64/1 second 64/4");
  ExpectRefused(p, s, {{"first 72", "multiple of 64 per warpgroup"}});
  s = With(s, "bm64 wg1x2");
  EXPECT_FALSE(CheckSchedule(p, s, *BuiltinModel("h200")).ok());
  s.first.block_n = s.second.block_n = 128;
  EXPECT_OK(CheckSchedule(p, s, *BuiltinModel("h200")));
}

TEST(CheckSchedule, ReadyFlagsFitTheWorkspaceHeader) {
  ProductSequence p = SampleGated();
  p.m = 8192;
  SetColumns(&p, 0, 65536);
  SetPair(&p, false);
  Schedule s = SampleGridExchange();
  s.first.block_n = 8;
  EXPECT_TRUE(
      Says(CheckSchedule(p, s, *BuiltinModel("h200")), "flag bytes 2098176 is above 65472"));
}

// Added terms need registers if eight ranks' parts are summed in addition to 128 accumulators.
TEST(CheckSchedule, ResidualsBoundTheTilesOfManyParts) {
  ProductSequence p = SampleGated();
  Schedule s = SampleGridExchange();
  s = With(s, "st2 cl8 second 256/8");
  ASSERT_OK(CheckScheduleFields(p, s));
  SetResidual(&p, Residual::kAdded);
  EXPECT_EQ(CheckScheduleFields(p, s).message(),
            "schedule: second accumulators 128 is above 112 registers a thread");
  s.cluster = 4;
  s.second = {256, 4};
  EXPECT_OK(CheckScheduleFields(p, s));
}

// Loads of single elements need registers in addition to sums that threads keep. Kernels spilled
// with one sum more of those that tiles can have.
TEST(CheckSchedule, WhatIsLoadedElementByElementTakesNarrowerTiles) {
  Schedule s = ReadSchedule("product bm64 wg1x1 bk128 st2 cl1 grid1 first 160/1");
  ProductSequence codes = MakeSequence(64, MakeProduct(515, 512, Activation::kIdentity));
  SetCodes(&codes, DType::kBF16, ScaleKind::kVector, ScaleKind::kVector, DType::kS8);
  ExpectRefused(codes, s, {{"first 176", "first accumulators 88 is above 80 registers a thread"}});
  codes[0].result = DType::kF32;
  EXPECT_OK(CheckScheduleFields(codes, s));
  codes[0].result = DType::kBF16;
  s = With(s, "bm128 wg2x first 144/1");
  ExpectRefused(codes, s, {{"first 160", "first accumulators 80 is above 72 registers a thread"}});

  ProductSequence residual = MakeSequence(64, MakeProduct(6857, 704, Activation::kGeluTanh));
  SetResidual(&residual, Residual::kAddedRounded);
  s.block_k = 64;
  s.first = {224, 1};
  ExpectRefused(residual, s,
                {{"first 256", "first accumulators 128 is above 112 registers a thread"}});
  s.first = {256, 1};
  SetActivation(&residual, Activation::kRelu);
  EXPECT_OK(CheckScheduleFields(residual, s));
  SetActivation(&residual, Activation::kGeluTanh);
  residual[0].n = 6856;
  EXPECT_OK(CheckScheduleFields(residual, s));

  ProductSequence pair = MakeSequence(64, MakeProduct(5886, 2304, Activation::kGeluTanh, true));
  SetCodes(&pair, DType::kBF16, ScaleKind::kVector, ScaleKind::kVector, DType::kS8);
  SetResidual(&pair, Residual::kAdded);
  s.block_k = 128;
  s.first = {80, 1};
  ExpectRefused(pair, s, {{"first 96", "first accumulators 96 is above 80 registers a thread"}});
}

// As in other dataflows: GELU by erf spilled together with 96 sums with factors.
TEST(CheckSchedule, SlowFunctionsBehindFactorsTakeNarrowerTilesOfAClusterToo) {
  ProductSequence p = MakeSequence(128, MakeProduct(576, 768, Activation::kGeluErf), 576);
  Schedule s = ReadSchedule("cluster-exchange bm8 wg1x1 cl4 grid64");
  s.first = s.second = {144, 1};
  SetFactor(&p, 0, RowFactor::kF32);
  ExpectRefused(p, s, {{"first 192", "first accumulators 96 is above 88 registers a thread"}});
  SetColumnScale(&p, 0, DType::kF32);
  ExpectRefused(p, s, {{"first 192", "first accumulators 96 is above 72 registers a thread"}});
  SetActivation(&p, Activation::kRelu);
  s.first.block_n = 192;
  EXPECT_OK(CheckScheduleFields(p, s));
}

// A second result in addition to 128 sums of the only warpgroup spilled.
TEST(CheckSchedule, AuxiliaryResultsOfOneWarpgroupTakeNarrowerTiles) {
  ProductSequence p = MakeSequence(64, MakeProduct(1024, 512, Activation::kIdentity));
  p[0].epilogue.program = ProgramOf(
      std::make_shared<const Chain>(ReadChain("y: f32[2]; out bf16(sigmoid(y)), bf16(y)")),
      {LeafKind::kValue});
  Schedule s = ReadSchedule("product bm64 wg1x1 bk64 st2 cl1 grid1 first 240/1");
  ExpectRefused(p, s, {{"first 256", "first accumulators 128 is above 120 registers a thread"}});
  s.block_m = 128;
  s.warpgroups_m = 2;
  s.first.block_n = 256;
  EXPECT_OK(CheckScheduleFields(p, s));
}

}  // namespace
}  // namespace sinter
