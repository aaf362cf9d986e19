// Kernels with random pauses before every arrive, push and wait stay correct, over schedules of all
// dataflows, and of other chips; a spin that never ends traps.
#include "src/normal/normal_form.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/other_chip.h"
#include "tests/gpu/stitch_runs.h"
#include "tests/support/named_graphs.h"

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
  static absl::StatusOr<LoadedPlanPtr> Build(const Ports& ports, std::shared_ptr<const Chain> chain,
                                             const Plan& plan) {
    BuildOptions options;
    options.codegen.jitter = options.codegen.trap_spins = true;
    absl::StatusOr<LoadedPlanPtr> built = BuildPlan(ports, chain, plan, options);
    if (built.ok()) return built;
    options.codegen.trap_spins = false;
    return BuildPlan(ports, chain, plan, options);
  }

  // Each plan, on all cores.
  static std::vector<absl::StatusOr<LoadedPlanPtr>> BuildAll(
      const Ports& ports, const std::shared_ptr<const Chain>& chain,
      const std::vector<Plan>& plans) {
    std::vector<absl::StatusOr<LoadedPlanPtr>> built(plans.size(), absl::UnknownError(""));
    const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    reference::ParallelFor(threads, static_cast<int64_t>(plans.size()), 1,
                           [&](int64_t begin, int64_t end) {
                             for (int64_t i = begin; i < end; ++i) {
                               const size_t at = static_cast<size_t>(i);
                               built[at] = Build(ports, chain, plans[at]);
                             }
                           });
    return built;
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
      const auto built = BuildAll(ports(), chain, plans);
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

// Kernels that are planned for an A100, as PTX that the driver translates.
class JitterOfOtherChips : public Jitter {
 protected:
  void SetUp() override {
    a100_ = Got(PortsOfPtx(TestConfig(), *BuiltinModel("a100"), "compute_80"));
  }

  const Ports& a100() const { return a100_; }

 private:
  Ports a100_;
};

// The chosen plan of each chain, and others evenly among those that were tried.
TEST_F(JitterOfOtherChips, ProductsByMma) {
  constexpr size_t kPlans = 6;
  int ran = 0;
  for (const char* line :
       {"matmul m=M n=264 k=1032 act=relu", "matmul m=M n=136 k=520 layout=io dtype=f16",
        "gated_ffn m=M n=256 k=512 l=264 act=silu", "scaled_matmul m=M n=203 k=1296 codes=s8"}) {
    const Chain parsed = ParseProblem(line)->chain;
    const auto chain = Got(NormalFormOf(std::make_shared<const Chain>(parsed)))->chain;
    for (const int64_t rows : {kRows, int64_t{16}}) {
      const FusionResult result = Got(PlanChain(*chain, BucketOf(*chain, rows), a100().model, {}));
      std::vector<Plan> plans = {result.chosen};
      const size_t others = result.alternatives.size();
      for (size_t i = 1; i < std::min(kPlans, others + 1); ++i) {
        plans.push_back(result.alternatives[(others - 1) * i / (kPlans - 1)]);
      }
      const auto built = BuildAll(a100(), chain, plans);
      const auto data = Got(DeviceChain::Make(a100(), *chain, rows, 5));
      for (size_t i = 0; i < plans.size(); ++i) {
        SCOPED_TRACE(absl::StrCat(line, "\n", plans[i].ToText()));
        Run(*data, Got(built[i]), rows - 7);
        if (HasFatalFailure()) return;
        ++ran;
      }
    }
  }
  std::printf("%d plans ran\n", ran);
}

// A reduction of a warp and of a block, values that blocks hand over and grids that meet, rows
// whose steps wait for each other.
TEST_F(JitterOfOtherChips, StitchedKernels) {
  constexpr size_t kOfEach = 6;
  const std::vector<bench::GraphCase> cases = {
      {"rope", "", testing::GraphOf("norm_rope(64, 32, 8, 128)"), 1},
      {"attention", "", testing::GraphOf("pooled_attention(256, 100, 36)"), 1},
      {"batchnorm", "", testing::GraphOf("batch_norm(5000, 200, x + spread(64:f32, x))"), 1},
      {"norm of everything", "", testing::GraphOf("whole_norm(M, 72)"), 5000},
      {"largest of 4096", "", testing::GraphOf("largest(M, 4096, 32, bf16)"), 77},
  };
  int ran = 0;
  for (const bench::GraphCase& c : cases) {
    const auto chain = std::make_shared<const Chain>(c.chain);
    std::vector<Plan> plans;
    for (const StitchSchedule& schedule :
         Got(VariedSchedules(c.chain, BucketOf(c.m), a100().model, kOfEach), c.id)) {
      plans.push_back(Got(OneStitchPlan(c.chain, BucketOf(c.m), schedule), c.id));
    }
    const auto built = BuildAll(a100(), chain, plans);
    const auto runs = Got(StitchRuns::Make(a100(), c, 2), c.id);
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(c.id, "\n", plans[i].ToText()));
      ASSERT_OK(built[i]);
      ASSERT_OK(runs->Check(*built[i], Repeats()));
      ++ran;
    }
  }
  std::printf("%d kernels ran\n", ran);
}

}  // namespace
}  // namespace sinter::gpu_testing::jitter
