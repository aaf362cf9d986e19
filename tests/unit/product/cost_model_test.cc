// The cost model against figures measured on an H200 with an independent kernel of the same
// dataflow (M = 128, bf16, layout oi, cold weights, plain graph edges), and against properties that
// any honest model has.
#include "src/product/search/product_load.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_kernels.h"
#include "tests/unit/product/problems.h"

namespace sinter {
namespace {

struct Measured {
  const char* id;
  ProductSequence problem;
  int first_columns, second_columns, split, grid, stages;
  double us;
};

const Measured kMeasured[] = {
    {"G9", Ffn(false, 2048, 512, 512), 24, 24, 4, 88, 4, 8.73},
    {"G4", Ffn(false, 3072, 768, 768), 32, 32, 4, 96, 4, 10.69},
    {"G6", Ffn(false, 4096, 1024, 1024), 40, 40, 4, 104, 4, 13.01},
    {"S8", Ffn(true, 3072, 1024, 1024), 24, 16, 2, 128, 4, 13.83},
    {"G8", Ffn(false, 8192, 2048, 2048), 72, 72, 4, 116, 3, 28.36},
    {"S2", Ffn(true, 5632, 2048, 2048), 56, 72, 4, 116, 3, 28.56},
    {"G5", Ffn(false, 16384, 4096, 4096), 128, 64, 2, 128, 3, 79.82},
};

Schedule ScheduleOf(const Measured& m) {
  return Schedule{.dataflow = Dataflow::kGridExchange,
                  .stages = m.stages,
                  .cluster = m.split,
                  .grid = m.grid,
                  .first = {m.first_columns, 1},
                  .second = {m.second_columns, m.split}};
}

// Spearman's rank correlation of two lists without ties.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto rank = [](const std::vector<double>& v, size_t i) {
    return std::count_if(v.begin(), v.end(), [&](double x) { return x < v[i]; });
  };
  double d2 = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const double d = static_cast<double>(rank(a, i) - rank(b, i));
    d2 += d * d;
  }
  const auto n = static_cast<double>(a.size());
  return 1 - 6 * d2 / (n * (n * n - 1));
}

// One read of a matrix of the result's extents, in every dataflow.
TEST(CostModel, AResidualIsOneReadOfItsBytes) {
  const DeviceModel model = *BuiltinModel("h200");
  const ProductSequence chain = Ffn(true, 3072, 1024, 1024), product = SecondOf(chain);
  for (const ProductSequence& plain : {chain, product}) {
    const auto found = Got(SearchSchedules(plain, model, {}));
    ProductSequence added = plain;
    SetResidual(&added, Residual::kAdded);
    for (const RankedSchedule& ranked : found.ranked) {
      const Prediction p = Predict(added, ranked.schedule, model);
      EXPECT_EQ(p.hbm_bytes, ranked.prediction.hbm_bytes + 2.0 * 128 * 1024);
      EXPECT_EQ(p.l2_bytes, ranked.prediction.l2_bytes + 2.0 * 128 * 1024);
      EXPECT_GE(p.total_us, ranked.prediction.total_us);
      EXPECT_LT(p.total_us, ranked.prediction.total_us + 1) << "less than a kernel of its own";
    }
  }
}

// HBM is read once for each, L2 once for each row tile; nothing like a kernel of its own.
TEST(CostModel, ScalesOfColumnsAreReadByEveryRowTile) {
  const DeviceModel model = *BuiltinModel("h200");
  const ProductSequence chain = Ffn(true, 3072, 1024, 1024);
  SearchOptions all{.offered = Offered::kTuning};
  for (const ProductSequence& plain : {chain, FirstOf(chain)}) {
    const auto found = Got(SearchSchedules(plain, model, all));
    ProductSequence scaled = plain;
    SetColumnScale(&scaled, 0, DType::kF32);
    for (const RankedSchedule& ranked : found.ranked) {
      const Prediction p = Predict(scaled, ranked.schedule, model);
      const double bytes = 2 * 4.0 * 3072;  // gate's and up's
      EXPECT_EQ(p.hbm_bytes, ranked.prediction.hbm_bytes + bytes) << ranked.schedule.ToString();
      EXPECT_GE(p.l2_bytes, ranked.prediction.l2_bytes + bytes);
      const auto tiles =
          static_cast<double>((128 + ranked.schedule.block_m - 1) / ranked.schedule.block_m);
      EXPECT_LE(p.l2_bytes, ranked.prediction.l2_bytes + tiles * bytes);
      EXPECT_GT(p.total_us, ranked.prediction.total_us);
      EXPECT_LT(p.total_us, ranked.prediction.total_us + 1);
    }
  }
}

TEST(CostModel, PredictsTheMeasuredGridExchangeWithinAQuarter) {
  const DeviceModel model = *BuiltinModel("h200");
  std::vector<double> predicted, measured;
  for (const Measured& m : kMeasured) {
    const Schedule s = ScheduleOf(m);
    ASSERT_TRUE(CheckSchedule(m.problem, s, model).ok()) << CheckSchedule(m.problem, s, model);
    const Prediction p = Predict(m.problem, s, model);
    EXPECT_GT(p.total_us, 0.75 * m.us) << m.id;
    EXPECT_LT(p.total_us, 1.25 * m.us) << m.id;
    predicted.push_back(p.total_us);
    measured.push_back(m.us);
  }
  EXPECT_GT(RankCorrelation(predicted, measured), 0.9);
}

TEST(CostModel, CombineIsAtLeastTheLargestLevelAndAtMostHalfMore) {
  EXPECT_DOUBLE_EQ(Combine({3, 0, 0, 0, 0}), 3);
  const double equal = Combine({2, 2, 2, 2, 2});
  EXPECT_GT(equal, 2);
  EXPECT_LT(equal, 3);
  EXPECT_LT(Combine({10, 1, 1, 1, 1}), 10.01);
}

TEST(CostModel, CountsBytesOfEveryLevel) {
  const Measured& m = kMeasured[3];  // S8: 128 blocks, 24 gate and up columns each
  const DeviceModel model = *BuiltinModel("h200");
  const Schedule s = ScheduleOf(m);
  const ProductLoad load = LoadOf(FirstDims(m.problem, s), m.problem, s, s.first, s.grid, model);
  EXPECT_EQ(load.turns, 1);
  EXPECT_EQ(load.busy_blocks, 128);
  EXPECT_EQ(load.steps, 8);
  EXPECT_EQ(load.block_bytes, 1024 * 2 * (128 + 48));
  EXPECT_EQ(load.total_bytes, 128 * load.block_bytes);
  EXPECT_EQ(load.hbm_bytes, 2.0 * (2 * 3072 * 1024 + 128 * 1024));
  // A stage: 128 + 48 rows of 256 bytes written, twice 64 + 48 rows read.
  EXPECT_EQ(load.shared_bytes, 8 * 256.0 * (176 + 2 * 112));
  EXPECT_EQ(load.flop, 2.0 * 128 * 48 * 1024);
  const ProductLoad second =
      LoadOf(SecondDims(m.problem, s), m.problem, s, s.second, s.grid, model);
  EXPECT_EQ(second.steps, 12);
  EXPECT_EQ(second.hbm_bytes, 2.0 * 3072 * 1024) << "C stays in L2";
}

// What a kernel's products take of each level; of distributed shared memory, what its clusters
// send.
struct LevelBytesOf {
  double hbm = 0, l2 = 0, intake = 0, shared = 0, dsm = 0;

  LevelBytesOf(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
    Add(LoadOf(FirstDims(p, s), p, s, s.first, s.grid, model));
    if (p.size() == 2) Add(LoadOf(SecondDims(p, s), p, s, s.second, s.grid, model));
    dsm = Predict(p, s, model).dsm_bytes;
  }
  void Add(const ProductLoad& load) {
    hbm += load.hbm_bytes + load.result.bytes;
    l2 += load.total_bytes + load.result.bytes;
    intake += load.intake_bytes;
    shared += load.shared_bytes;
  }
};

// Three types of a step of bytes each: an operand's of 0, 1 and 2 (pred has no row in the table), a
// result's of 1, 2 and 4.
struct Steps {
  DType none, one, two;
  double second = 1;  // the second step in units of the first
};
constexpr Steps kOperand = {DType::kPred, DType::kE4M3, DType::kBF16, 1};
constexpr Steps kResult = {DType::kE4M3, DType::kBF16, DType::kF32, 2};

// `set` makes one operand or result of the sequence of a type; `levels` are those that it touches.
template <typename Set>
void ExpectBytesFollow(const Steps& steps, const ProductSequence& p, const Schedule& s,
                       const std::string& levels, const Set& set) {
  const DeviceModel model = *BuiltinModel("h200");
  const auto with = [&](DType element) {
    ProductSequence changed = p;
    set(&changed, element);
    return LevelBytesOf(changed, s, model);
  };
  const LevelBytesOf none = with(steps.none), one = with(steps.one), two = with(steps.two);
  const std::pair<const char*, double LevelBytesOf::*> all[] = {
      {"hbm", &LevelBytesOf::hbm},       {"l2", &LevelBytesOf::l2},
      {"intake", &LevelBytesOf::intake}, {"shared", &LevelBytesOf::shared},
      {"dsm", &LevelBytesOf::dsm},
  };
  std::string touched;
  for (const auto& [name, level] : all) {
    EXPECT_EQ(steps.second * (one.*level - none.*level), two.*level - one.*level) << name;
    if (two.*level > none.*level) touched += std::string(name) + " ";
  }
  EXPECT_EQ(touched, levels) << s.ToString();
}

TEST(CostModel, BytesFollowTheSizeOfAnElementOnEveryLevel) {
  const auto rows = [](ProductSequence* p, DType element) {
    (*p)[0].rows.element = element;
    (*p)[0].accumulate = Accumulate::kFast;  // each part of promoted sums reads the rows again
  };
  const auto weights = [](ProductSequence* p, DType element) { (*p)[0].weights.element = element; };
  const auto second = [](ProductSequence* p, DType element) { (*p)[1].weights.element = element; };
  const auto result = [](ProductSequence* p, DType element) {
    p->products.back().result = element;
  };
  const auto c = [](ProductSequence* p, DType element) { (*p)[0].result = element; };
  const auto c_read = [](ProductSequence* p, DType element) { (*p)[1].rows.element = element; };
  const ProductSequence s8 = Ffn(true, 3072, 1024, 1024), one = FirstOf(s8);
  const Schedule grid = ScheduleOf(kMeasured[3]);
  ExpectBytesFollow(kOperand, s8, grid, "hbm l2 intake shared ", rows);
  ExpectBytesFollow(kOperand, s8, grid, "hbm l2 intake shared ", weights);
  ExpectBytesFollow(kOperand, s8, grid, "hbm l2 intake shared ", second);
  ExpectBytesFollow(kOperand, s8, grid, "l2 intake shared ", c_read);  // it stays in L2
  ExpectBytesFollow(kResult, s8, grid, "hbm l2 ", result);
  Schedule cluster = grid;
  cluster = With(cluster, "cluster-exchange bm16 wg1x cl16 grid128 first 192/1 second 64/1");
  ExpectBytesFollow(kOperand, s8, cluster, "hbm l2 intake shared ", weights);
  ExpectBytesFollow(kResult, s8, cluster, "dsm ", c);  // it never leaves the cluster
  ExpectBytesFollow(kOperand, s8, cluster, "shared ", c_read);
  for (const bool swapped : {false, true}) {
    Schedule s = grid;
    s.dataflow = Dataflow::kProduct;
    s.swapped = swapped;
    s.warpgroups_m = swapped ? 1 : 2;
    s.warpgroups_n = swapped ? 2 : 1;
    s.cluster = 1;
    s.first = {128, 1};
    ExpectBytesFollow(kOperand, one, s, "hbm l2 intake shared ", rows);
    ExpectBytesFollow(kOperand, one, s, "hbm l2 intake shared ", weights);
  }
}

// Zeros after a tap's channels cost stages and tensor cores what channels cost. They cost no
// memory.
// Fast sums take only the tensor cores' time, at the rate of operands of 8 bits.
TEST(CostModel, FastSumsHaveNoInstructionsOfPromotion) {
  const DeviceModel model = *BuiltinModel("h200");
  ProductSequence p = FirstOf(Ffn(false, 4096, 4096, 1024));
  p.m = 1024;
  SetCodes(&p, DType::kBF16, ScaleKind::kVector, ScaleKind::kVector);
  Schedule s = ReadSchedule("product bm128 wg1x1 bk128 st4 first 128/1");
  const auto load = [&] { return LoadOf(FirstDims(p, s), p, s, s.first, 128, model); };
  const ProductLoad promoted = load();
  p[0].accumulate = Accumulate::kFast;
  const ProductLoad fast = load();
  EXPECT_GT(promoted.promoted_values, 0);
  EXPECT_EQ(fast.promoted_values, 0);
  EXPECT_EQ(fast.flop, promoted.flop);
  const double stage = 32768;
  const LevelTimes slow = TimesOf(promoted, s, stage, model),
                   quick = TimesOf(fast, s, stage, model);
  const double rate = model.tensor_fp8_flop_per_us / model.sm_count;
  const double between = static_cast<double>(fast.steps) * model.lone_step_us;
  EXPECT_DOUBLE_EQ(quick.tensor, fast.flop / rate + between);
  EXPECT_DOUBLE_EQ(slow.tensor - quick.tensor, promoted.promoted_values / model.clock_mhz);
  EXPECT_EQ(slow.hbm, quick.hbm);
}

TEST(CostModel, PaddedTapsTakeWholeSubtiles) {
  const Schedule s = SampleC6Schedule(Dataflow::kProduct);
  const auto predicted = [&](int64_t channels) {
    return Predict(FirstOf(SampleC6(channels)), s, *BuiltinModel("h200"));
  };
  const Prediction few = predicted(40), whole = predicted(64);
  EXPECT_EQ(few.tensor_us, whole.tensor_us);
  EXPECT_EQ(few.shared_us, whole.shared_us);
  EXPECT_LT(few.hbm_bytes, whole.hbm_bytes);
  EXPECT_LT(predicted(64).tensor_us, predicted(72).tensor_us);
}

// 100352 rows of 512 bytes, more than L2 keeps: as many turns as there are, one column of tiles
// reads them once. Two columns of pairs that run in a band of the walk share them in L2.
TEST(CostModel, RowsBeyondL2AreReadOnceWhereOneColumnReadsThem) {
  const DeviceModel model = *BuiltinModel("h200");
  ProductSequence p = MakeSequence(32, MakeProduct(64, 256));
  p.rows_per_m = 3136;
  Schedule s = ReadSchedule("product bm128 wg2x1 bk64 st4 grid132 first 64/1");
  const double weights = 2.0 * 64 * 256, rows = 2.0 * 100352 * 256;
  EXPECT_EQ(Predict(p, s, model).hbm_bytes, weights + rows);
  p[0].n = 128;
  EXPECT_EQ(Predict(p, s, model).hbm_bytes, 2 * weights + rows);
}

// L2 serves equal loads of neighbours once if all tiles run at one time, and over several turns if
// almost all row tiles are in whole bands. Blocks that split K make no equal loads.
TEST(CostModel, L2ServesEqualLoadsOfNeighboursOnce) {
  const auto l2_us_of_a_row = [](int64_t m, int split, int block_m = 64) {
    ProductSequence p = MakeSequence(m, MakeProduct(1024, 4096));
    Schedule s{.dataflow = Dataflow::kProduct,
               .block_m = block_m,
               .warpgroups_m = block_m / 64,
               .block_k = 128,
               .stages = 4,
               .cluster = split,
               .first = {128, split}};
    s.grid = static_cast<int>(std::min<int64_t>(132 / split, SizesOf(p, s).units)) * split;
    return Predict(p, s, *BuiltinModel("h200")).l2_us / static_cast<double>(m);
  };
  const double alike = l2_us_of_a_row(1024, 1);
  EXPECT_LT(l2_us_of_a_row(960, 1), 1.1 * alike);  // 15 row tiles: bands of 4, 4, 4 and 3
  EXPECT_LT(alike, 0.5 * l2_us_of_a_row(1024, 2));
  EXPECT_LT(l2_us_of_a_row(3328, 1, 128), 0.5 * l2_us_of_a_row(2816, 1, 128));  // 26 tiles, and 22
}

// 128 blocks are dealt out evenly to groups of SMs, 132 are not. Later turns even that out.
TEST(CostModel, MoreBlocksThanGroupsShareEvenlyTakeLongerFromL2) {
  const auto l2_us = [](int64_t row_tiles, int64_t column_tiles, double share) {
    DeviceModel model = *BuiltinModel("h200");
    model.l2_uneven_share = share;
    const ProductSequence p = MakeSequence(64 * row_tiles, MakeProduct(128 * column_tiles, 4096));
    return Predict(p,
                   {.dataflow = Dataflow::kProduct,
                    .block_m = 64,
                    .block_k = 128,
                    .stages = 4,
                    .grid = static_cast<int>(std::min<int64_t>(132, row_tiles * column_tiles)),
                    .first = {128, 1}},
                   model)
        .l2_us;
  };
  EXPECT_DOUBLE_EQ(l2_us(11, 12, 1.25), 1.25 * l2_us(11, 12, 1));
  EXPECT_EQ(l2_us(8, 16, 1.25), l2_us(8, 16, 1));
  EXPECT_EQ(l2_us(22, 12, 1.25), l2_us(22, 12, 1));
}

// A block of a pair refills a stage when both have read it, and their weights come apart.
TEST(CostModel, PairsThatShareRowsStreamWeightsSlower) {
  const auto hbm_us = [](Share share, double loss) {
    DeviceModel model = *BuiltinModel("h200");
    model.hbm_pair_loss = loss;
    const ProductSequence p = MakeSequence(64, MakeProduct(4096, 4096));
    return Predict(p,
                   {.dataflow = Dataflow::kProduct,
                    .block_m = 64,
                    .block_k = 128,
                    .stages = 6,
                    .cluster = share == Share::kNone ? 1 : 2,
                    .share = share,
                    .grid = 128,
                    .first = {32, 1}},
                   model)
        .hbm_us;
  };
  EXPECT_DOUBLE_EQ(hbm_us(Share::kRows, 0.25), 1.25 * hbm_us(Share::kRows, 0));
  EXPECT_EQ(hbm_us(Share::kNone, 0.25), hbm_us(Share::kNone, 0));
}

// 120 columns of bf16 are 7.5 sectors, 112 are 7.
TEST(CostModel, TilesThatEndWithinASectorStoreSlower) {
  const auto total_us = [](int columns, double loss, bool swapped) {
    DeviceModel model = *BuiltinModel("h200");
    model.half_sector_loss = loss;
    const ProductSequence p = MakeSequence(512, MakeProduct(3360, 1024));
    Schedule s{.dataflow = Dataflow::kProduct, .block_m = 128, .warpgroups_m = 2};
    s.stages = 4, s.grid = 112, s.first = {columns, 1};
    if (swapped) s.swapped = true, s.warpgroups_m = 1, s.block_m = columns, s.first = {64, 1};
    return Predict(p, s, model).total_us;
  };
  EXPECT_GT(total_us(120, 1, false), 1.01 * total_us(120, 0, false));
  EXPECT_EQ(total_us(112, 1, false), total_us(112, 0, false));
  EXPECT_EQ(total_us(120, 1, true), total_us(120, 0, true));
}

TEST(CostModel, EndsOfThreeWarpgroupsFollowOneAnother) {
  const DeviceModel model = *BuiltinModel("h200");
  const ProductSequence p = MakeSequence(1024, MakeProduct(768, 512, Activation::kGeluErf));
  const auto compute_us = [&](int warpgroups) {
    Schedule s;
    s.swapped = true;
    s.block_m = 104;
    s.warpgroups_m = 1;
    s.warpgroups_n = warpgroups;
    s.first = {64 * warpgroups, 1};
    return ComputeUs(p[0], s, s.first, model);
  };
  EXPECT_EQ(compute_us(2), compute_us(1));
  EXPECT_DOUBLE_EQ(compute_us(3), 3 * compute_us(1));
}

// Blocks of a convolution are in step on weights, not on windows of pixels; nor is a pair of
// blocks, which shares them already.
TEST(CostModel, L2ServesEqualWeightsOfConvolutionsOnce) {
  const DeviceModel model = *BuiltinModel("h100");
  ProductSequence p = FirstOf(SampleC6(128));
  p.m = 8;
  Schedule s = SampleC6Schedule(Dataflow::kProduct);
  s.cluster = s.first.split_k = 1;
  const auto model_of = [&](double merged) {
    DeviceModel other = model;
    other.l2_merged_share = merged;
    return Predict(p, s, other).l2_us;
  };
  const double none = model_of(1), half = model_of(0.5);
  EXPECT_GT(Predict(p, s, model).out_of_step_us, 0);
  EXPECT_LT(half, none);
  EXPECT_GT(half, 0.5 * none) << "pixels are read anew";
  s.share = Share::kWeights;
  s.cluster = 2;
  EXPECT_EQ(model_of(1), model_of(0.5));
}

// A kernel after another one starts block by block, so that neighbours are not in step.
TEST(CostModel, BlocksBehindAnotherKernelAreNotInStep) {
  const DeviceModel model = *BuiltinModel("h100");
  const ProductSequence p = MakeSequence(1024, MakeProduct(1024, 4096));
  Schedule s = ReadSchedule("product bm64 wg1x1 bk128 st4 first 128/1");
  s.grid = static_cast<int>(SizesOf(p, s).units);
  const Prediction in_step = Predict(p, s, model);
  EXPECT_GT(in_step.out_of_step_us, 1);
  const Prediction behind = BehindProgrammaticEdge(in_step, model);
  EXPECT_DOUBLE_EQ(behind.total_us,
                   in_step.total_us + in_step.out_of_step_us - model.programmatic_edge_us);
  EXPECT_EQ(behind.out_of_step_us, 0);
  s.cluster = 2;
  s.first.split_k = 2;
  s.grid *= 2;
  EXPECT_EQ(Predict(p, s, model).out_of_step_us, 0);
}

// C of 51 MB stays in the clusters.
TEST(CostModel, RowsThatAClusterKeepsDoNotComeFromHbm) {
  ProductSequence p = MakeSequence(32, MakeProduct(256, 64), 64);
  p.rows_per_m = 3136;
  EXPECT_EQ(
      Predict(p,
              ReadSchedule("cluster-exchange bm128 wg2x1 bk64 st3 grid784 first 256/1 second 64/1"),
              *BuiltinModel("h200"))
          .hbm_bytes,
      2.0 * (100352 + 2 * 256) * 64);
}

// A cluster of one block stores C in its own memory: each KB takes time.
TEST(CostModel, AClusterOfOneBlockPaysForItsExchange) {
  DeviceModel model = *BuiltinModel("h200");
  const ProductSequence p = MakeSequence(128, MakeProduct(512, 64), 64);
  Schedule s = ReadSchedule("cluster-exchange bm32 wg1x2 bk64 st2 grid4 first 512/1 second 64/1");
  const double before = Predict(p, s, model).total_us;
  const double us = 2.0 * 32 * 512 * model.sm_count / model.own_exchange_bytes_per_us;
  model.own_exchange_bytes_per_us /= 2;
  EXPECT_GT(Predict(p, s, model).total_us, before + us / 2);
}

TEST(CostModel, QuantisesByTheBusiestBlock) {
  const DeviceModel model = *BuiltinModel("h200");
  const ProductSequence p = Ffn(false, 2048, 512, 512);
  Schedule s = ScheduleOf(kMeasured[0]);
  const double one_turn = Predict(p, s, model).total_us;
  s.grid = 84;  // 86 tiles on 84 blocks: two blocks take two
  EXPECT_EQ(LoadOf(FirstDims(p, s), p, s, s.first, s.grid, model).turns, 2);
  EXPECT_GT(Predict(p, s, model).total_us, one_turn + 1);
}

TEST(CostModel, SmallerChipsAreSlower) {
  const DeviceModel h200 = *BuiltinModel("h200"), h100 = *BuiltinModel("h100");
  for (const Measured& m : kMeasured) {
    const Schedule s = ScheduleOf(m);
    EXPECT_GE(Predict(m.problem, s, h100).total_us, Predict(m.problem, s, h200).total_us) << m.id;
  }
}

}  // namespace
}  // namespace sinter
