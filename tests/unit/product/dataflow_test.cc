#include "src/product/dataflow/dataflow.h"

#include "src/product/matcher.h"
#include "src/product/search/product_load.h"
#include "src/product/search/search.h"
#include "src/product/search/space.h"
#include "tests/support/drawn.h"
#include "tests/support/files.h"
#include "tests/support/test.h"
#include "tests/unit/product/problems.h"

namespace sinter {
namespace {

DeviceModel H200Model() { return *BuiltinModel("h200"); }

TEST(Dataflows, EveryRowAnswersAll) {
  std::set<std::string> names, writings;
  int id = 0;
  for (const DataflowRow* row : AllDataflows()) {
    SCOPED_TRACE(row->name);
    EXPECT_EQ(static_cast<int>(row->dataflow), ++id);
    EXPECT_EQ(&RowOf(row->dataflow), row);
    EXPECT_TRUE(names.insert(row->name).second);
    EXPECT_TRUE(writings.insert(absl::StrCat(row->byte, " ", row->version)).second);
    EXPECT_EQ(FindDataflow(row->byte, row->version), row);
    EXPECT_NE(row->byte, 0);
    EXPECT_NE(row->byte, 4);
    EXPECT_NE(row->version, 4);
    EXPECT_NE(std::string(row->title), "");
    EXPECT_EQ(row->medium == Medium::kNone, row->products == 1);
    EXPECT_EQ(row->how[0] == 0, row->products == 1);
    EXPECT_NE(row->check, nullptr);
    EXPECT_NE(row->enumerate, nullptr);
    EXPECT_NE(row->predict, nullptr);
  }
  EXPECT_EQ(RowOf(static_cast<Dataflow>(99)).name, std::string("invalid"));
}

// A chain of two products that every dataflow takes, in one of its schedules at least.
TEST(Dataflows, EachHasALegalScheduleThatReadsBack) {
  const DeviceModel model = H200Model();
  const ProductSequence chain = Ffn(true, 256, 128, 128, Layout::kOI, 1024);
  for (const DataflowRow* row : AllDataflows()) {
    SCOPED_TRACE(row->name);
    const ProductSequence p = row->products == 1 ? FirstOf(chain) : chain;
    int legal = 0;
    row->enumerate(SpaceWalk(p, model, [&](const Schedule& s) {
      EXPECT_EQ(s.dataflow, row->dataflow);
      if (!CheckSchedule(p, s, model).ok()) return;
      ++legal;
      EXPECT_TRUE(*Schedule::FromCanonical(s.Canonical()) == s);
      EXPECT_GT(Predict(p, s, model).total_us, 0);
    }));
    EXPECT_GT(legal, 5);
  }
}

TEST(Dataflows, TuningIsOfferedSomeOfEach) {
  const auto found = SearchSchedules(Ffn(true, 256, 128, 128, Layout::kOI, 1024), H200Model(),
                                     {.top_k = 3, .offered = Offered::kTuning});
  std::map<Dataflow, int> count;
  double last = 0;
  for (const RankedSchedule& r : found->ranked) {
    ++count[r.schedule.dataflow];
    EXPECT_GE(r.prediction.total_us, last);
    last = r.prediction.total_us;
  }
  EXPECT_EQ(count.size(), AllDataflows().size() - 1);  // one is of one product
  for (const auto& [dataflow, schedules] : count) EXPECT_EQ(schedules, 3) << NameOf(dataflow);
}

// C is stored neither by a cluster that keeps all of it nor by ranks with a matrix each.
TEST(Dataflows, CThatStaysInTheClusterIsNotStored) {
  const DeviceModel model = H200Model();
  const ProductSequence p = Ffn(true, 1536, 512, 512);
  for (Dataflow dataflow : {Dataflow::kClusterExchange, Dataflow::kSpatialGate}) {
    RowOf(dataflow).enumerate(SpaceWalk(p, model, [&](const Schedule& s) {
      const ProductDims dims = FirstDims(p, s);
      EXPECT_FALSE(dims.to_memory);
      EXPECT_EQ(LoadOf(dims, p, s, s.first, 128, model).result.bytes, 0);
    }));
  }
}

// The best of a chain by prediction, for each dataflow.
std::map<Dataflow, double> BestOfEach(const ProductSequence& p, const DeviceModel& model) {
  SearchOptions options{.offered = Offered::kTuning};
  std::map<Dataflow, double> best;
  EnumerateSpace(p, model, options, [&](const Schedule& s) {
    if (!CheckSchedule(p, s, model).ok()) return;
    const double us = Predict(p, s, model).total_us;
    const auto at = best.emplace(s.dataflow, us).first;
    at->second = std::min(at->second, us);
  });
  return best;
}

// What planning has without dataflows that are for tuning.
double PlannedUs(const ProductSequence& p, const std::map<Dataflow, double>& best,
                 const DeviceModel& model) {
  const auto first = SearchSchedules(p.Part(0, 1), model, {});
  const auto second = SearchSchedules(p.Part(1, 1), model, {});
  double us = first->ranked[0].prediction.total_us +
              BehindProgrammaticEdge(second->ranked[0].prediction, model).total_us;
  for (const auto& [dataflow, best_us] : best) {
    if (RowOf(dataflow).offered == Offered::kPlanning) us = std::min(us, best_us);
  }
  return us;
}

// Every two products of the lists that a kernel may take, in both layouts.
std::vector<ProductSequence> ListedPairs(const std::vector<const char*>& lists) {
  std::vector<ProductSequence> pairs;
  for (const char* list : lists) {
    for (const std::string& line : LinesOf(absl::StrCat("tests/bench/problems/", list, ".txt"))) {
      const absl::StatusOr<Problem> problem = ParseProblem(line);
      if (!problem.ok()) continue;
      const absl::StatusOr<MatchedSequence> matched = MatchProducts(problem->chain, 1);
      for (int i = 0; matched.ok() && i + 1 < matched->size(); ++i) {
        if (!CanPair(matched->sequence, i)) continue;
        for (Layout layout : {Layout::kOI, Layout::kIO}) {
          pairs.push_back(matched->sequence.Part(i, 2));
          SetLayout(&pairs.back(), layout);
        }
      }
    }
  }
  return pairs;
}

// Dataflows that lose on this chip are for who measures. The model agrees. The commit draws a
// fourth of the list in an everyday run.
TEST(Dataflows, OfClustersOnlyTheExchangeWinsAListedProblemByPrediction) {
  const DeviceModel model = H200Model();
  const std::vector<ProductSequence> pairs = ListedPairs(
      {"gated_ffn", "gemm_chains", "products", "batch_sweep", "lists", "spatial", "middle_rows"});
  ASSERT_GT(pairs.size(), 40u);
  size_t number = 0;
  for (ProductSequence p : pairs) {
    for (int64_t m : {8, 64, 128, 320, 1024, 4096}) {
      if (!IsDrawn(number++, 4)) continue;
      p.m = m;
      const std::map<Dataflow, double> best = BestOfEach(p, model);
      const double planned = PlannedUs(p, best, model);
      for (const auto& [dataflow, us] : best) {
        EXPECT_GE(us, planned) << p.ToString() << " " << NameOf(dataflow);
      }
    }
  }
}

// Random problems, among them chains that are smaller than a chip: where one wins, it wins by less
// than predictions err.
TEST(Dataflows, ThoseForTuningWinRandomProblemsSeldomAndByLittle) {
  const DeviceModel model = H200Model();
  int wins = 0, pairs = 0;
  for (ProductSequence p : ListedPairs({"never_slower"})) {
    p.m = 128;
    const std::map<Dataflow, double> best = BestOfEach(p, model);
    const double planned = PlannedUs(p, best, model);
    ++pairs;
    for (const auto& [dataflow, us] : best) {
      const DataflowRow& row = RowOf(dataflow);
      if (row.offered == Offered::kPlanning) continue;
      EXPECT_GE(us, 0.9 * planned) << p.ToString() << " " << row.name;
      wins += us < planned;
    }
  }
  EXPECT_LE(20 * wins, pairs);
}

}  // namespace
}  // namespace sinter
