#include "src/product/search/search.h"

#include "src/product/search/space.h"
#include "tests/support/chips.h"
#include "tests/support/test.h"
#include "tests/unit/product/problems.h"

namespace sinter {
namespace {

// The predicted time of the fastest legal schedule of the space.
double FastestUs(const ProductSequence& problem, const DeviceModel& model) {
  double best = std::numeric_limits<double>::infinity();
  EnumerateSpace(problem, model, {}, [&](const Schedule& schedule) {
    if (!CheckSchedule(problem, schedule, model).ok()) return;
    best = std::min(best, Predict(problem, schedule, model).total_us);
  });
  return best;
}

TEST(Search, FindsTheFastestOfTheSpaceForEveryTableProblem) {
  const DeviceModel model = H200();
  for (Layout layout : {Layout::kOI, Layout::kIO}) {
    for (const NamedProblem& np : TableProblems(layout)) {
      for (const ProductSequence& problem :
           {np.problem, FirstOf(np.problem), SecondOf(np.problem)}) {
        const auto found = Got(SearchSchedules(problem, model, {}), np.id);
        EXPECT_EQ(found.ranked[0].prediction.total_us, FastestUs(problem, model)) << np.id;
        EXPECT_EQ(found.ranked.size(), 11u) << np.id;
      }
    }
  }
}

TEST(Search, TakesMilliseconds) {
#if defined(NDEBUG) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  for (const NamedProblem& np : TableProblems(Layout::kOI)) {
    EXPECT_LT(SearchSchedules(np.problem, H200(), {})->search_us, 50e3) << np.id;
  }
#endif
}

TEST(Search, IsDeterministicAndRanksByPredictedTime) {
  const DeviceModel model = H200();
  for (const NamedProblem& np : TableProblems(Layout::kOI)) {
    const auto a = SearchSchedules(np.problem, model, {}),
               b = SearchSchedules(np.problem, model, {});
    ASSERT_EQ(a->ranked.size(), b->ranked.size());
    EXPECT_EQ(a->considered, b->considered);
    EXPECT_EQ(a->legal, b->legal);
    for (size_t i = 0; i < a->ranked.size(); i++) {
      EXPECT_TRUE(a->ranked[i].schedule == b->ranked[i].schedule);
      if (i == 0) continue;
      const RankedSchedule &before = a->ranked[i - 1], &here = a->ranked[i];
      EXPECT_LE(before.prediction.total_us, here.prediction.total_us);
      EXPECT_NE(before.schedule.Canonical(), here.schedule.Canonical());
    }
  }
}

ProductSequence RandomProblem(std::mt19937* rng) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(*rng);
  };
  constexpr int64_t kBuckets[] = {1, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 4096, 8192};
  const bool two = pick(1, 2) == 2, pair = pick(0, 1) == 1, io = pick(0, 1) == 1;
  const int64_t m = kBuckets[pick(0, 13)], n = 8 * pick(1, 1500), k = 8 * pick(1, 800);
  const MatrixProduct first = MakeProduct(n, k, Activation::kIdentity, pair);
  ProductSequence s =
      two ? MakeSequence(m, first, io ? 8 * pick(1, 800) : pick(1, 6000)) : MakeSequence(m, first);
  SetLayout(&s, io ? Layout::kIO : Layout::kOI);
  return s;
}

TEST(Search, NeverRanksAnIllegalSchedule) {
  const DeviceModel model = H200();
  std::mt19937 rng(20261121);
  int without = 0;
  for (int i = 0; i < 300; i++) {
    const ProductSequence p = RandomProblem(&rng);
    SearchOptions options{.top_k = 20, .allow_cooperative = i % 3 != 0};
    const auto result = SearchSchedules(p, model, options);
    if (!result.ok()) {
      EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_TRUE(p.size() == 2 && !options.allow_cooperative) << p.ToString();
      without++;
      continue;
    }
    ASSERT_FALSE(result->ranked.empty());
    for (const RankedSchedule& r : result->ranked) {
      const absl::Status legal = CheckSchedule(p, r.schedule, model);
      EXPECT_TRUE(legal.ok()) << p.ToString() << " " << r.schedule.ToString() << " " << legal;
      EXPECT_GT(r.prediction.total_us, 0);
      if (!options.allow_cooperative) {
        EXPECT_FALSE(IsCooperative(r.schedule));
      }
    }
  }
  EXPECT_LT(without, 100);
}

TEST(Search, KeepsAtMostTopK) {
  SearchOptions options{.top_k = 3};
  EXPECT_EQ(SearchSchedules(Ffn(true, 3072, 1024, 1024), H200(), options)->ranked.size(), 3u);
  options.top_k = 0;
  EXPECT_FALSE(SearchSchedules(Ffn(true, 3072, 1024, 1024), H200(), options).ok());
}

TEST(Search, SaysWhyNothingIsLegal) {
  const auto result =
      SearchSchedules(Ffn(true, 11008, 4096, 4096), H200(), {.allow_cooperative = false});
  EXPECT_TRUE(Fails(result, absl::StatusCode::kFailedPrecondition, "none of"));
}

TEST(Space, WidthsShareColumnsEvenly) {
  // 11008 columns over 132 blocks: 88 wide gives 126 ranges in one turn.
  const auto widths = ColumnWidths(11008, 1, 132, 8, 128);
  EXPECT_NE(std::find(widths.begin(), widths.end(), 88), widths.end());
  for (int w : widths) EXPECT_EQ(w % 8, 0);
  EXPECT_TRUE(ColumnWidths(64, 1, 132, 128, 64).empty());
  EXPECT_EQ(ColumnWidths(5, 4, 2, 8, 8), std::vector<int>{8});
}

// 19 row tiles of 128 rows and 8 column tiles of 256 take 132 blocks two turns; 16 row tiles, one.
TEST(Space, SwappedTilesHaveHeightsThatShareRowsEvenly) {
  const ProductSequence p = MakeSequence(2432, MakeProduct(2048, 8192));
  bool found = false;
  EnumerateSpace(p, *BuiltinModel("h200"), {}, [&](const Schedule& s) {
    found |= s.swapped && s.block_m == 152 && s.first.block_n == 256 && s.cluster == 1;
  });
  EXPECT_TRUE(found);
}

TEST(Space, ClustersShareRowTilesOnlyWhereAskedForAndUnderACooperativeLaunch) {
  const DeviceModel model = H200();
  for (const auto& [asked, cooperative] :
       {std::make_pair(true, true), {true, false}, {false, true}}) {
    const bool allowed = asked && cooperative;
    SearchOptions options{.allow_cooperative = cooperative};
    if (asked) options.offered = Offered::kTuning;
    int ranges = 0, most = 0;
    const ProductSequence p = Ffn(false, 3072, 768, 768);
    EnumerateSpace(p, model, options, [&](const Schedule& s) {
      if (RangesOf(s) == 1) return;
      ++ranges;
      most = std::max(most, s.cut);
      EXPECT_TRUE(IsCooperative(s));
      EXPECT_GE(int64_t{s.first.block_n} * s.cluster * s.cut, p[0].n);
      EXPECT_LT(int64_t{s.first.block_n} * s.cluster * (s.cut - 1), p[0].n);
    });
    EXPECT_EQ(ranges > 100, allowed) << ranges;
    EXPECT_LE(ranges, 2000);
    EXPECT_EQ(most, allowed ? 16 : 0);
  }
}

TEST(Space, HasSlabsForSomeOfCOnlyWhereAskedFor) {
  const DeviceModel model = H200();
  const ProductSequence p = Ffn(false, 2048, 512, 512);
  for (const bool asked : {false, true}) {
    SearchOptions options;
    if (asked) options.offered = Offered::kTuning;
    options.allow_cooperative = false;  // they wait inside their cluster only
    int legal = 0, too_large_for_one_level = 0;
    EnumerateSpace(p, model, options, [&](const Schedule& s) {
      if (s.dataflow != Dataflow::kClusterSlab || !CheckSchedule(p, s, model).ok()) return;
      ++legal;
      Schedule whole = s;
      whole.dataflow = Dataflow::kClusterExchange, whole.cut = 0;
      if (!CheckSchedule(p, whole, model).ok()) ++too_large_for_one_level;
      EXPECT_GT(Predict(p, s, model).total_us, 0);
    });
    EXPECT_EQ(legal > 50, asked) << legal;
    EXPECT_EQ(too_large_for_one_level > 5, asked) << too_large_for_one_level;
  }
}

TEST(Space, HasSpatialGatesOnlyWhereAskedForOfGatedChains) {
  const DeviceModel model = H200();
  for (const bool asked : {false, true}) {
    for (const bool gated : {false, true}) {
      const ProductSequence p = Ffn(gated, 1536, 512, 512);
      SearchOptions options;
      if (asked) options.offered = Offered::kTuning;
      int legal = 0;
      EnumerateSpace(p, model, options, [&](const Schedule& s) {
        if (s.dataflow != Dataflow::kSpatialGate || !CheckSchedule(p, s, model).ok()) return;
        ++legal;
        EXPECT_GT(Predict(p, s, model).dsm_us, 0);
      });
      EXPECT_EQ(legal > 10, asked && gated) << legal;
    }
  }
}

TEST(Space, UsesAllButFewOfTheSmsForTheTableProblems) {
  const DeviceModel model = H200();
  for (const NamedProblem& np : TableProblems(Layout::kOI)) {
    if (np.problem.WeightBytes() < 4e6) continue;
    const Schedule s = SearchSchedules(np.problem, model, {})->ranked[0].schedule;
    EXPECT_GE(s.grid, 84) << np.id << " " << s.ToString();
  }
}

}  // namespace
}  // namespace sinter
