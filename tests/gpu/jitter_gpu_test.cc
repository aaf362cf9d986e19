// Kernels with random pauses before every arrive, push and wait stay correct, over schedules of all
// dataflows; a spin that never ends traps.
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::jitter {
namespace {

constexpr int64_t kRows = 128;
constexpr size_t kSchedules = 12;  // of each dataflow and chain

std::vector<FfnSpec> Specs() {
  return ReadFfns({"n1536 k384 l384 relu", "gated n1024 k384 l384 silu io", "n512 k416 l256 relu"});
}

class Jitter : public GpuTest {
 protected:
  // With spin traps where the compiler takes them: between products in flight it may not. Then a
  // hang is for the watchdog.
  static absl::StatusOr<LoadedPlanPtr> Build(std::shared_ptr<const Chain> chain, const Plan& plan) {
    BuildOptions options;
    options.codegen.jitter = options.codegen.trap_spins = true;
    absl::StatusOr<LoadedPlanPtr> built = BuildPlan(ports(), chain, plan, options);
    if (built.ok()) return built;
    options.codegen.trap_spins = false;
    return BuildPlan(ports(), chain, plan, options);
  }

  // A test build may need more registers than there are: such a schedule is passed over, but not
  // many.
  static void RunAll(Dataflow dataflow) {
    std::vector<Chain> chains;
    for (const FfnSpec& spec : Specs()) chains.push_back(MakeFfnChain(spec).value());
    RunAll(chains, kRows, 77, dataflow, kSchedules);
  }

  // Of M = `rows`, and now and then of `fewer`.
  static void RunAll(const std::vector<Chain>& chains, int64_t rows, int64_t fewer,
                     Dataflow dataflow, size_t schedules) {
    size_t ran = 0, refused = 0;
    for (const Chain& made : chains) {
      const auto chain = std::make_shared<const Chain>(made);
      const std::vector<Plan> plans = SpreadPlans(*chain, rows, ports().model, dataflow, schedules);
      std::vector<absl::StatusOr<LoadedPlanPtr>> built(plans.size(), absl::UnknownError(""));
      const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
      reference::ParallelFor(threads, static_cast<int64_t>(plans.size()), 1,
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) {
                                 const size_t at = static_cast<size_t>(i);
                                 built[at] = Build(chain, plans[at]);
                               }
                             });
      const auto data = Got(DeviceChain::Make(ports(), *chain, rows, 5));
      for (size_t i = 0; i < plans.size(); ++i) {
        SCOPED_TRACE(absl::StrCat(chain->ToString(), "\n", plans[i].ToText()));
        if (!built[i].ok()) {
          std::printf("passed over: %s\n", std::string(built[i].status().message()).c_str());
          ++refused;
          continue;
        }
        Run(*data, *built[i], fewer);
        if (HasFatalFailure()) return;
        ++ran;
      }
    }
    std::printf("%zu schedules ran, %zu were refused\n", ran, refused);
    EXPECT_GT(ran, refused);
  }

  static void Run(DeviceChain& data, const LoadedPlanPtr& plan, int64_t fewer) {
    const auto run = Got(data.Bind(plan));
    std::string first;
    for (int i = 0; i < Repeats(); ++i) {
      const int64_t m = i % 4 == 3 ? fewer : data.rows();
      const auto output = Got(data.Run(run, m));
      if (i == 0) first = output;
      if (m == data.rows() && i > 0) {
        ASSERT_TRUE(output == first) << "run " << i << " differs";
      } else {
        ASSERT_OK(data.Check(output, m));
      }
    }
  }
};

TEST_F(Jitter, Products) { RunAll(Dataflow::kProduct); }
TEST_F(Jitter, GridExchange) { RunAll(Dataflow::kGridExchange); }
TEST_F(Jitter, ClusterExchange) { RunAll(Dataflow::kClusterExchange); }

// Rows by im2col loads: windows of every channel count, and the channels after the last tap.
TEST_F(Jitter, Windows) {
  std::vector<Chain> chains;
  for (const char* line :
       {"conv_chain b=M ic=64 h=9 w=7 oc1=64 oc2=136 k1=3 k2=1 act=relu",
        "conv_chain b=M ic=40 h=8 w=9 oc1=128 oc2=64 k1=3 k2=1 act=relu stride=2 weights=HWIO"}) {
    chains.push_back(ParseProblem(line)->chain);
  }
  for (Dataflow dataflow :
       {Dataflow::kProduct, Dataflow::kGridExchange, Dataflow::kClusterExchange}) {
    RunAll(chains, 8, 5, dataflow, 6);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::jitter
