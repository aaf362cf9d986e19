// The 18 chains that Sinter is measured on, at their full size: both plans, both layouts, three
// seeds, many runs.
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::correctness {
namespace {

constexpr int64_t kRows = 128;
constexpr uint64_t kSeeds[] = {1, 2, 3};

struct Problem {
  const char* id;
  bool gated;
  int64_t n, k, l;
};
constexpr Problem kProblems[] = {
    {"G1", false, 512, 32, 256},      {"G2", false, 256, 512, 64},
    {"G3", false, 512, 416, 256},     {"G4", false, 3072, 768, 768},
    {"G5", false, 16384, 4096, 4096}, {"G6", false, 4096, 1024, 1024},
    {"G7", false, 768, 768, 768},     {"G8", false, 8192, 2048, 2048},
    {"G9", false, 2048, 512, 512},    {"G10", false, 1536, 384, 384},
    {"S1", true, 8192, 3072, 3072},   {"S2", true, 5632, 2048, 2048},
    {"S3", true, 11008, 4096, 4096},  {"S4", true, 8192, 2048, 2048},
    {"S5", true, 11008, 2048, 2048},  {"S6", true, 8960, 1536, 1536},
    {"S7", true, 9728, 2560, 2560},   {"S8", true, 3072, 1024, 1024},
};

struct Param {
  Problem problem;
  Layout layout;
};

void PrintTo(const Param& param, std::ostream* out) {
  *out << param.problem.id << " " << sinter::NameOf(param.layout);
}

std::vector<Param> AllParams() {
  std::vector<Param> params;
  for (Layout layout : {Layout::kOI, Layout::kIO}) {
    for (const Problem& problem : kProblems) params.push_back({problem, layout});
  }
  return params;
}

std::string ParamName(const ::testing::TestParamInfo<Param>& info) {
  return absl::StrCat(info.param.problem.id, "_", sinter::NameOf(info.param.layout));
}

absl::StatusOr<Chain> ChainOf(const Param& param) {
  FfnSpec spec{.gated = param.problem.gated,
               .n = param.problem.n,
               .k = param.problem.k,
               .l = param.problem.l};
  spec.act = spec.gated ? Activation::kSilu : Activation::kRelu;
  spec.layout = param.layout;
  return MakeFfnChain(spec);
}

class Problems : public GpuTest, public ::testing::WithParamInterface<Param> {
 protected:
  // Compiles the kernels of all tests that will run, on all cores; the engine remembers them.
  static void SetUpTestSuite() {
    GpuTest::SetUpTestSuite();
    if (engine() == nullptr) return;
    const ::testing::TestSuite* suite = ::testing::UnitTest::GetInstance()->current_test_suite();
    const std::vector<Param> params = AllParams();
    std::vector<Chain> chains;
    for (int i = 0; i < suite->total_test_count() && i < static_cast<int>(params.size()); ++i) {
      if (!suite->GetTestInfo(i)->should_run()) continue;
      absl::StatusOr<Chain> chain = ChainOf(params[static_cast<size_t>(i)]);
      if (chain.ok()) chains.push_back(*std::move(chain));
    }
    std::vector<PlanJob> jobs;
    for (const Chain& chain : chains) {
      jobs.push_back({&chain, kRows, PrepareOptions::Choice::kFused});
      jobs.push_back({&chain, kRows, PrepareOptions::Choice::kUnfused});
    }
    PrepareAll(engine(), jobs);
  }
};

TEST_P(Problems, BothPlansStayWithinBothBounds) {
  const Chain chain = Got(ChainOf(GetParam()));
  const std::vector<absl::StatusOr<PreparedPlanPtr>> plans =
      PrepareAll(engine(), {{&chain, kRows, PrepareOptions::Choice::kFused},
                            {&chain, kRows, PrepareOptions::Choice::kUnfused}});
  ASSERT_OK(plans[0]);
  ASSERT_OK(plans[1]);
  EXPECT_EQ((*plans[0])->plan().name(), "fused");
  EXPECT_EQ((*plans[1])->plan().name(), "unfused");
  for (uint64_t seed : kSeeds) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const auto data = Got(DeviceChain::Make(ports(), chain, kRows, seed));
    for (const auto& plan : plans) ExpectCorrect(*data, *plan, kRows, Repeats());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Problems, ::testing::ValuesIn(AllParams()), ParamName);

}  // namespace
}  // namespace sinter::gpu_testing::correctness
