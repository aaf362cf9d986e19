// A runtime without NVRTC: plans prepared, loaded and launched from a pack, on a fake GPU; and what
// a warm start costs from a local store and from a pack.
#include "runtime/launch/binding.h"
#include "src/chain/problem.h"
#include "src/engine/cache_tools.h"
#include "src/engine/engine.h"
#include "tests/fakes/fake_driver.h"
#include "tests/support/no_compiler.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;
constexpr char kNowhere[] = "/dev/null/libnvrtc.so";

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Work {
  Chain chain;
  int64_t m;
};

// Eight plans; a hundred in the long run.
std::vector<Work> Workload() {
  const bool long_run = std::getenv("SINTER_TEST_LONG") != nullptr;
  std::vector<Work> work;
  for (int n = 0; n < (long_run ? 10 : 4); ++n) {
    const std::string line =
        absl::StrCat("gemm_chain m=M n=", 256 + 64 * n, " k=64 l=64 act=relu layout=oi dtype=bf16");
    for (int64_t m : {8, 64, 16, 32, 48, 96, 128, 192, 256, 384}) {
      if (!long_run && m != 8 && m != 64) continue;
      auto problem = Got(ParseProblem(line));
      work.push_back({std::move(problem.chain), m});
    }
  }
  return work;
}

class PackStartTest : public testing::Test {
 protected:
  Config Cold() const {
    Config config;
    const char* nvrtc = std::getenv("SINTER_NVRTC");
    if (nvrtc != nullptr) config.nvrtc_path = nvrtc;
    config.cache_dir = temp_ / "cold";
    return config;
  }
  // Without NVRTC, and with the given tiers only.
  Config Warm(const std::string& cache_dir, const std::string& pack) const {
    Config config{.cache_dir = cache_dir, .nvrtc_path = kNowhere};
    if (!pack.empty()) config.packs = {pack};
    config.allow_unsigned_packs = true;
    return config;
  }

  // An engine for the target; with a fake GPU under it when `device` is given.
  std::shared_ptr<Engine> MakeEngine(const Config& config, std::shared_ptr<const Device> device) {
    auto ports = Got(MakePorts(config, -1, "h200", LogSink()));
    if (device != nullptr) {
      auto loader = Got(MakeLoader(device));
      ports.loader = std::move(loader);
    }
    return Engine::Create(std::move(ports), config, LogSink());
  }

  absl::Status PrepareAll(Engine* engine) {
    plans_.clear();
    for (const Work& work : work_) {
      auto plan = engine->Prepare(work.chain, work.m, PrepareOptions());
      if (!plan.ok()) return plan.status();
      plans_.push_back(*std::move(plan));
    }
    return absl::OkStatus();
  }

  // Builds everything and packs it; false when there is no NVRTC to do so.
  bool Build() {
    const auto engine = MakeEngine(Cold(), nullptr);
    const absl::Status built = PrepareAll(engine.get());
    if (absl::IsUnavailable(built)) return false;
    EXPECT_TRUE(built.ok()) << built;
    const auto packed = Got(engine->ports().cache_tools->Export(
        {.path = pack_ = temp_ / "all.pack", .used_only = true}));
    EXPECT_EQ(packed.plans, work_.size());
    EXPECT_EQ(packed.skipped, 0u);
    return true;
  }

  cache_testing::TempDir temp_;
  std::vector<Work> work_ = Workload();
  std::vector<std::shared_ptr<const PreparedPlan>> plans_;
  std::string pack_;
};

TEST_F(PackStartTest, PreparesLoadsAndLaunchesWithoutNvrtc) {
  if (!Build()) SINTER_END_WITHOUT_COMPILER("no pack was built");
  FakeDriver fake;
  auto device = Got(Device::Open(Got(fake.Make()), 0));
  const auto engine = MakeEngine(Warm("", pack_), device);
  ASSERT_TRUE(PrepareAll(engine.get()).ok());
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.kernels_compiled, 0u);
  EXPECT_EQ(stats.searched, 0u);
  EXPECT_FALSE(stats.nvrtc_loaded);
  EXPECT_EQ(stats.plan_hits, work_.size());
  EXPECT_GE(stats.store.pack_hits, work_.size() + stats.kernel_hits);
  EXPECT_EQ(stats.kernels_loaded, stats.kernel_hits);
  const size_t before = fake.launches().size();
  constexpr DevicePtr kAt = DevicePtr{1} << 40;
  const auto binding = Got(plans_[0]->Bind({kAt, kAt, kAt, 2 * kAt}, 3 * kAt));
  ASSERT_TRUE(plans_[0]->Launch(*binding, nullptr, work_[0].m, false).ok());
  EXPECT_EQ(fake.launches().size(), before + plans_[0]->plan().kernels.size());
  std::cout << "from a pack without NVRTC: " << work_.size() << " plans prepared, "
            << stats.kernels_loaded << " kernels loaded, " << fake.launches().size() - before
            << " launched, compiled 0\n";
}

TEST_F(PackStartTest, WithoutThePackTheMissIsUnavailable) {
  const auto engine = MakeEngine(Warm("", temp_ / "absent.pack"), nullptr);
  EXPECT_TRUE(absl::IsUnavailable(PrepareAll(engine.get())));
  EXPECT_EQ(engine->Stats().store.packs_refused, 1u);
}

TEST_F(PackStartTest, CostOfAWarmStart) {
  if (!Build()) SINTER_END_WITHOUT_COMPILER("no pack was built");
  for (const bool from_pack : {false, true}) {
    double best = 1e9;
    for (int i = 0; i < 3; ++i) {
      const auto start = Clock::now();
      const auto engine =
          MakeEngine(from_pack ? Warm("", pack_) : Warm(temp_ / "cold", ""), nullptr);
      ASSERT_TRUE(PrepareAll(engine.get()).ok());
      best = std::min(best, MillisecondsSince(start));
      EXPECT_EQ(engine->Stats().kernels_compiled, 0u);
    }
    std::cout << "warm start of " << work_.size() << " plans from "
              << (from_pack ? "a pack" : "the local store") << ": " << best << " ms, "
              << best / static_cast<double>(work_.size()) << " ms a plan, NVRTC absent\n";
  }
}

}  // namespace
}  // namespace sinter
