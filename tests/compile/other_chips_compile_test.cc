// Kernels of rows and of products of the chips that nobody measured, through the real NVRTC for
// their architectures: what is planned for them compiles, spills nothing and fits their shared
// memory.
// What it computes is checked elsewhere: as PTX of these chips, on another one. SINTER_TEST_LONG=1
// takes random graphs too.
#include "src/base/arch.h"
#include "src/fusion/fusion.h"
#include "src/plan/family.h"
#include "src/plan/kernel_code.h"
#include "src/stitch/spec.h"
#include "tests/compile/kernel_sweep.h"
#include "tests/support/chains.h"
#include "tests/support/files.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/regular.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;

constexpr char kProblems[] = "tests/bench/problems";
constexpr int64_t kRows = 4096;
constexpr uint64_t kLongGraphs = 40;

const char* Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct NamedChain {
  std::string name;
  Chain chain;
  std::vector<int64_t> rows = {kRows};
  bool e4m3 = false;
};

// Both layouts, every type, pairs, programs, few and many rows.
constexpr const char* kProducts[] = {
    "matmul m=M n=4096 k=4096",
    "matmul m=M n=1032 k=520 layout=io dtype=f16 act=relu",
    "matmul m=M n=203 k=1000 act=gelu_erf bias1=1 dtype=f16",
    "gated_ffn m=M n=14336 k=4096 l=4096 act=silu",
    "gated_ffn m=M n=1032 k=520 l=264 act=gelu_tanh layout=io bias1=1 bias2=1",
    "gemm_chain m=M n=512 k=256 l=520 act=silu bias1=1",
    "scaled_matmul m=M n=512 k=2048 codes=s8 act=silu bias1=1",
    "scaled_matmul m=M n=512 k=2048 codes=e4m3",
};

std::vector<NamedChain> Chains() {
  std::vector<NamedChain> chains;
  for (const std::string& line : LinesOf(fs::path(kProblems) / "memory_chains.txt")) {
    chains.push_back({line, ParseProblem(line)->chain});
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(kProblems) / "stitch")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    chains.push_back({file.stem().string(), Got(ChainFromJson(FileText(file)))});
  }
  for (const char* line : kProducts) {
    const bool e4m3 = std::string(line).find("e4m3") != std::string::npos;
    chains.push_back({line, ParseProblem(line)->chain, {8, 64, 512, kRows}, e4m3});
  }
  const bool all = std::string(Variable("SINTER_TEST_LONG")) == "1";
  for (uint64_t seed = 1; all && seed <= kLongGraphs; ++seed) {
    chains.push_back({absl::StrCat("random", seed), testing::MakeRandomStitchGraph(seed)});
  }
  return chains;
}

// The static shared memory of a kernel, by ptxas's remarks.
int64_t StaticBytes(const std::string& log) {
  const std::vector<Match> found = Matches(log, "([0-9]+) bytes smem");
  return found.empty() ? 0 : std::stoll(found[0][1]);
}

// By source and arch: what a launch asks for, and what a block of the chip has.
struct Shared {
  uint32_t dynamic = 0;
  int64_t limit = 0;
};

TEST(OtherChips, EveryPlannedKernelCompilesSpillsNothingAndFits) {
  const std::vector<NamedChain> chains = Chains();
  ASSERT_GE(chains.size(), 30u);
  std::vector<testing::SweepKernel> kernels;
  std::map<std::string, Shared> shared;
  for (const char* name : {"a100", "a10", "rtx-4090", "b200", "rtx-5090"}) {
    const DeviceModel model = Got(BuiltinModel(name));
    for (const NamedChain& one : chains) {
      if (one.e4m3 && FeaturesOf(model.arch)->capability < kFirstE4M3) continue;
      for (const int64_t rows : one.rows) {
        const auto plans = PlanChain(one.chain, BucketOf(one.chain, rows), model, {});
        EXPECT_TRUE(plans.ok()) << name << " " << one.name << ": " << plans.status();
        if (!plans.ok()) continue;
        for (const PlannedKernel& kernel : plans->chosen.kernels) {
          EXPECT_TRUE(kernel.spec.family->traits().on_all_chips) << one.name;
          GeneratedKernel made = Got(Generate(kernel.spec, model), one.name);
          EXPECT_EQ(made.recipe.cluster[0], 1u) << one.name;
          EXPECT_EQ(made.recipe.pdl, FeaturesOf(model.arch)->early_launch) << one.name;
          EXPECT_EQ(made.request.arch, model.arch);
          Shared& most = shared[made.request.arch + made.request.source];
          most = {std::max(most.dynamic, made.recipe.shared_bytes), model.shared_bytes_per_block};
          made.request.headers.clear();
          kernels.push_back({absl::StrCat(name, " ", one.name), std::move(made.request)});
        }
      }
    }
  }
  const auto fits = [&](const CompileRequest& request, const CompiledKernel& kernel) {
    const Shared& asked = shared.at(request.arch + request.source);
    const int64_t all = asked.dynamic + StaticBytes(kernel.log);
    if (all <= asked.limit) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(all, " bytes of shared memory, a block has ", asked.limit));
  };
  for (const testing::SweepResult& result : testing::CompileSweep(kernels, fits)) {
    EXPECT_TRUE(result.compiled.ok()) << result.kernel->name << ": " << result.compiled.status();
  }
}

}  // namespace
}  // namespace sinter
