// The cap on loaded modules on a real device: hundreds of plans come and go under a cap that holds
// a few of them, and the device's memory stays where it was after the first round. What a live plan
// or a captured graph uses is never unloaded, and everything that runs is right.
#include <cuda.h>
#include <dlfcn.h>

#include "tests/gpu/stream_fixture.h"

namespace sinter::gpu_testing::module_cap {
namespace {

constexpr uint64_t kModuleCap = 1 << 20;  // some twenty modules
constexpr int kShapes = 30;
constexpr int64_t kRows[] = {8, 16, 32, 48, 64, 96, 128, 192, 256, 384};
constexpr int kRounds = 4;                 // after the first, which compiles
constexpr uint64_t kAllowance = 16 << 20;  // of the driver's own: it takes and keeps whole blocks

struct Work {
  Chain chain;
  int64_t m;
};

Chain ShapeOf(int i) {
  return MakeFfnChain(
             {.n = 256 + 64 * (i % 10), .k = 64 + 64 * (i / 10), .l = 64, .act = Activation::kRelu})
      .value();
}

// Three hundred distinct plans.
std::vector<Work> AllWork() {
  std::vector<Work> work;
  for (int i = 0; i < kShapes; ++i) {
    for (const int64_t m : kRows) work.push_back({ShapeOf(i), m});
  }
  return work;
}

class ModuleCap : public StreamTest {
 protected:
  void SetUp() override {
    StreamTest::SetUp();
    std::string folder = ::testing::TempDir() + "module_cap_XXXXXX";
    ASSERT_NE(mkdtemp(&folder[0]), nullptr);
    folder_ = folder;
    Config config = TestConfig();
    config.cache_enabled = true;
    config.cache_dir = folder_;  // kernels of this build, only by this test
    config.module_cache_bytes = kModuleCap;
    Ports ports = Got(MakePorts(config, 0, "", StderrLog()));
    small_ = Engine::Create(std::move(ports), config, StderrLog());
  }
  void TearDown() override {
    small_ = nullptr;
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // The device's free memory, as the driver reports it.
  uint64_t FreeBytes() const {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto info =
        reinterpret_cast<CUresult (*)(size_t*, size_t*)>(dlsym(library, "cuMemGetInfo_v2"));
    size_t free = 0, total = 0;
    DriverScope scope(*device_);
    EXPECT_EQ(info(&free, &total), CUDA_SUCCESS);
    return free;
  }

  // Prepares, launches and drops every plan; every tenth one's result is checked.
  void Round(const std::vector<Work>& work);

  std::string folder_;
  std::shared_ptr<Engine> small_;
};

void ModuleCap::Round(const std::vector<Work>& work) {
  for (size_t begin = 0; begin < work.size(); begin += 30) {
    std::vector<PlanJob> jobs;
    for (size_t i = begin; i < std::min(begin + 30, work.size()); ++i) {
      jobs.push_back({&work[i].chain, work[i].m, PrepareOptions::Choice::kBest});
    }
    const std::vector<absl::StatusOr<PreparedPlanPtr>> plans = PrepareAll(small_.get(), jobs);
    for (size_t i = 0; i < plans.size(); ++i) {
      ASSERT_OK(plans[i]);
      if (i % 10 != 0) continue;
      const auto data = Got(
          DeviceChain::Make(small_->ports(), work[begin + i].chain, work[begin + i].m, begin + i));
      ExpectCorrect(*data, *plans[i], work[begin + i].m, 2);
    }
  }
}

TEST_F(ModuleCap, MemoryStaysFlatAndWhatIsInUseStaysLoaded) {
  const std::vector<Work> work = AllWork();
  const Chain held_chain = ShapeOf(3), graph_chain = ShapeOf(17);
  const auto held_data = DeviceChain::Make(small_->ports(), held_chain, 64, 1);
  const auto graph_data = DeviceChain::Make(small_->ports(), graph_chain, 64, 2);
  ASSERT_OK(held_data);
  ASSERT_OK(graph_data);
  const auto held = Got(small_->Prepare(held_chain, 64, PrepareOptions()));
  const auto held_run = Got((*held_data)->Bind(held));
  const auto stream = Got(MakeStream(device_));
  absl::StatusOr<Graph> graph = absl::UnknownError("not captured");
  DeviceBuffer graph_workspace;
  {
    const auto plan = Got(small_->Prepare(graph_chain, 64, PrepareOptions()));
    const auto run = Got((*graph_data)->Bind(plan));
    graph_workspace = run.workspace;
    ASSERT_OK(BeginCapture(stream));
    ASSERT_OK(run.launch(stream.get(), 64, false));
    graph = EndCapture(stream);
    ASSERT_OK(graph);
  }  // only the graph has the plan now
  const auto exec = Got(Instantiate(device_, *graph));

  uint64_t least = ~uint64_t{0}, most = 0, unloaded = 0, compiled = 0;
  for (int round = 0; round <= kRounds; ++round) {
    Round(work);
    const auto output = Got((*held_data)->Run(held_run, 64));
    EXPECT_OK((*held_data)->Check(output, 64)) << "the plan in use, round " << round;
    ASSERT_OK((*graph_data)->Poison({.workspace = graph_workspace}));
    ASSERT_OK(Replay(exec, stream));
    const auto replayed = Got((*graph_data)->DownloadOutput());
    EXPECT_OK((*graph_data)->Check(replayed, 64)) << "the captured graph, round " << round;

    const EngineStats stats = small_->Stats();
    const uint64_t free = FreeBytes();
    std::cout << "round " << round << ": free MB " << free / 1000000 << ", loaded modules "
              << stats.modules_loaded << ", KB " << stats.module_bytes / 1000 << " of "
              << kModuleCap / 1000 << ", unloaded so far " << stats.modules_unloaded
              << ", compiled so far " << stats.kernels_compiled << "\n";
    EXPECT_LE(stats.module_bytes, kModuleCap);
    if (round == 0) compiled = stats.kernels_compiled;
    EXPECT_EQ(stats.kernels_compiled, compiled);  // later ones are loaded from the cache
    if (round > 0) {
      EXPECT_GT(stats.modules_unloaded, unloaded + compiled / 2);  // many plans share a kernel
      least = std::min(least, free);
      most = std::max(most, free);
    }
    unloaded = stats.modules_unloaded;
  }
  std::cout << "module cap: " << work.size() << " plans x " << kRounds + 1
            << " rounds, free device memory after the first MB " << least / 1000000 << " to "
            << most / 1000000 << "\n";
  EXPECT_LE(most - least, kAllowance);
}

}  // namespace
}  // namespace sinter::gpu_testing::module_cap
