// Sums over two GPUs of this machine whose operand the product before them pushes: equal, bit for
// bit, to the sums of what the product leaves in memory, for every number of rows, and their times.
// Two ranks in one process. Skipped with one GPU.
#include "src/engine/rank_group.h"
#include "src/normal/normal_form.h"
#include "src/plan/collective_family.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/support/product_in.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kRanks = 2, kSkipped = 77;

constexpr int kBlocks = 131;  // of a sum, at most

uint16_t Bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// The same on every host. Multiples of 1 / 64 up to `most`.
std::string Values(int64_t count, uint32_t seed, float most) {
  std::string bytes(static_cast<size_t>(count) * 2, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    const uint16_t value = Bf16(static_cast<float>(static_cast<int>(state >> 25) - 64) / 64 * most);
    std::memcpy(&bytes[static_cast<size_t>(i) * 2], &value, 2);
  }
  return bytes;
}

// A layer over two ranks: a product, the sum, the residual, the norm.
struct Layer {
  int64_t n, k, most;  // most: rows
  std::shared_ptr<const Chain> chain;
  Layer(int64_t n, int64_t k, int64_t most = 128) : n(n), k(k), most(most) {
    const auto problem =
        Got(ParseProblem(absl::StrCat("row_parallel m=M n=", n, " k=", k, " ranks=2")));
    const auto form = Got(NormalFormOf(std::make_shared<const Chain>(problem.chain)));
    chain = form->chain;
  }
  Plan PlainPlan(int64_t bucket) const {
    auto plans = Got(PlanChain(*chain, bucket, *BuiltinModel("h100"), {}));
    std::vector<Plan> all = {plans.chosen};
    all.insert(all.end(), plans.alternatives.begin(), plans.alternatives.end());
    for (Plan& plan : all) {
      if (plan.kernels.size() == 2 && ProductOf(plan.kernels[0].spec).schedule.pushes == 0)
        return plan;
    }
    ADD_FAILURE() << "no plan of a product and a sum";
    return {};
  }
};

// The plan with other schedules. `columns`: pushes only those.
Plan With(Plan plan, Schedule product, bool pushes, int threads, int64_t columns = 0) {
  product.pushes = pushes || columns > 0 ? kRanks : 0;
  product.pushed_columns = static_cast<int>(columns);
  ProductIn(&plan.kernels[0].spec).schedule = product;
  auto own = std::make_shared<CollectiveSpec>(CollectiveKernels::Of(plan.kernels[1].spec));
  CollectiveSchedule& sum = own->code.schedule;
  sum.pushed = pushes ? 1 : 0;
  sum.pushed_columns = static_cast<int>(columns);
  sum.threads = threads;
  sum.grid = static_cast<int>(std::min<int64_t>(plan.bucket, kBlocks));
  EXPECT_OK(CheckCollective(own->code.problem, sum));
  EXPECT_OK(
      CheckSchedule(ProductOf(plan.kernels[0].spec).sequence, product, *BuiltinModel("h100")));
  plan.kernels[1].spec.body = MakeBody(std::move(*own));
  return plan;
}

// For each way to cut the GEMM, in one turn or in several, the schedule that is predicted to be the
// fastest.
std::vector<Schedule> Cuts(const Plan& plain) {
  const DeviceModel model = *BuiltinModel("h100");
  const ProductSequence& sequence = ProductOf(plain.kernels[0].spec).sequence;
  std::map<std::tuple<bool, int, bool>, std::pair<double, Schedule>> best;
  for (Schedule s : LegalSchedules(sequence, model, Dataflow::kProduct)) {
    s.pushes = kRanks;
    if (!CheckSchedule(sequence, s, model).ok() || s.first.split_k > 8) continue;
    s.pushes = 0;
    const double us = Predict(sequence, s, model).total_us;
    const auto [at, fresh] = best.try_emplace(
        {s.swapped, s.first.split_k, TurnsOf(sequence, s) > 1}, std::make_pair(us, s));
    if (!fresh && us < at->second.first) at->second = {us, s};
  }
  std::vector<Schedule> cuts;
  for (const auto& [key, one] : best) cuts.push_back(one.second);
  return cuts;
}

// The schedule predicted to be the fastest, for each way in which blocks share loads and for some
// widths of tiles. Only schedules that compute columns early count.
std::vector<Schedule> EarlyCuts(const Plan& plain) {
  const DeviceModel model = *BuiltinModel("h100");
  const ProductSequence& sequence = ProductOf(plain.kernels[0].spec).sequence;
  std::map<std::tuple<Share, int>, std::pair<double, Schedule>> best;
  for (Schedule s : LegalSchedules(sequence, model, Dataflow::kProduct)) {
    s.pushes = kRanks;
    s.pushed_columns = static_cast<int>(EarlyColumns(sequence, s));
    if (s.pushed_columns == 0 || !CheckSchedule(sequence, s, model).ok()) continue;
    s.pushes = s.pushed_columns = 0;
    const double us = Predict(sequence, s, model).total_us;
    const auto [at, fresh] =
        best.try_emplace({s.share, s.first.block_n / 64}, std::make_pair(us, s));
    if (!fresh && us < at->second.first) at->second = {us, s};
  }
  std::vector<Schedule> cuts;
  for (const auto& [key, one] : best) cuts.push_back(one.second);
  return cuts;
}

// One GPU with the buffers of a layer.
struct Rank {
  Ports ports;
  std::shared_ptr<RankGroup> group;
  std::vector<DeviceBuffer> buffers;  // a, w1, r, gamma, then the outputs
  DeviceBuffer workspace;

  absl::Status Allocate(const Layer& layer, int rank) {
    Free();
    const int64_t of_rows = layer.most * layer.n;
    const std::string values[] = {
        Values(layer.most * layer.k, static_cast<uint32_t>(rank), 1),
        Values(layer.n * layer.k, static_cast<uint32_t>(10 + rank), 1.0f / 16),
        Values(of_rows, 20, 2), Values(layer.n, 21, 1)};
    for (const std::string& value : values) {
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, ports.measurer->Allocate(value.size()));
      buffers.push_back(buffer);
      SINTER_RETURN_IF_ERROR(ports.measurer->Upload(buffer, value.data(), value.size()));
    }
    for (int i = 0; i < 2; ++i) {
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer,
                              ports.measurer->Allocate(static_cast<uint64_t>(of_rows) * 2));
      buffers.push_back(buffer);
    }
    SINTER_ASSIGN_OR_RETURN(workspace, ports.measurer->Allocate(256 << 20));
    return ports.measurer->Fill(workspace, 0);
  }
  void Free() {
    for (const DeviceBuffer& buffer : buffers) ports.measurer->Free(buffer);
    if (!buffers.empty()) ports.measurer->Free(workspace);
    buffers.clear();
  }
  absl::StatusOr<std::shared_ptr<const BoundPlan>> Bind(const LoadedPlanPtr& plan) const {
    std::vector<DevicePtr> pointers;
    for (const DeviceBuffer& buffer : buffers) pointers.push_back(buffer.ptr);
    return BindPlan(plan, pointers, workspace.ptr, false, nullptr, group);
  }
  absl::Status Poison() const {
    SINTER_RETURN_IF_ERROR(ports.measurer->Fill(buffers[4], 0xAB));
    return ports.measurer->Fill(buffers[5], 0xAB);
  }
  absl::StatusOr<std::string> Results() const {
    std::string all;
    for (size_t i = 4; i < 6; ++i) {
      std::string bytes(buffers[i].bytes, '\0');
      SINTER_RETURN_IF_ERROR(ports.measurer->Download(&bytes[0], buffers[i], bytes.size()));
      all += bytes;
    }
    return all;
  }
};

using Bounds = std::vector<std::shared_ptr<const BoundPlan>>;  // of each rank

struct NamedPlan {
  std::string name;
  Plan plan;
  int threads;
};

class PushedSums : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (int r = 0; r < kRanks; ++r) {
      auto ports = Got(MakePorts(TestConfig(), r, "", StderrLog()));
      ranks_[r].ports = std::move(ports);
    }
  }
  static void TearDownTestSuite() {
    for (Rank& rank : ranks_) {
      rank.Free();
      rank.group.reset();
    }
  }
  static void Begin(const Layer& layer, uint64_t slot_bytes = 0) {
    std::vector<std::unique_ptr<PeerMemory>> memory;
    for (int r = 0; r < kRanks; ++r) {
      ranks_[r].group.reset();
      ASSERT_OK(ranks_[r].Allocate(layer, r));
      auto opened = Got(OpenPeerMemory(TestConfig(), r));
      memory.push_back(std::move(opened));
    }
    auto groups = Got(RankGroup::CreateLocal(std::move(memory), {.slot_bytes = slot_bytes}));
    for (int r = 0; r < kRanks; ++r) ranks_[r].group = groups[static_cast<size_t>(r)];
  }
  // `work(rank)` of all ranks at once.
  static void OnAll(const std::function<absl::Status(int)>& work) {
    std::vector<absl::Status> done(kRanks);
    OnThreads(kRanks, [&](int r) { done[static_cast<size_t>(r)] = work(r); });
    for (const absl::Status& status : done) EXPECT_OK(status);
  }
  // Builds and binds all plans on all ranks.
  static std::vector<Bounds> BindAll(const Layer& layer, const std::vector<Plan>& plans) {
    std::vector<Bounds> bounds(plans.size(), Bounds(kRanks));
    for (int r = 0; r < kRanks; ++r) {
      const auto built = BuildPlans(ranks_[r].ports, layer.chain, plans);
      for (size_t i = 0; i < plans.size(); ++i) {
        EXPECT_OK(built[i]) << plans[i].ToText();
        if (!built[i].ok()) continue;
        auto bound = ranks_[r].Bind(*built[i]);
        EXPECT_OK(bound);
        if (bound.ok()) bounds[i][static_cast<size_t>(r)] = *std::move(bound);
      }
    }
    return bounds;
  }
  static absl::Status Enqueue(const Bounds& bounds, int r, StreamHandle stream, int64_t m,
                              bool edge = false) {
    return EnqueuePlan(*bounds[static_cast<size_t>(r)], stream, m, edge);
  }
  static void Run(const Bounds& bounds, int64_t m) {
    OnAll([&](int r) {
      return ranks_[r].ports.measurer->RunAndWait(
          [&](StreamHandle stream) { return Enqueue(bounds, r, stream, m); });
    });
  }
  // What both ranks have after a launch of `m` rows, the same.
  static std::string ResultsOf(const Bounds& bounds, int64_t m) {
    for (const Rank& rank : ranks_) EXPECT_OK(rank.Poison());
    Run(bounds, m);
    auto first = Got(ranks_[0].Results()), second = Got(ranks_[1].Results());
    EXPECT_TRUE(first == second) << "ranks differ, " << m << " rows";
    for (const Rank& rank : ranks_) EXPECT_OK(rank.group->GetStatus(nullptr));
    return first;
  }

  // Compares plans of one number of rows with the first of them, and times them.
  static void ExpectEqualAndTime(const Layer& layer, int64_t rows,
                                 const std::vector<NamedPlan>& named, int calls);

  static inline Rank ranks_[kRanks];
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
  constexpr int kRounds = 20, kCalls = 1000;
  for (int round = 0; round < kRounds; ++round) {
    OnAll([&](int r) {
      uint32_t state = static_cast<uint32_t>(round) + 1;  // the same on all ranks
      // A rank that comes late, another one each time.
      if (round % 3 == r) std::this_thread::sleep_for(std::chrono::milliseconds(round % 7));
      return ranks_[r].ports.measurer->RunAndWait([&](StreamHandle stream) {
        for (int call = 0; call < kCalls; ++call) {
          state = state * 1664525 + 1013904223;
          const absl::Status launched =
              Enqueue(bounds[(state >> 28) % 4 > 0 ? 1 : 0], r, stream,
                      1 + static_cast<int64_t>(state >> 20 & 15), (state >> 16 & 1) != 0);
          if (!launched.ok()) return launched;
        }
        return absl::OkStatus();
      });
    });
  }
  EXPECT_TRUE(ResultsOf(bounds[1], 16) == want);
}

TEST_F(PushedSums, EndWhenOneIsMissed) {
  const Layer layer(1024, 256);
  Begin(layer);
  const Plan plain = layer.PlainPlan(16);
  const std::vector<Bounds> bounds = BindAll(layer, {With(plain, Cuts(plain).back(), true, 256)});
  std::thread aborts([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_OK(ranks_[1].group->Abort());
  });
  EXPECT_OK(ranks_[0].ports.measurer->RunAndWait(
      [&](StreamHandle stream) { return Enqueue(bounds[0], 0, stream, 16); }));
  aborts.join();
  EXPECT_EQ(ranks_[0].group->GetStatus(nullptr).code(), absl::StatusCode::kAborted);
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

// Calls of both forms and of any number of rows in turn, while one rank or the other is late.
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
    OnAll([&](int r) {
      uint32_t state = static_cast<uint32_t>(round) + 1;  // the same on all ranks
      if (round % 3 == r) std::this_thread::sleep_for(std::chrono::milliseconds(round % 7));
      return ranks_[r].ports.measurer->RunAndWait([&](StreamHandle stream) {
        for (int call = 0; call < 200; ++call) {
          state = state * 1664525 + 1013904223;
          const absl::Status launched =
              Enqueue(bounds[(state >> 28) % 4 > 0 ? 1 : 0], r, stream,
                      1 + static_cast<int64_t>(state >> 18 & 1023), (state >> 16 & 1) != 0);
          if (!launched.ok()) return launched;
        }
        return absl::OkStatus();
      });
    });
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
    ASSERT_TRUE(bounds[i][0] != nullptr && bounds[i][1] != nullptr) << name;
    const std::string got = ResultsOf(bounds[i], rows);
    EXPECT_TRUE(results.try_emplace(named[i].threads, got).first->second == got) << name;
    for (const bool edge : {false, true}) {
      std::unique_ptr<TimedGraph> graphs[kRanks];
      for (int r = 0; r < kRanks; ++r) {
        auto made =
            ranks_[r].ports.measurer->MakeGraph({[&, r](StreamHandle stream, int) {
                                                  return Enqueue(bounds[i], r, stream, rows, edge);
                                                }},
                                                calls);
        ASSERT_OK(made);
        graphs[r] = *std::move(made);
      }
      double best[kRanks] = {1e9, 1e9};
      OnAll([&](int r) -> absl::Status {
        for (int replay = 0; replay < 8; ++replay) {
          SINTER_ASSIGN_OR_RETURN(const double us, graphs[r]->Replay());
          best[r] = std::min(best[r], us / calls);
        }
        return absl::OkStatus();
      });
      std::printf("%d rows, %s%s: %.2f us (predicted %.2f)\n", static_cast<int>(rows),
                  edge ? "edges, " : "", name.c_str(), std::max(best[0], best[1]),
                  plans[i].PredictedUs());
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

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  alarm(500);  // nothing here may hang
  ::testing::InitGoogleTest(&argc, argv);
  const auto ports = sinter::MakePorts(sinter::gpu_testing::TestConfig(),
                                       sinter::gpu_testing::kRanks - 1, "", sinter::LogSink());
  if (!ports.ok()) {
    std::printf("skipped: %s\n", std::string(ports.status().message()).c_str());
    return sinter::gpu_testing::kSkipped;
  }
  return RUN_ALL_TESTS();
}
