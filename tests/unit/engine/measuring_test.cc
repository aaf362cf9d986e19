#include "src/engine/measured_choice.h"
#include "tests/support/product_in.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using ::testing::Each;
using ::testing::Le;

// What a fake GPU was asked to do; a graph takes `call_us` for each of its calls.
struct World {
  double call_us = 30;
  std::function<double(int replay)> wait_us = [](int) { return 0.0; };  // queued after others' work
  std::vector<std::vector<int>> graphs;                                 // the calls of each
  std::vector<size_t> replayed;                                         // index of the graph
  std::vector<double> replay_us;
  std::vector<uint64_t> copied;
  int allocated = 0, freed = 0;
  double slept_us = 0;
};

GraphNodeHandle HandleOf(int call) {
  return reinterpret_cast<GraphNodeHandle>(static_cast<uintptr_t>(call) + 1);
}

class Graph : public TimedGraph {
 public:
  Graph(World* world, size_t index) : world_(world), index_(index) {}
  absl::StatusOr<double> Replay() override {
    const double us = world_->call_us * static_cast<double>(world_->graphs[index_].size());
    const double waited = world_->wait_us(static_cast<int>(world_->replayed.size()));
    world_->replayed.push_back(index_);
    world_->replay_us.push_back(us + waited);
    return us + waited;
  }

 private:
  World* const world_;
  const size_t index_;
};

class Inner : public Measurer {
 public:
  explicit Inner(World* world) : world_(world) {}
  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override {
    return DeviceBuffer{static_cast<DevicePtr>(++world_->allocated) << 32, bytes};
  }
  void Free(DeviceBuffer) override { ++world_->freed; }
  absl::Status Upload(DeviceBuffer to, const void*, uint64_t bytes) override {
    EXPECT_LE(bytes, to.bytes);
    world_->copied.push_back(bytes);
    return absl::OkStatus();
  }
  absl::Status Download(void*, DeviceBuffer, uint64_t bytes) override {
    world_->copied.push_back(bytes);
    return absl::OkStatus();
  }
  absl::Status Fill(DeviceBuffer buffer, uint8_t) override {
    world_->copied.push_back(buffer.bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<double> TimeGraph(const GraphCalls&, int, int) override {
    return absl::InternalError("all calls at once");
  }
  absl::StatusOr<std::unique_ptr<TimedGraph>> MakeGraph(const GraphCalls& of, int calls) override {
    world_->graphs.emplace_back();
    NodeEdges edges;
    for (int i = 0; i < calls; ++i) {
      SINTER_ASSIGN_OR_RETURN(edges, of.add(nullptr, edges, i));
    }
    return std::unique_ptr<TimedGraph>(std::make_unique<Graph>(world_, world_->graphs.size() - 1));
  }
  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) override {
    return enqueue(nullptr);
  }

 private:
  World* const world_;
};

class Wanted : public KeepGoing {
 public:
  absl::Status Check() const override {
    return --left < 0 ? absl::CancelledError("no longer") : absl::OkStatus();
  }
  mutable int left = 1 << 30;
};

class PacedMeasurerTest : public ::testing::Test {
 protected:
  std::unique_ptr<PacedMeasurer> Make() {
    GpuShare share{.slice_us = 100};
    share.sleep = [this](double us) { world.slept_us += us; };
    return std::make_unique<PacedMeasurer>(std::make_unique<Inner>(&world), share, &wanted);
  }
  absl::StatusOr<double> Time(int calls, int replays) {
    const auto add = [this](GraphHandle, const NodeEdges& edges,
                            int i) -> absl::StatusOr<NodeEdges> {
      std::vector<int>& graph = world.graphs.back();
      // Each call depends on the call before it, whose number its edge is here.
      const std::vector<GraphNodeHandle> before = {graph.empty() ? nullptr
                                                                 : HandleOf(graph.back())};
      EXPECT_EQ(edges.from, graph.empty() ? std::vector<GraphNodeHandle>() : before);
      graph.push_back(i);
      return NodeEdges{{HandleOf(i)}};
    };
    return Make()->TimeGraph({nullptr, add}, calls, replays);
  }

  World world;
  Wanted wanted;
};

TEST_F(PacedMeasurerTest, TakesItsShareOfTheTimeInShortSlices) {
  ASSERT_EQ(Time(20, 2).value(), 30);
  EXPECT_THAT(world.replay_us, Each(Le(100)));
  double busy = 0;
  for (const double us : world.replay_us) busy += us;
  EXPECT_GT(busy, 2 * 18 * 30);
  EXPECT_LE(busy / (busy + world.slept_us), 0.02 + 1e-9);
}

TEST_F(PacedMeasurerTest, SlicesFollowOneAnotherThroughTheCalls) {
  ASSERT_TRUE(Time(9, 2).ok());
  ASSERT_EQ(world.graphs.size(), 4u);  // one call tells how many a slice has time for
  EXPECT_THAT(world.graphs[1], ElementsAre(0, 1, 2));
  EXPECT_THAT(world.graphs[3], ElementsAre(6, 7, 8));
  EXPECT_THAT(world.replayed, ElementsAre(0, 0, 1, 2, 3, 1, 2, 3));
}

TEST_F(PacedMeasurerTest, KeepsAtMostSixteenGraphs) {
  world.call_us = 1;
  ASSERT_TRUE(Time(5000, 1).ok());
  EXPECT_EQ(world.graphs.size(), 17u);
  EXPECT_EQ(world.graphs[16].size(), 100u);
}

TEST_F(PacedMeasurerTest, ACallThatIsLongerThanASliceIsASlice) {
  world.call_us = 130;
  EXPECT_EQ(Time(4, 1).value(), 130);
  EXPECT_EQ(world.graphs.size(), 5u);
}

TEST_F(PacedMeasurerTest, WaitsBehindOthersWorkAreNoTimes) {
  world.wait_us = [](int replay) { return replay % 2 == 0 ? 0.0 : 90.0; };
  EXPECT_EQ(Time(20, 2).value(), 30);
}

TEST_F(PacedMeasurerTest, CopiesAreCutAndRestedAfter) {
  const auto paced = Make();
  const std::string bytes((5 << 19) + 1, 'x');
  const DeviceBuffer buffer = paced->Allocate(bytes.size()).value();
  ASSERT_TRUE(paced->Upload(buffer, bytes.data(), bytes.size()).ok());
  EXPECT_THAT(world.copied, ElementsAre(1 << 20, 1 << 20, (1 << 19) + 1));
  EXPECT_GT(world.slept_us, 0);
}

TEST_F(PacedMeasurerTest, WhatIsFreedIsUsedAgainAndGivenBackAtTheEnd) {
  {
    const auto paced = Make();
    paced->Free(paced->Allocate(1000).value());
    EXPECT_EQ(paced->Allocate(900).value().bytes, 1000u);
    paced->Free({1, 1000});
    paced->Free(paced->Allocate(100).value());  // far smaller
    EXPECT_EQ(world.allocated, 2);
    EXPECT_EQ(world.freed, 0);
  }
  EXPECT_EQ(world.freed, 2);
}

TEST_F(PacedMeasurerTest, EndsInAPauseOnceItIsNotWanted) {
  wanted.left = 3;
  const absl::Status status = Time(20, 2).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(world.replayed.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(Make()->Allocate(1).status()));
}

TEST(TrialDataTest, SameSeedSameBytesAndAnotherSeedOthers) {
  const Chain chain = testing::TestChain();
  const auto a = RandomInputs(chain, 5, 1).value();
  EXPECT_EQ(a, RandomInputs(chain, 5, 1).value());
  EXPECT_NE(a[0], RandomInputs(chain, 5, 2).value()[0]);
  ASSERT_EQ(a.size(), 3u);
  EXPECT_EQ(a[0].size(), static_cast<size_t>(5 * testing::kK * 2));
  EXPECT_EQ(a[2].size(), static_cast<size_t>(testing::kN * testing::kL * 2));
}

TEST(TrialDataTest, ValuesAreFiniteVariedAndWeightsKeepTheScale) {
  const auto inputs = RandomInputs(testing::TestChain(), 16, 9).value();
  for (size_t i = 0; i < inputs.size(); ++i) {
    double sum = 0, squares = 0;
    const size_t count = inputs[i].size() / 2;
    for (size_t j = 0; j < count; ++j) {
      uint16_t bits;
      std::memcpy(&bits, inputs[i].data() + 2 * j, 2);
      const double v = BF16ToF32(bits);
      ASSERT_TRUE(std::isfinite(v));
      sum += v;
      squares += v * v;
    }
    const double rms = std::sqrt(squares / static_cast<double>(count));
    EXPECT_LT(std::abs(sum / static_cast<double>(count)), 0.1 * rms);
    const double want = i == 0 ? 0.577 : i == 1 ? 1 / std::sqrt(512.0) : 1 / std::sqrt(181.0);
    EXPECT_NEAR(rms, want, 0.05 * want) << i;
  }
}

TEST(TrialDataTest, F32InputsWithoutProductsHaveRoots) {
  const std::string bytes = RandomInputs(ReadChain("x: f32[5000]; out sqrt(x)"), 0, 3).value()[0];
  std::vector<float> values(5000);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0.25f);
  EXPECT_LE(*std::min_element(values.begin(), values.end()), 0.26f);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 1.0f);
}

TEST(TrialDataTest, ScalesOfCodesArePositive) {
  const Chain chain = ParseProblem("scaled_matmul m=M n=64 k=256")->chain;
  const auto inputs = RandomInputs(chain, 40, 3).value();
  int scales = 0;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    if (chain.input_op(i).type.dtype != DType::kF32) continue;
    std::vector<float> values(inputs[i].size() / sizeof(float));
    std::memcpy(values.data(), inputs[i].data(), inputs[i].size());
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0.25f) << i;
    ++scales;
  }
  EXPECT_EQ(scales, 2);
}

TEST(TrialDataTest, OutputsAreReadThroughTheirStrides) {
  const Chain chain = ReadChain("x: f32[M,3]; out neg(x) strides(4, 1)");
  const float buffer[] = {0, 1, 2, -9, 10, 11, 12};
  const std::string bytes(reinterpret_cast<const char*>(buffer), sizeof buffer);
  EXPECT_EQ(OutputBytes(chain, 0, 2).value(), static_cast<int64_t>(sizeof buffer));
  EXPECT_EQ(OutputValues(chain, 0, 2, bytes).value(), (std::vector<double>{0, 1, 2, 10, 11, 12}));
  EXPECT_FALSE(OutputValues(chain, 0, 3, bytes).ok());
  // Long ones are read in pieces.
  const int64_t rows = 200000;
  std::string many(static_cast<size_t>(OutputBytes(chain, 0, rows).value()), '\0');
  for (int64_t i = 0; i < rows * 4 - 1; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(&many[static_cast<size_t>(i) * 4], &value, 4);
  }
  const std::vector<double> values = OutputValues(chain, 0, rows, many).value();
  ASSERT_EQ(values.size(), static_cast<size_t>(rows * 3));
  for (int64_t i = 0; i < rows * 3; ++i) {
    ASSERT_EQ(values[static_cast<size_t>(i)], static_cast<double>(i / 3 * 4 + i % 3));
  }
}

TEST(TimeInTurnsTest, TimesEachOncePerRoundAndTakesMedians) {
  std::vector<int> order;
  const auto times = TimeInTurns(2, 3, [&](int i) -> absl::StatusOr<double> {
    order.push_back(i);
    return i * 100 + static_cast<double>(order.size() == 3 ? 90 : order.size());
  });
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(*times, (std::vector<double>{5, 104}));  // of 1, 90, 5 and of 102, 104, 106
}

TEST(TimeInTurnsTest, CountsWholeRoundsOnly) {
  for (const int allowed : {1, 5}) {
    int calls = 0;
    const auto times = TimeInTurns(
        2, 3, [&](int) -> absl::StatusOr<double> { return ++calls; },
        [&] { return calls < allowed; });
    ASSERT_TRUE(times.ok());
    EXPECT_EQ(times->size(), allowed == 1 ? 0u : 2u);
  }
}

TEST(TimeInTurnsTest, AFailureIsTheResult) {
  const auto times = TimeInTurns(2, 3, [](int i) -> absl::StatusOr<double> {
    if (i == 1) return absl::InternalError("no time");
    return 1.0;
  });
  EXPECT_EQ(times.status().message(), "no time");
}

Plan PlanOf(bool fused, int kernels, Dataflow dataflow, double us) {
  Plan plan{.fused = fused};
  plan.kernels.resize(static_cast<size_t>(kernels));
  for (PlannedKernel& kernel : plan.kernels) {
    ProductIn(&kernel.spec).schedule.dataflow = dataflow;
    kernel.prediction.total_us = us / kernels;
  }
  return plan;
}

std::vector<double> Times(const std::vector<Plan>& plans) {
  std::vector<double> times;
  for (const Plan& plan : plans) times.push_back(plan.PredictedUs());
  return times;
}

TEST(TuneRankingTest, TriesTheBestAndAFewOfEveryDataflowThatIsNear) {
  std::vector<Plan> ranking;
  for (double us = 100; us < 120; ++us)
    ranking.push_back(PlanOf(true, 1, Dataflow::kGridExchange, us));
  for (double us : {121, 122, 123})
    ranking.push_back(PlanOf(true, 1, Dataflow::kClusterExchange, us));
  for (double us : {124, 126, 131}) ranking.push_back(PlanOf(false, 2, Dataflow::kProduct, us));
  EXPECT_EQ(Times(PlansToTry(ranking, 4)), (std::vector<double>{100, 101, 102, 103, 121, 124}));
  EXPECT_EQ(Times(PlansToTry(ranking, 11)).size(), 11u + 2 + 2);
}

TEST(TuneRankingTest, TheUnfusedPlanIsTriedHoweverSlow) {
  const std::vector<Plan> ranking = {PlanOf(true, 1, Dataflow::kGridExchange, 100),
                                     PlanOf(true, 1, Dataflow::kClusterExchange, 150),
                                     PlanOf(false, 2, Dataflow::kProduct, 200),
                                     PlanOf(false, 2, Dataflow::kProduct, 201)};
  EXPECT_EQ(Times(PlansToTry(ranking, 1)), (std::vector<double>{100, 200}));
  EXPECT_EQ(Times(PlansToTry(ranking, 8)).size(), 4u);
}

TEST(RankCorrelationTest, OrdersAgreeOrDisagree) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {10, 20, 21, 400}), 1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  // One swap of neighbours among five: 1 - 6 * 2 / (5 * 24).
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4, 5}, {1, 3, 2, 4, 5}), 0.9);
}

TEST(RankCorrelationTest, TiesShareTheirRank) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 1, 2}, {5, 5, 9}), 1);
}

TEST(RankCorrelationTest, TooLittleToSayIsZero) {
  EXPECT_EQ(RankCorrelation({}, {}), 0);
  EXPECT_EQ(RankCorrelation({1}, {2}), 0);
  EXPECT_EQ(RankCorrelation({1, 1}, {2, 3}), 0);
}

}  // namespace
}  // namespace sinter
