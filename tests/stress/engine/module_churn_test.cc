// Churn of the device: threads prepare, bind, launch and drop 10,000 distinct plans, some of them
// through captured graphs that outlive their plan, on an engine whose module cache and folder are
// far too small. The planner, the generator, the cache and the loader are real; compiler and driver
// are fakes, and the driver counts loaded bytes from the images. Loaded bytes stay flat and under
// the cap, nothing runs from an unloaded module, and the end leaves nothing, though graphs outlive
// the engine. Twenty seconds, over fewer plans, so that all have come before half of the time is
// over; `engine_churn_test --seconds 3600` for as long as one likes.
#include "cache/tiers/tiers.h"
#include "runtime/launch/binding.h"
#include "src/chain/problem.h"
#include "src/engine/engine.h"
#include "tests/fakes/fake_compiler.h"
#include "tests/fakes/fake_driver.h"
#include "tests/stress/process_use.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostPlans = 10000;
constexpr int kThreads = 3;
constexpr size_t kGraphs = 4;                                      // that a thread keeps
constexpr uint64_t kMostImage = FakeCompiler::kMostFiller + 1024;  // bytes of a module, at most
constexpr uint64_t kModuleCap = 1 << 20;                           // about 40 modules
constexpr uint64_t kFolderCap = 64 << 20;
constexpr uint64_t kMemoryCap = 8 << 20, kQueueCap = 4 << 20;
constexpr uint64_t kGrowth = 8 << 20;  // the queue, and the names of all records that were used
// Modules in use may pass the cap: each thread's plan, its graphs, and those that a callback let go
// and nobody collected yet; a plan has one or two kernels.
constexpr uint64_t kInUse = 2 * kThreads * (2 * kGraphs + 1) * kMostImage;
int seconds = 20;

int Plans() { return std::min(kMostPlans, 20 * seconds); }

struct Work {
  std::string line;
  int64_t m = 0;
};

// A thousand shapes, ten buckets. The first plans are of as many shapes as there are.
Work WorkOf(int i) {
  constexpr int64_t kRows[] = {8, 16, 32, 48, 64, 96, 128, 192, 256, 384};
  const int shape = i % 1000;
  return {
      absl::StrCat("gemm_chain m=M n=", 256 + 64 * (shape % 10), " k=", 64 + 64 * (shape / 10 % 10),
                   " l=", 64 + 64 * (shape / 100), " act=relu layout=oi dtype=bf16"),
      kRows[i / 1000]};
}

struct Counts {
  std::atomic<uint64_t> plans{0}, graphs{0}, failures{0};
  std::atomic<bool> stop{false};
};

// One thread, its stream and the graphs that it keeps.
class Worker {
 public:
  Worker(int number, Engine* engine, const std::shared_ptr<const Device>& device, Counts* counts)
      : random_(static_cast<unsigned>(number)),
        engine_(*engine),
        device_(device),
        counts_(*counts),
        stream_(MakeStream(device).value()) {}

  // Returns the graphs that are left.
  std::deque<GraphExec> Run() {
    while (!counts_.stop) {
      const absl::Status status = Once();
      if (status.ok()) continue;
      if (counts_.failures++ == 0) std::cout << "churn: " << status << "\n";
    }
    return std::move(graphs_);
  }

 private:
  // Half of all plans are of a tenth of the problems.
  absl::Status Once();
  absl::Status LaunchAll(const PreparedPlan& plan, const PlanBinding& binding, int64_t m);

  std::mt19937 random_;
  Engine& engine_;
  const std::shared_ptr<const Device> device_;
  Counts& counts_;
  Stream stream_;
  std::deque<GraphExec> graphs_;
};

absl::Status Worker::Once() {
  const Work work =
      WorkOf(static_cast<int>(random_() % (random_() % 2 == 0 ? Plans() : Plans() / 10)));
  absl::StatusOr<Problem> problem = ParseProblem(work.line);
  if (!problem.ok()) return problem.status();
  const auto plan = engine_.Prepare(problem->chain, work.m, PrepareOptions());
  if (!plan.ok()) return plan.status();
  constexpr DevicePtr kAt = DevicePtr{1} << 40;
  const auto binding = (*plan)->Bind({kAt, kAt, kAt, 2 * kAt}, 3 * kAt);
  if (!binding.ok()) return binding.status();
  ++counts_.plans;
  return LaunchAll(**plan, **binding, work.m);
}

// On the stream, or into a graph that is kept when the plan is gone; then an older graph again.
absl::Status Worker::LaunchAll(const PreparedPlan& plan, const PlanBinding& binding, int64_t m) {
  const Driver& driver = device_->driver();
  if (random_() % 4 != 0) return plan.Launch(binding, stream_.get(), m, false);
  driver->StreamBeginCapture(stream_.get(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  const absl::Status launched = plan.Launch(binding, stream_.get(), m, false);
  CUgraph captured = nullptr;
  const CUresult ended = driver->StreamEndCapture(stream_.get(), &captured);
  const Graph graph(device_, captured);
  if (!launched.ok()) return launched;
  if (ended != CUDA_SUCCESS) return driver.Check(ended, "cuStreamEndCapture");
  absl::StatusOr<GraphExec> exec = Instantiate(device_, graph);
  if (!exec.ok()) return exec.status();
  graphs_.push_back(*std::move(exec));
  if (graphs_.size() > kGraphs) graphs_.pop_front();
  ++counts_.graphs;
  return driver.Check(driver->GraphLaunch(graphs_.front().get(), stream_.get()), "cuGraphLaunch");
}

struct Range {
  uint64_t least = ~uint64_t{0}, most = 0;
  void Add(uint64_t value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

// One part of the time.
struct Quarter {
  Range modules, module_bytes, allocated, resident, descriptors;
};

std::vector<Quarter> Watch(const FakeDriver& fake) {
  std::vector<Quarter> quarters(4);
  for (Quarter& quarter : quarters) {
    const auto end = Clock::now() + std::chrono::milliseconds(250 * seconds);
    while (Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const FakeLive live = fake.live();
      quarter.modules.Add(static_cast<uint64_t>(live.modules));
      quarter.module_bytes.Add(live.module_bytes);
      quarter.allocated.Add(AllocatedBytes());
      quarter.resident.Add(ResidentBytes());
      quarter.descriptors.Add(static_cast<uint64_t>(Descriptors()));
    }
  }
  return quarters;
}

void Print(const std::vector<Quarter>& quarters, const EngineStats& stats, const Counts& counts) {
  std::cout << "module churn of " << seconds << " s over " << Plans() << " plans: prepared "
            << counts.plans << ", graphs " << counts.graphs << ", failures " << counts.failures
            << ", loaded " << stats.kernels_loaded << ", unloaded " << stats.modules_unloaded
            << ", compiled " << stats.kernels_compiled << ", evicted records "
            << stats.store.evicted << "\n";
  for (size_t i = 0; i < quarters.size(); ++i) {
    const Quarter& q = quarters[i];
    std::cout << "  quarter " << i + 1 << ": on the device modules " << q.modules.least << " to "
              << q.modules.most << ", KB " << q.module_bytes.least / 1000 << " to "
              << q.module_bytes.most / 1000 << " of " << kModuleCap / 1000 << "; allocated MB "
              << q.allocated.least / 1000000 << " to " << q.allocated.most / 1000000
              << ", resident MB " << q.resident.least / 1000000 << " to "
              << q.resident.most / 1000000 << "; descriptors " << q.descriptors.least << " to "
              << q.descriptors.most << "\n";
  }
}

// On tiers that are small, so that they are full soon.
std::shared_ptr<Engine> MakeEngine(const std::string& folder,
                                   const std::shared_ptr<const Device>& device) {
  Config config{.cache_enabled = false, .module_cache_bytes = kModuleCap};
  Ports ports = MakePorts(config, -1, "h200", LogSink()).value();
  TierOptions tiers{.local_root = folder,
                    .local_bytes = kFolderCap,
                    .memory_bytes = kMemoryCap,
                    .sync = false,
                    .queue_bytes = kQueueCap};
  ports.cache_tools = nullptr;  // of the store that goes
  ports.store = std::make_unique<TieredStore>(tiers);
  ports.compiler = std::make_unique<FakeCompiler>();
  ports.loader = MakeLoader(device).value();
  return Engine::Create(std::move(ports), config, LogSink());
}

void ExpectFlat(const std::vector<Quarter>& quarters, const EngineStats& stats) {
  EXPECT_GT(stats.modules_unloaded, 0u);
  for (const Quarter& quarter : quarters) {
    EXPECT_LE(quarter.module_bytes.most, kModuleCap + kInUse);
    EXPECT_LE(quarter.descriptors.most, 300u);
  }
  const Quarter &before = quarters[1], &after = quarters[3];
  EXPECT_LE(after.allocated.most, before.allocated.most + kGrowth);
  EXPECT_LE(after.resident.most, before.resident.most * 3 / 2);
}

// Objects that are released on threads of their own are gone soon.
void AwaitOnly(const std::shared_ptr<const Device>& device) {
  for (int i = 0; i < 5000 && device.use_count() > 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(device.use_count(), 1);
}

TEST(ModuleChurnTest, WhatIsLoadedStaysFlatAndNothingRunsUnloaded) {
  cache_testing::TempDir temp("/dev/shm");
  FakeDriver fake;
  fake.SetRecording(false);
  Counts counts;
  {
    const auto device = Device::Open(fake.Make().value(), 0).value();
    auto engine = MakeEngine(temp.path(), device);
    std::vector<std::deque<GraphExec>> left(kThreads);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < left.size(); ++t) {
      threads.emplace_back(
          [&, t] { left[t] = Worker(static_cast<int>(t), engine.get(), device, &counts).Run(); });
    }
    const std::vector<Quarter> quarters = Watch(fake);
    counts.stop = true;
    for (std::thread& thread : threads) thread.join();
    const EngineStats stats = engine->Stats();
    Print(quarters, stats, counts);
    ExpectFlat(quarters, stats);
    left[0].clear();  // before the engine, the others after it
    engine.reset();
    EXPECT_GT(fake.live().modules, 0);
    left.clear();
    AwaitOnly(device);
  }
  EXPECT_EQ(counts.failures, 0u);
  EXPECT_GT(counts.graphs, 0u);
  EXPECT_THAT(fake.violations(), testing::IsEmpty());
  EXPECT_EQ(fake.live().Total(), 0);
  EXPECT_EQ(fake.live().module_bytes, 0u);
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  sinter::seconds = sinter::SecondsOf(argc, argv, sinter::seconds);
  return RUN_ALL_TESTS();
}
