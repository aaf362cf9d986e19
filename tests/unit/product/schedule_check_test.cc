#include "src/product/matcher.h"
#include "src/product/schedule.h"
#include "src/product/search/search.h"
#include "tests/support/epilogue_chains.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

struct Case {
  std::function<void(Schedule&)> change;
  const char* message;
};

void ExpectRefused(const ProductSequence& p, const Schedule& legal,
                   const std::vector<Case>& cases) {
  const DeviceModel model = *BuiltinModel("h200");
  ASSERT_TRUE(CheckSchedule(p, legal, model).ok()) << CheckSchedule(p, legal, model);
  for (const Case& c : cases) {
    Schedule s = legal;
    c.change(s);
    const absl::Status status = CheckSchedule(p, s, model);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << s.ToString();
    EXPECT_NE(status.message().find(c.message), absl::string_view::npos) << status;
  }
}

TEST(CheckSchedule, GridExchangeRefusalsNameFieldValueAndBound) {
  ExpectRefused(
      SampleGated(), SampleGridExchange(),
      {{[](Schedule& s) { s.warpgroups_m = 3; }, "warpgroups_m 3 is not in 1..2 (grid-exchange)"},
       {[](Schedule& s) { s.warpgroups_n = 0; }, "warpgroups_n 0 is not 1 or 2"},
       {[](Schedule& s) { s.warpgroups_n = 2; }, "warpgroups_n 2 is not 1 beside several along M"},
       {[](Schedule& s) { s.block_m = 136; }, "block_m 136 is not a multiple of 8 in 72..128"},
       {[](Schedule& s) { s.block_m = 64; }, "block_m 64 is not a multiple of 8 in 72..128"},
       {[](Schedule& s) { s.block_m = 100; }, "block_m 100 is not"},
       {[](Schedule& s) { s.block_k = 96; }, "block_k 96 is not 64 or 128"},
       {[](Schedule& s) { s.stages = 1; }, "stages 1 is not in 2..32"},
       {[](Schedule& s) { s.stages = 5; }, "shared memory 268288 is above the 232448 bytes"},
       {[](Schedule& s) { s.cluster = 3; }, "cluster 3 is not 1, 2, 4, 8 or 16"},
       {[](Schedule& s) { s.cluster = 2; }, "cluster 2 is not the larger split_k 4"},
       {[](Schedule& s) { s.grid = 118; }, "grid 118 is not a positive multiple of the cluster"},
       {[](Schedule& s) { s.grid = 0; }, "grid 0 is not a positive multiple"},
       {[](Schedule& s) { s.grid = 124; }, "grid 124 is above the 120 blocks in clusters of 4"},
       {[](Schedule& s) { s.first.block_n = 36; }, "first.block_n 36 is not a multiple of 8"},
       {[](Schedule& s) { s.second.block_n = 264; }, "second.block_n 264 is not a multiple of 8"},
       {[](Schedule& s) { s.first.block_n = 136; }, "first accumulators 136 is above 128"},
       {[](Schedule& s) { s.second.split_k = 3; }, "second.split_k 3 is not 1, 2, 4, 8 or 16"},
       {[](Schedule& s) { s.first.split_k = 16; }, "first.split_k 16 is above the 8 steps of K"},
       {[](Schedule& s) { s.dataflow = Dataflow::kProduct; }, "cannot take 2 products"},
       {[](Schedule& s) { s.dataflow = static_cast<Dataflow>(9); }, "dataflow 9 is not 1 to "},
       {[](Schedule& s) { s.first.block_n = -8; }, "first.block_n -8 is not"}});
}

TEST(CheckSchedule, ProductRefusalsNameFieldValueAndBound) {
  const ProductSequence p = FirstOf(SampleGated());
  ExpectRefused(
      p, SampleProduct(p, 48, 2),
      {{[](Schedule& s) { s.grid += 2; }, "grid 130 is above the 128 blocks with work"},
       {[](Schedule& s) { s.cluster = 1; }, "cluster 1 is not first.split_k 2"},
       {[](Schedule& s) { s.share = Share::kRows; },
        "cluster 2 is not first.split_k 2 for each of 2 tiles"},
       {[](Schedule& s) { s.dataflow = Dataflow::kGridExchange; }, "cannot take 1 product"}});
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
    Schedule s{.dataflow = Dataflow::kProduct,
               .block_m = biased ? 232 : 112,
               .warpgroups_m = 1,
               .warpgroups_n = 1,
               .swapped = true,
               .block_k = 64,
               .stages = 3,
               .cluster = 1,
               .grid = 1,
               .first = {64, 1}};
    ExpectRefused(matched->sequence, s,
                  {{[&](Schedule& wider) { wider.block_m = biased ? 240 : 128; },
                    biased ? "first accumulators 120 is above 118 registers a thread"
                           : "first accumulators 128 is above 120 registers a thread"}});
  }
}

// Scaled GEMMs with slow programs also need narrower tiles.
TEST(CheckSchedule, SwappedTilesWithASlowProgramBehindScalesAreNarrower) {
  ChainBuilder b;
  const auto in = [&](DType dtype, Dim rows, int64_t columns) {
    return *b.Input({dtype, {rows, Dim::Constant(columns)}}, {!rows.symbolic, {}, ""});
  };
  const Dim n = Dim::Constant(64);
  const ValueId y = *b.ScaledMatmul(in(DType::kS8, Dim::M(), 256), in(DType::kS8, n, 256),
                                    in(DType::kF32, Dim::M(), 1), in(DType::kF32, n, 1));
  const auto matched =
      MatchProducts(Finished(b, {*b.Cast(*b.Unary(UnaryKind::kErf, y), DType::kBF16)}), 512);
  ASSERT_TRUE(matched.ok() && HasPrograms(matched->sequence)) << matched.status();
  ExpectRefused(matched->sequence,
                {.dataflow = Dataflow::kProduct,
                 .block_m = 144,
                 .warpgroups_m = 1,
                 .warpgroups_n = 1,
                 .swapped = true,
                 .block_k = 128,
                 .stages = 3,
                 .cluster = 1,
                 .grid = 1,
                 .first = {64, 1}},
                {{[](Schedule& wider) { wider.block_m = 160; },
                  "first accumulators 80 is above 72 registers a thread"}});
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
  const auto sequence_of = [](int functions, bool residual) {
    ChainBuilder b;
    const auto in = [&](Dim rows, int64_t columns) {
      return *b.Input({DType::kF16, {rows, Dim::Constant(columns)}}, {!rows.symbolic, {}, ""});
    };
    ValueId y = *b.Matmul(in(Dim::M(), 1000), in(Dim::Constant(256), 1000), false, true);
    const UnaryKind kinds[] = {UnaryKind::kTanh, UnaryKind::kErf, UnaryKind::kLog1p};
    for (int i = 3 - functions; i < 3; ++i) y = *b.Unary(kinds[i], y);
    if (residual) y = *b.Binary(BinaryKind::kAdd, y, *b.Cast(in(Dim::M(), 256), DType::kF32));
    const auto matched = MatchProducts(Finished(b, {*b.Cast(y, DType::kF16)}), 8192);
    EXPECT_TRUE(matched.ok() && HasPrograms(matched->sequence)) << matched.status();
    return matched->sequence;
  };
  ExpectRefused(sequence_of(3, true), schedule_of(120),
                {{[](Schedule& wider) { wider.first.block_n = 128; },
                  "first accumulators 64 is above 60 registers a thread"}});
  const DeviceModel model = *BuiltinModel("h200");
  EXPECT_TRUE(CheckSchedule(sequence_of(3, false), schedule_of(208), model).ok());
  EXPECT_TRUE(CheckSchedule(sequence_of(2, true), schedule_of(208), model).ok());
}

// However many slow functions a program has, it has a schedule.
TEST(CheckSchedule, EveryProgramBesideAResidualHasASchedule) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kBF16, {Dim::M(), Dim::Constant(1024)}}, {false, {}, ""}),
                w = *b.Input({DType::kBF16, {Dim::Constant(4096), Dim::Constant(1024)}},
                             {true, {}, ""}),
                r = *b.Input({DType::kF32, {Dim::M(), Dim::Constant(4096)}}, {false, {}, ""});
  ValueId y = *b.Matmul(x, w, false, true);
  for (const UnaryKind kind : {UnaryKind::kSqrt, UnaryKind::kTanh, UnaryKind::kSigmoid,
                               UnaryKind::kErf, UnaryKind::kLog1p})
    y = *b.Unary(kind, y);
  const auto matched = Got(MatchProducts(Finished(b, {*b.Binary(BinaryKind::kAdd, y, r)}), 16));
  SearchOptions options{.batch_invariant = true};
  for (const char* name : {"h100", "h200"})
    EXPECT_TRUE(SearchSchedules(matched.sequence, *BuiltinModel(name), options).ok()) << name;
}

// If ranks share K, a thread holds the terms of eight columns while it promotes sums, and block
// scales with their addresses. Together with 192 sums, 18 of 232 registers fit and 20 spilled.
TEST(CheckSchedule, PromotedSumsLeaveRegistersForTheTermsOfRanks) {
  ProductSequence p = MakeSequence(16, MakeProduct(2043, 4224, Activation::kSilu, true));
  SetCodes(&p, DType::kF32, ScaleKind::kBlock, ScaleKind::kTensor);
  Schedule s{.dataflow = Dataflow::kProduct,
             .block_m = 8,
             .warpgroups_m = 1,
             .warpgroups_n = 2,
             .block_k = 128,
             .stages = 3,
             .cluster = 8,
             .share = Share::kWeights,
             .grid = 64,
             .first = {256, 4}};
  const DeviceModel model = *BuiltinModel("h200");
  EXPECT_TRUE(CheckSchedule(p, s, model).ok()) << CheckSchedule(p, s, model);
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
  EXPECT_TRUE(CheckSchedule(p, one, model).ok()) << CheckSchedule(p, one, model);
  s.cluster = 2;
  s.grid = 16;
  s.first.split_k = 1;  // whose terms are loaded after the GEMM
  EXPECT_TRUE(CheckSchedule(p, s, model).ok()) << CheckSchedule(p, s, model);
}

// wgmma has no other for integers.
TEST(CheckSchedule, TilesOfS8HaveMultiplesOf16ColumnsAbove32) {
  ProductSequence p = MakeSequence(64, MakeProduct(3072, 1024, Activation::kSilu));
  SetCodes(&p, DType::kF32, ScaleKind::kVector, ScaleKind::kVector, DType::kS8);
  Schedule s{.block_m = 64, .warpgroups_m = 1, .block_k = 128, .cluster = 1, .grid = 1};
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
  Schedule s{.block_m = 64, .warpgroups_m = 1, .cluster = 1, .grid = 1};
  s.first.block_n = 64;
  EXPECT_EQ(std::string(CheckScheduleFields(p, s).message()),
            "schedule: first.block_n 64 is not a multiple of the 128 columns of codes that share a "
            "scale");
  s.first.block_n = 128;
  EXPECT_TRUE(CheckScheduleFields(p, s).ok()) << CheckScheduleFields(p, s);
  s.first.block_n = 64;
  SetQuantized(&p, {});
  EXPECT_TRUE(CheckScheduleFields(p, s).ok()) << CheckScheduleFields(p, s);
}

TEST(CheckSchedule, NormsOfRowsNeedWholeRowsOfFew) {
  ProductSequence p = FirstOf(SampleGated());
  SetNorm(&p, 0, 1e-6f);
  Schedule s = SampleProduct(p, 48, 1);
  s.block_m = 48;
  s.warpgroups_m = 1;
  s.grid = 1;
  ExpectRefused(
      p, s,
      {{[](Schedule& c) { c.first.split_k = c.cluster = c.grid = 2; },
        "first.split_k 2 is not 1, with a norm of the rows"},
       {[](Schedule& c) { c.block_m = 56; }, "block_m 56 is above 48, with a norm of the rows"}});
}

TEST(CheckSchedule, TransposedRowsNeedTilesOfWholeSwizzledRows) {
  ProductSequence p = FirstOf(SampleGated());
  SetTransposedRows(&p, true);
  Schedule s = SampleProduct(p, 64, 2);
  s.block_m = 128;
  s.stages = 2;
  ExpectRefused(p, s,
                {{[](Schedule& c) { c.block_m = 96; },
                  "block_m 96 is not a multiple of 64, with transposed rows"},
                 {[](Schedule& c) { c.block_m = 32, c.warpgroups_m = 1; },
                  "block_m 32 is not a multiple of 64, with transposed rows"}});
  s.swapped = true;
  s.warpgroups_m = 1;
  s.warpgroups_n = 2;
  s.first.block_n = 128;
  s.block_m = 64;
  ExpectRefused(p, s,
                {{[](Schedule& c) { c.block_m = 40; },
                  "block_m 40 is not a multiple of 64, with transposed rows"}});
}

// Nothing but a bias and a quick activation takes registers in addition to the sums.
TEST(CheckSchedule, BareSwappedProductsHaveWiderTiles) {
  const ProductSequence p = MakeSequence(768, MakeProduct(1024, 512, Activation::kSilu));
  Schedule s = SampleSwapped();
  s.block_m = 184;
  s.block_k = 64;
  s.stages = 4;
  s.cluster = 1;
  s.warpgroups_n = 2;
  s.first = {256, 1};
  s.grid = 20;
  EXPECT_OK(CheckSchedule(p, s, *BuiltinModel("h200")));
  ExpectRefused(p, s,
                {{[](Schedule& wider) { wider.block_m = 192; },
                  "first accumulators 192 is above 184 registers a thread"}});
  const ProductSequence slow = MakeSequence(768, MakeProduct(1024, 512, Activation::kGeluErf));
  EXPECT_EQ(CheckSchedule(slow, s, *BuiltinModel("h200")).message(),
            "schedule: first accumulators 184 is above 104 registers a thread");
}

TEST(CheckSchedule, SwappedOperandsRefusalsNameFieldValueAndBound) {
  const ProductSequence p = SampleSwappedProblem();
  ExpectRefused(
      p, SampleSwapped(),
      {{[](Schedule& s) { s.warpgroups_m = 2; }, "warpgroups_m 2 is not 1 with swapped operands"},
       {[](Schedule& s) { s.warpgroups_n = 4; }, "warpgroups_n 4 is not in 1..3 with swapped"},
       {[](Schedule& s) { s.block_m = 44; }, "block_m 44 is not a multiple of 8 in 8..256"},
       {[](Schedule& s) { s.block_m = 264; }, "block_m 264 is not a multiple of 8 in 8..256"},
       {[](Schedule& s) { s.first.block_n = 64; }, "first.block_n 64 is not a multiple of 64 per"},
       {[](Schedule& s) { s.block_m = 200; }, "first accumulators 200 is above 160"},
       {[](Schedule& s) { s.dataflow = Dataflow::kGridExchange; }, "cannot take 1 product"}});
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
  ASSERT_TRUE(CheckSchedule(p, s, model).ok()) << CheckSchedule(p, s, model);
  ExpectRefused(p, s,
                {{[](Schedule& c) { c.pushes = 1; }, "pushes 1 is not 0, nor 2 to 8 ranks"},
                 {[](Schedule& c) { c.pushes = 9; }, "pushes 9 is not 0, nor 2 to 8 ranks"},
                 {[](Schedule& c) { c.block_m -= 8; }, "rows in tiles of"}});
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
  EXPECT_TRUE(CheckSchedule(p, s, *BuiltinModel("h200")).ok());
}

TEST(CheckSchedule, PairsThatShareLoadsRefusalsNameFieldValueAndBound) {
  ProductSequence p = FirstOf(SampleGated());
  p.m = 300;  // 3 row tiles, 2 pairs
  Schedule s = SampleProduct(p, 48, 1);
  s.cluster = 2;
  s.share = Share::kWeights;
  s.grid = 128;
  ExpectRefused(p, s,
                {{[](Schedule& s) { s.grid = 258; }, "grid 258 is above the 256 blocks with work"},
                 {[](Schedule& s) { s.cluster = 4; }, "cluster 4 is not first.split_k 1 for"},
                 {[](Schedule& s) { s.first.block_n = 40; },
                  "first.block_n 40 is not a multiple of 16 per warpgroup"},
                 {[](Schedule& s) { s.share = static_cast<Share>(3); }, "share 3 is not 0 to 2"}});
  s.share = Share::kRows;
  ExpectRefused(p, s,
                {{[](Schedule& s) { s.grid = 194; }, "grid 194 is above the 192 blocks with work"},
                 {[](Schedule& s) { s.block_m = 120; }, "block_m 120 is not a multiple of 16"}});
  Schedule chain = SampleGridExchange();
  ExpectRefused(
      SampleGated(), chain,
      {{[](Schedule& s) { s.share = Share::kRows; }, "share 2 is not 0 in grid-exchange"}});
}

TEST(CheckSchedule, ThreeWarpgroupsTakeNarrowTilesOfOneProduct) {
  ProductSequence p = FirstOf(SampleGated());
  p.m = 192;
  Schedule s{.dataflow = Dataflow::kProduct,
             .block_m = 192,
             .warpgroups_m = 3,
             .block_k = 64,
             .stages = 4,
             .grid = 8,
             .first = {72, 1}};
  EXPECT_TRUE(CheckSchedule(p, s, *BuiltinModel("h200")).ok());
  ExpectRefused(
      p, s,
      {{[](Schedule& s) { s.block_m = 128; }, "block_m 128 is not a multiple of 8 in 136"},
       {[](Schedule& s) { s.first.block_n = 80; }, "accumulators 80 is above 72"},
       {[](Schedule& s) { s.warpgroups_m = 4; }, "warpgroups_m 4 is not in 1..3"}});
  SetResidual(&p, Residual::kAdded);
  s.first.block_n = 48;
  ExpectRefused(p, s, {{[](Schedule& s) { s.first.block_n = 56; }, "accumulators 56 is above 48"}});
}

TEST(CheckSchedule, ClusterExchangeMustCoverBothColumnRanges) {
  ProductSequence p = SampleGated();
  SetPair(&p, false);
  SetColumns(&p, 0, 512);
  p[0].k = 416;
  p[1].n = 256;
  Schedule s{.dataflow = Dataflow::kClusterExchange,
             .block_m = 16,
             .warpgroups_m = 1,
             .cluster = 8,
             .grid = 64,
             .first = {64, 1},
             .second = {32, 1}};
  ExpectRefused(
      p, s,
      {{[](Schedule& s) { s.first.block_n = 56; }, "first.block_n 56 times the cluster"},
       {[](Schedule& s) { s.second.block_n = 24; }, "second.block_n 24 times the cluster"},
       {[](Schedule& s) { s.second.split_k = 2; }, "second.split_k 2 is not 1"},
       {[](Schedule& s) { s.grid = 128; }, "grid 128 is not row tiles * cluster = 64"}});
}

TEST(CheckSchedule, RangesOfNRefusalsNameFieldValueAndBound) {
  const ProductSequence p = SampleRangesProblem();
  ASSERT_TRUE(CheckSchedule(p, SampleRanges(), *BuiltinModel("h200")).ok())
      << CheckSchedule(p, SampleRanges(), *BuiltinModel("h200"));
  ExpectRefused(
      p, SampleRanges(),
      {{[](Schedule& s) { s.cut = 1; }, "ranges 1 is not in 2..240"},
       {[](Schedule& s) { s.cut = 241; }, "ranges 241 is not in 2..240"},
       {[](Schedule& s) { s.dataflow = Dataflow::kGridExchange; },
        "cut 6 is not 0 in grid-exchange"},
       {[](Schedule& s) { s.cut = 5; },
        "first.block_n 32 times the cluster of 4 times ranges 5 is below n 760"},
       {[](Schedule& s) { s.cut = 7; }, "ranges 7 leaves a cluster without a column"},
       {[](Schedule& s) { s.first.block_n = 40; },
        "first.block_n 40 times the cluster of 4 is not a multiple of block_k 64"},
       {[](Schedule& s) { s.block_m = 8, s.second.block_n = 248; },
        "times the cluster of 4 is below"},
       {[](Schedule& s) { s.grid = 52; }, "grid 52 is not row tiles * cluster * ranges = 48"}});
  ProductSequence wide = p;
  wide.m = 384;  // 6 row tiles: 144 blocks, 120 are resident
  Schedule s = SampleRanges();
  s.grid = 144;
  EXPECT_NE(CheckSchedule(wide, s, *BuiltinModel("h200"))
                .message()
                .find("grid 144 is above the 120 blocks in clusters of 4"),
            absl::string_view::npos)
      << CheckSchedule(wide, s, *BuiltinModel("h200"));
  EXPECT_TRUE(CheckScheduleFields(wide, s).ok());
}

TEST(CheckSchedule, SlabRefusalsNameFieldValueAndBound) {
  ProductSequence p = SampleRangesProblem();
  Schedule s = SampleRanges();
  s.dataflow = Dataflow::kClusterSlab;
  s.grid = 8;
  s.stages = 2;
  s.first.block_n = 192;
  s.cut = 256;
  ASSERT_TRUE(CheckSchedule(p, s, *BuiltinModel("h200")).ok())
      << CheckSchedule(p, s, *BuiltinModel("h200"));
  EXPECT_FALSE(IsCooperative(s));
  ExpectRefused(
      p, s,
      {{[](Schedule& s) { s.cut = 96; }, "slab 96 is not a multiple of block_k 64 below n 760"},
       {[](Schedule& s) { s.cut = 768; }, "slab 768 is not a multiple"},
       {[](Schedule& s) { s.cut = -64; }, "slab -64 is not a multiple"},
       {[](Schedule& s) { s.cut = 0; }, "slab 0 is not a multiple"},
       {[](Schedule& s) { s.cluster = 1; }, "cluster 1 is not above 1 in cluster-slab"},
       {[](Schedule& s) { s.dataflow = Dataflow::kGridExchange; },
        "cut 256 is not 0 in grid-exchange"}});
}

TEST(CheckSchedule, SpatialGateRefusalsNameFieldValueAndBound) {
  ProductSequence p = SampleGated();
  SetColumns(&p, 0, 1024);
  Schedule s{.dataflow = Dataflow::kSpatialGate,
             .block_m = 16,
             .warpgroups_m = 1,
             .block_k = 64,
             .stages = 2,
             .cluster = 16,
             .grid = 128,
             .first = {128, 1},
             .second = {64, 1}};
  ASSERT_TRUE(CheckSchedule(p, s, *BuiltinModel("h200")).ok())
      << CheckSchedule(p, s, *BuiltinModel("h200"));
  ExpectRefused(p, s,
                {{[](Schedule& s) { s.first.block_n = 64; },
                  "first.block_n 64 times the cluster of 16 in pairs is below n 1024"},
                 {[](Schedule& s) { s.cut = 512; }, "cut 512 is not 0 in spatial-gate"},
                 {[](Schedule& s) { s.cluster = 1; }, "cluster 1 is not above 1 in spatial-gate"}});
  SetPair(&p, false);
  EXPECT_NE(CheckSchedule(p, s, *BuiltinModel("h200"))
                .message()
                .find("dataflow 6 (spatial-gate) needs a gate"),
            absl::string_view::npos);
}

TEST(CheckSchedule, LayoutIoTakesColumnsInSixtyFoursPerWarpgroup) {
  ProductSequence p = SampleGated();
  SetLayout(&p, Layout::kIO);
  Schedule s = SampleGridExchange();
  s.first = {64, 1};
  s.second = {64, 4};
  s.stages = 2;
  ExpectRefused(p, s,
                {{[](Schedule& s) { s.first.block_n = 72; }, "multiple of 64 per warpgroup"}});
  s.warpgroups_m = 1;
  s.warpgroups_n = 2;
  s.block_m = 64;
  EXPECT_FALSE(CheckSchedule(p, s, *BuiltinModel("h200")).ok());
  s.first.block_n = s.second.block_n = 128;
  EXPECT_TRUE(CheckSchedule(p, s, *BuiltinModel("h200")).ok());
}

TEST(CheckSchedule, ReadyFlagsFitTheWorkspaceHeader) {
  ProductSequence p = SampleGated();
  p.m = 8192;
  SetColumns(&p, 0, 65536);
  SetPair(&p, false);
  Schedule s = SampleGridExchange();
  s.first.block_n = 8;
  const absl::Status status = CheckSchedule(p, s, *BuiltinModel("h200"));
  EXPECT_NE(status.message().find("flag bytes 2098176 is above 65472"), absl::string_view::npos)
      << status;
}

// Added terms need registers if eight ranks' parts are summed in addition to 128 accumulators.
TEST(CheckSchedule, ResidualsBoundTheTilesOfManyParts) {
  ProductSequence p = SampleGated();
  Schedule s = SampleGridExchange();
  s.cluster = 8;
  s.second = {256, 8};
  s.stages = 2;
  ASSERT_TRUE(CheckScheduleFields(p, s).ok()) << CheckScheduleFields(p, s);
  SetResidual(&p, Residual::kAdded);
  EXPECT_EQ(CheckScheduleFields(p, s).message(),
            "schedule: second accumulators 128 is above 112 registers a thread");
  s.cluster = 4;
  s.second = {256, 4};
  EXPECT_TRUE(CheckScheduleFields(p, s).ok()) << CheckScheduleFields(p, s);
}

// Loads of single elements need registers in addition to sums that threads keep. Kernels spilled
// with one sum more of those that tiles can have.
TEST(CheckSchedule, WhatIsLoadedElementByElementTakesNarrowerTiles) {
  Schedule s{.dataflow = Dataflow::kProduct,
             .block_m = 64,
             .warpgroups_m = 1,
             .block_k = 128,
             .stages = 2,
             .cluster = 1,
             .grid = 1,
             .first = {160, 1}};
  ProductSequence codes = MakeSequence(64, MakeProduct(515, 512, Activation::kIdentity));
  SetCodes(&codes, DType::kBF16, ScaleKind::kVector, ScaleKind::kVector, DType::kS8);
  const auto widen = [](int block_n) {
    return [=](Schedule& wider) { wider.first.block_n = block_n; };
  };
  ExpectRefused(codes, s, {{widen(176), "first accumulators 88 is above 80 registers a thread"}});
  codes[0].result = DType::kF32;
  EXPECT_TRUE(CheckScheduleFields(codes, s).ok()) << CheckScheduleFields(codes, s);
  codes[0].result = DType::kBF16;
  s.block_m = 128;
  s.warpgroups_m = 2;
  s.first = {144, 1};
  ExpectRefused(codes, s, {{widen(160), "first accumulators 80 is above 72 registers a thread"}});

  ProductSequence residual = MakeSequence(64, MakeProduct(6857, 704, Activation::kGeluTanh));
  SetResidual(&residual, Residual::kAddedRounded);
  s.block_k = 64;
  s.first = {224, 1};
  ExpectRefused(residual, s,
                {{widen(256), "first accumulators 128 is above 112 registers a thread"}});
  s.first = {256, 1};
  SetActivation(&residual, Activation::kRelu);
  EXPECT_TRUE(CheckScheduleFields(residual, s).ok()) << CheckScheduleFields(residual, s);
  SetActivation(&residual, Activation::kGeluTanh);
  residual[0].n = 6856;
  EXPECT_TRUE(CheckScheduleFields(residual, s).ok()) << CheckScheduleFields(residual, s);

  ProductSequence pair = MakeSequence(64, MakeProduct(5886, 2304, Activation::kGeluTanh, true));
  SetCodes(&pair, DType::kBF16, ScaleKind::kVector, ScaleKind::kVector, DType::kS8);
  SetResidual(&pair, Residual::kAdded);
  s.block_k = 128;
  s.first = {80, 1};
  ExpectRefused(pair, s, {{widen(96), "first accumulators 96 is above 80 registers a thread"}});
}

// As in other dataflows: GELU by erf spilled together with 96 sums with factors.
TEST(CheckSchedule, SlowFunctionsBehindFactorsTakeNarrowerTilesOfAClusterToo) {
  ProductSequence p = MakeSequence(128, MakeProduct(576, 768, Activation::kGeluErf), 576);
  Schedule s{.dataflow = Dataflow::kClusterExchange,
             .block_m = 8,
             .warpgroups_m = 1,
             .cluster = 4,
             .grid = 64};
  s.first = s.second = {144, 1};
  const auto widen = [](Schedule& wider) { wider.first.block_n = 192; };
  SetFactor(&p, 0, RowFactor::kF32);
  ExpectRefused(p, s, {{widen, "first accumulators 96 is above 88 registers a thread"}});
  SetColumnScale(&p, 0, DType::kF32);
  ExpectRefused(p, s, {{widen, "first accumulators 96 is above 72 registers a thread"}});
  SetActivation(&p, Activation::kRelu);
  widen(s);
  EXPECT_TRUE(CheckScheduleFields(p, s).ok()) << CheckScheduleFields(p, s);
}

// A second result in addition to 128 sums of the only warpgroup spilled.
TEST(CheckSchedule, AuxiliaryResultsOfOneWarpgroupTakeNarrowerTiles) {
  ProductSequence p = MakeSequence(64, MakeProduct(1024, 512, Activation::kIdentity));
  p[0].epilogue.program = ProgramOf(
      std::make_shared<const Chain>(ReadChain("y: f32[2]; out bf16(sigmoid(y)), bf16(y)")),
      {LeafKind::kValue});
  Schedule s{.dataflow = Dataflow::kProduct,
             .block_m = 64,
             .warpgroups_m = 1,
             .block_k = 64,
             .stages = 2,
             .cluster = 1,
             .grid = 1,
             .first = {240, 1}};
  const auto widen = [](Schedule& wider) { wider.first.block_n = 256; };
  ExpectRefused(p, s, {{widen, "first accumulators 128 is above 120 registers a thread"}});
  s.block_m = 128;
  s.warpgroups_m = 2;
  widen(s);
  EXPECT_TRUE(CheckScheduleFields(p, s).ok()) << CheckScheduleFields(p, s);
}

}  // namespace
}  // namespace sinter
