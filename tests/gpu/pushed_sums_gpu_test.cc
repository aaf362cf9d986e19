// Sums over several GPUs of this machine whose operand the product before them pushes: equal, bit
// for bit, to the sums of what the product leaves in memory, for every number of rows, and their
// times. SINTER_GPU_RANKS ranks in one process, two unless given; more than four have no norm in
// the kernel of a sum. Skipped where fewer GPUs are there.
#include "src/plan/collective_family.h"
#include "tests/gpu/pushed_layers.h"
#include "tests/support/product_in.h"

namespace sinter::gpu_testing {
namespace {

using Bounds = std::vector<std::shared_ptr<const BoundPlan>>;  // of each rank

struct NamedPlan {
  std::string name;
  Plan plan;
  int threads;
};

class PushedSums : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ranks_.resize(static_cast<size_t>(Ranks()));
    for (int r = 0; r < Ranks(); ++r) {
      ranks_[static_cast<size_t>(r)].ports = Got(MakePorts(TestConfig(), r, "", StderrLog()));
    }
  }
  static void TearDownTestSuite() {
    for (LayerRank& rank : ranks_) {
      rank.Free();
      rank.group.reset();
    }
    ranks_.clear();
  }
  void SetUp() override {
    if (Ranks() > 4) GTEST_SKIP() << "the sum over " << Ranks() << " ranks makes no norm";
  }
  static void Begin(const Layer& layer, uint64_t slot_bytes = 0) {
    for (int r = 0; r < Ranks(); ++r) {
      LayerRank& rank = ranks_[static_cast<size_t>(r)];
      rank.group.reset();
      ASSERT_OK(rank.Allocate(layer, r));
    }
    const auto groups = LocalGroups({.slot_bytes = slot_bytes});
    for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r].group = groups[r];
  }
  // Builds and binds all plans on all ranks.
  static std::vector<Bounds> BindAll(const Layer& layer, const std::vector<Plan>& plans) {
    std::vector<Bounds> bounds(plans.size(), Bounds(ranks_.size()));
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const auto built = BuildPlans(ranks_[r].ports, layer.chain, plans);
      for (size_t i = 0; i < plans.size(); ++i) {
        EXPECT_OK(built[i]) << plans[i].ToText();
        if (!built[i].ok()) continue;
        auto bound = ranks_[r].Bind(*built[i]);
        EXPECT_OK(bound);
        if (bound.ok()) bounds[i][r] = *std::move(bound);
      }
    }
    return bounds;
  }
  static absl::Status Enqueue(const Bounds& bounds, size_t r, StreamHandle stream, int64_t m,
                              bool edge = false) {
    return EnqueuePlan(*bounds[r], stream, m, edge);
  }
  static void Run(const Bounds& bounds, int64_t m) {
    OnRanks([&](size_t r) {
      return ranks_[r].ports.measurer->RunAndWait(
          [&](StreamHandle stream) { return Enqueue(bounds, r, stream, m); });
    });
  }
  // `calls` launches of either form, mostly the second, of 1 to `most` rows (a power of two), drawn
  // from `bit` of a random number on. A rank comes late, another one each round.
  static void CallInTurn(const std::vector<Bounds>& bounds, int round, int calls, int bit,
                         uint32_t most) {
    OnRanks([&](size_t r) {
      uint32_t state = static_cast<uint32_t>(round) + 1;  // the same on all ranks
      if (static_cast<size_t>(round) % (ranks_.size() + 1) == r)
        std::this_thread::sleep_for(std::chrono::milliseconds(round % 7));
      return ranks_[r].ports.measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
        for (int call = 0; call < calls; ++call) {
          state = state * 1664525 + 1013904223;
          const int64_t rows = 1 + static_cast<int64_t>(state >> bit & (most - 1));
          SINTER_RETURN_IF_ERROR(Enqueue(bounds[(state >> 28) % 4 > 0 ? 1 : 0], r, stream, rows,
                                         (state >> 16 & 1) != 0));
        }
        return absl::OkStatus();
      });
    });
  }
  // What all ranks have after a launch of `m` rows, the same.
  static std::string ResultsOf(const Bounds& bounds, int64_t m) {
    for (const LayerRank& rank : ranks_) EXPECT_OK(rank.Poison());
    Run(bounds, m);
    auto first = Got(ranks_[0].Results());
    for (size_t r = 1; r < ranks_.size(); ++r) {
      const auto other = Got(ranks_[r].Results());
      EXPECT_TRUE(first == other) << "rank " << r << " differs, " << m << " rows";
    }
    for (const LayerRank& rank : ranks_) EXPECT_OK(rank.group->GetStatus(nullptr));
    return first;
  }

  // Compares plans of one number of rows with the first of them, and times them.
  static void ExpectEqualAndTime(const Layer& layer, int64_t rows,
                                 const std::vector<NamedPlan>& named, int calls);

  static inline std::vector<LayerRank> ranks_;
};

TEST_F(PushedSums, AreThoseOfMemoryForEveryNumberOfRows) {
  const Layer layer(2048, 512);
  Begin(layer);
  for (const int64_t bucket : {1, 16, 128}) {
    const Plan plain = layer.PlainPlan(bucket);
    std::vector<Plan> plans;
    const std::vector<Schedule> cuts = Cuts(plain);
    for (const Schedule& cut : cuts) {
      plans.push_back(With(plain, cut, false, 256));
      plans.push_back(With(plain, cut, true, 256));
    }
    const std::vector<Bounds> bounds = BindAll(layer, plans);
    for (size_t i = 0; i < plans.size(); i += 2) {
      for (int64_t m = 0; m <= bucket; m += 1 + m / 5) {
        EXPECT_TRUE(ResultsOf(bounds[i], m) == ResultsOf(bounds[i + 1], m))
            << m << " rows, " << plans[i + 1].ToText();
      }
    }
    std::printf("bucket %d: %zu cuts\n", static_cast<int>(bucket), cuts.size());
  }
}

TEST_F(PushedSums, TakeCallsOfOtherRowsAndFormsInTurn) {
  const Layer layer(1024, 256);
  Begin(layer);
  const Plan plain = layer.PlainPlan(16);
  const Schedule cut = Cuts(plain).back();
  const std::vector<Bounds> bounds =
      BindAll(layer, {With(plain, cut, false, 256), With(plain, cut, true, 256)});
  const std::string want = ResultsOf(bounds[0], 16);
  for (int round = 0; round < 20; ++round) CallInTurn(bounds, round, 1000, 20, 16);
  EXPECT_TRUE(ResultsOf(bounds[1], 16) == want);
}

TEST_F(PushedSums, EndWhenOneIsMissed) {
  const Layer layer(1024, 256);
  Begin(layer);
  const Plan plain = layer.PlainPlan(16);
  const std::vector<Bounds> bounds = BindAll(layer, {With(plain, Cuts(plain).back(), true, 256)});
  std::thread aborts([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_OK(ranks_.back().group->Abort());
  });
  OnRanks(
      [&](size_t r) {
        return ranks_[r].ports.measurer->RunAndWait(
            [&](StreamHandle stream) { return Enqueue(bounds[0], r, stream, 16); });
      },
      Ranks() - 1);
  aborts.join();
  for (size_t r = 0; r + 1 < ranks_.size(); ++r)
    EXPECT_EQ(ranks_[r].group->GetStatus(nullptr).code(), absl::StatusCode::kAborted);
}

// Tiles that a warp sends while others are computed, of rows that fill tiles and that do not.
TEST_F(PushedSums, OfTilesSentEarlyAreThoseOfMemory) {
  const Layer layer(2048, 512, 1024);
  Begin(layer);
  const Plan plain = layer.PlainPlan(1024);
  std::vector<Plan> plans;
  const std::vector<Schedule> cuts = EarlyCuts(plain);
  ASSERT_GT(cuts.size(), 2u);
  for (const Schedule& cut : cuts) {
    plans.push_back(With(plain, cut, false, 256));
    plans.push_back(
        With(plain, cut, false, 256, EarlyColumns(ProductOf(plain.kernels[0].spec).sequence, cut)));
  }
  const std::vector<Bounds> bounds = BindAll(layer, plans);
  for (size_t i = 0; i < plans.size(); i += 2) {
    for (const int64_t m : {0, 1, 7, 127, 128, 129, 300, 777, 1000, 1023, 1024}) {
      EXPECT_TRUE(ResultsOf(bounds[i], m) == ResultsOf(bounds[i + 1], m))
          << m << " rows, " << plans[i + 1].ToText();
    }
  }
  std::printf("%zu cuts\n", cuts.size());
}

// Calls of both forms and of any number of rows in turn, while one rank or another is late.
TEST_F(PushedSums, OfTilesSentEarlyTakeCallsInTurn) {
  const Layer layer(2048, 256, 1024);
  Begin(layer);
  const Plan plain = layer.PlainPlan(1024);
  const Schedule cut = EarlyCuts(plain).back();
  const std::vector<Bounds> bounds = BindAll(
      layer,
      {With(plain, cut, false, 256),
       With(plain, cut, false, 256, EarlyColumns(ProductOf(plain.kernels[0].spec).sequence, cut))});
  const std::string want = ResultsOf(bounds[0], 1024);
  for (int round = 0; round < 12; ++round) {
    CallInTurn(bounds, round, 200, 18, 1024);
    EXPECT_TRUE(ResultsOf(bounds[1], 1024) == want) << "round " << round;
  }
}

// Plans of equal threads have equal bits. In graphs: us a layer.
void PushedSums::ExpectEqualAndTime(const Layer& layer, int64_t rows,
                                    const std::vector<NamedPlan>& named, int calls) {
  std::vector<Plan> plans;
  for (const NamedPlan& one : named) plans.push_back(one.plan);
  const std::vector<Bounds> bounds = BindAll(layer, plans);
  std::map<int, std::string> results;  // by threads
  for (size_t i = 0; i < plans.size(); ++i) {
    const std::string& name = named[i].name;
    ASSERT_EQ(std::count(bounds[i].begin(), bounds[i].end(), nullptr), 0) << name;
    const std::string got = ResultsOf(bounds[i], rows);
    EXPECT_TRUE(results.try_emplace(named[i].threads, got).first->second == got) << name;
    for (const bool edge : {false, true}) {
      std::vector<std::unique_ptr<TimedGraph>> graphs;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        auto made =
            ranks_[r].ports.measurer->MakeGraph({[&, r](StreamHandle stream, int) {
                                                  return Enqueue(bounds[i], r, stream, rows, edge);
                                                }},
                                                calls);
        ASSERT_OK(made);
        graphs.push_back(*std::move(made));
      }
      std::vector<double> best(ranks_.size(), 1e9);
      OnRanks([&](size_t r) -> absl::Status {
        for (int replay = 0; replay < 8; ++replay) {
          SINTER_ASSIGN_OR_RETURN(const double us, graphs[r]->Replay());
          best[r] = std::min(best[r], us / calls);
        }
        return absl::OkStatus();
      });
      std::printf("%d ranks, %d rows, %s%s: %.2f us (predicted %.2f)\n", Ranks(),
                  static_cast<int>(rows), edge ? "edges, " : "", name.c_str(),
                  *std::max_element(best.begin(), best.end()), plans[i].PredictedUs());
    }
  }
}

// Times of all cuts of the GEMM, pushed or not.
TEST_F(PushedSums, Times) {
  const Layer layer(8192, 4096);
  Begin(layer);
  for (const int64_t rows : {1, 16, 64, 128}) {
    const Plan plain = layer.PlainPlan(rows);
    std::vector<NamedPlan> plans;
    const auto add = [&](const char* name, const Schedule& s, bool pushes, int threads) {
      plans.push_back({absl::StrCat(name, " ", threads, " ", s.ToString()),
                       With(plain, s, pushes, threads), threads});
    };
    const Schedule chosen = ProductOf(plain.kernels[0].spec).schedule;
    for (const int threads : {256, 512}) add("memory", chosen, false, threads);
    for (const Schedule& cut : Cuts(plain)) {
      if (cut.first.split_k > 2) continue;  // slower
      if (!(cut == chosen)) add("memory", cut, false, 512);
      for (const int threads : {256, 512}) add("pushed", cut, true, threads);
    }
    ExpectEqualAndTime(layer, rows, plans, 50);
  }
}

// The plan chosen for many rows, compared with the plan whose sum sends all.
TEST_F(PushedSums, TimesOfManyRows) {
  const struct {
    int64_t n, k, rows;
  } cases[] = {{8192, 4096, 512},   {8192, 14336, 512}, {5120, 4096, 512},   {8192, 4096, 1024},
               {8192, 14336, 1024}, {5120, 4096, 1024}, {5120, 12800, 1024}, {5120, 4096, 2048},
               {8192, 4096, 4096},  {5120, 12800, 4096}};
  for (const auto& one : cases) {
    const Layer layer(one.n, one.k, one.rows);
    Begin(layer);
    const auto plans = Got(PlanChain(*layer.chain, one.rows, *BuiltinModel("h100"), {}));
    std::vector<NamedPlan> named;
    for (const Plan& plan : {layer.PlainPlan(one.rows), plans.chosen}) {
      const int threads = CollectiveKernels::ScheduleOf(plan.kernels.back().spec).threads;
      named.push_back({absl::StrCat(one.n, "x", one.k, " ",
                                    ProductOf(plan.kernels[0].spec).schedule.ToString()),
                       plan, threads});
    }
    ExpectEqualAndTime(layer, one.rows, named, 20);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing

int main(int argc, char** argv) { return sinter::gpu_testing::RunOverGpus(argc, argv); }
