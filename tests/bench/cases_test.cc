#include "src/plan/kernel_code.h"
#include "src/reference/reference.h"
#include "tests/bench/case_parts.h"
#include "tests/bench/schedule_runs.h"
#include "tests/bench/search_quality.h"
#include "tests/bench/statistics.h"
#include "tests/support/pointers.h"
#include "tests/support/test.h"

namespace sinter::bench {
namespace {

std::vector<Case> Convolutions(const std::string& layout) {
  return Got(LoadCases({"tests/bench/problems/conv_chains.txt"}, {}, layout));
}

TEST(LoadCases, TakesConvolutionsOnceInEveryLayout) {
  for (const char* layout : {"oi", "io", "both", "file"}) {
    EXPECT_EQ(Convolutions(layout).size(), 8u) << layout;
  }
  EXPECT_EQ(Got(LoadCases({"tests/bench/problems/gemm_chains.txt"}, {"G1"}, "both")).size(), 2u);
}

// Pixels count once, however many windows hold them.
TEST(LoadCases, LimitsOfConvolutionsCountTheImages) {
  const DeviceModel model = *BuiltinModel("h200");
  const double limits[] = {2.29, 2.29, 2.34, 3.00, 2.53, 2.42, 2.55, 3.59};
  const std::vector<Case> cases = Convolutions("file");
  ASSERT_EQ(cases.size(), 8u);
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_NEAR(cases[i].LimitUs(model), limits[i], 0.01) << cases[i].id;
  }
  EXPECT_NEAR(cases[5].Flop(), 0.334e9, 1e6);
}

// What --rank=50 measures of a convolution chain.
TEST(LoadCases, FiftySchedulesOfAConvolutionChainAreRanked) {
  const std::vector<Case> cases = Convolutions("file");
  for (const Case& c : cases) {
    if (c.id != "C1" && c.id != "C6") continue;
    const auto space = Got(LegalSpaceOf(c.matched.sequence, *BuiltinModel("h200")));
    std::vector<double> times;
    for (const PlacedSchedule& s : space.schedules) times.push_back(s.ranked.prediction.total_us);
    const std::vector<size_t> picked = Stratified(times, 50, Strata::kTime, 1);
    EXPECT_EQ(std::set<size_t>(picked.begin(), picked.end()).size(), 50u) << c.id;
  }
}

// The cases of one line.
absl::StatusOr<std::vector<Case>> CasesOf(const std::string& line, bool codes = true) {
  const std::string file = testing::TempDir() + "/cases_test.txt";
  std::ofstream(file) << line << "\n";
  return LoadCases({file}, {}, "oi", codes);
}

constexpr char kBlocks[] =
    "B scaled_gated_ffn m=64 n=512 k=512 l=256 act=silu scales=group quantize=group";
constexpr char kRows[] = "R scaled_gated_ffn m=64 n=512 k=512 l=256 act=silu";
constexpr char kLone[] = "L scaled_matmul m=64 n=512 k=1024 scales=group";

TEST(LoadCases, CodesAreOfTheModesThatTakeThem) {
  for (const char* line : {kBlocks, kRows, kLone}) {
    const auto refused = CasesOf(line, false);
    ASSERT_FALSE(refused.ok()) << line;
    EXPECT_TRUE(absl::StrContains(refused.status().message(), "--rank, --sweep, --brute-force"))
        << refused.status();
    EXPECT_TRUE(CasesOf(line).ok()) << line;
  }
}

TEST(CaseParts, AreTheProductsOfThePlan) {
  const auto parts_of = [](const char* line) {
    return Got(PartsOf(Got(CasesOf(line)).front(), *BuiltinModel("h200")));
  };
  const std::vector<Case> rows = parts_of(kRows);  // a quantiser's kernel stands between
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].id, "R/0");
  EXPECT_EQ(rows[1].id, "R/2");
  EXPECT_TRUE(rows[0].matched.sequence.front().pair);
  EXPECT_EQ(rows[1].matched.sequence.front().n, 256);
  EXPECT_EQ(rows[1].Flop(), 2.0 * 64 * 512 * 256);
  EXPECT_EQ(parts_of(kBlocks).size(), 2u);
  const std::vector<Case> lone = parts_of(kLone);
  ASSERT_EQ(lone.size(), 1u);
  EXPECT_EQ(lone[0].id, "L");
  EXPECT_EQ(lone[0].plan, nullptr);
}

// What --rank=50 measures of products of codes: every schedule makes a plan of which each kernel
// has a source, and of which only one kernel is another.
TEST(CaseParts, FiftySchedulesOfEachAreRanked) {
  const DeviceModel model = *BuiltinModel("h200");
  for (const char* line : {kBlocks, kRows, kLone}) {
    const auto parts = Got(PartsOf(Got(CasesOf(line)).front(), model));
    for (const Case& part : parts) {
      const auto space = Got(LegalSpaceOf(part.matched.sequence, model));
      std::vector<double> times;
      for (const PlacedSchedule& s : space.schedules) times.push_back(s.ranked.prediction.total_us);
      std::set<size_t> picked;
      for (size_t i : Stratified(times, 50, Strata::kTime, 1)) {
        picked.insert(i);
        const RankedSchedule& ranked = space.schedules[i].ranked;
        const Plan plan = PlanOf(part, ranked);
        const size_t kernel = part.plan == nullptr ? 0 : static_cast<size_t>(part.kernel);
        EXPECT_EQ(plan.kernels.size(), part.plan == nullptr ? 1 : part.plan->kernels.size());
        EXPECT_EQ(ProductOf(plan.kernels[kernel].spec).schedule, ranked.schedule);
        for (const PlannedKernel& one : plan.kernels) {
          const auto generated = Got(Generate(one.spec, model));
        }
      }
      EXPECT_EQ(picked.size(), 50u) << part.id;
    }
  }
}

// The reference takes what a kernel stores, within the bounds of codes, and nothing else.
TEST(Expected, JudgesChainsOfCodes) {
  for (const char* line : {"R scaled_gated_ffn m=80 n=128 k=128 l=128 act=silu",
                           "L scaled_matmul m=80 n=128 k=256 scales=group"}) {
    const auto cases = Got(CasesOf(line));
    const Case& c = cases.front();
    const auto inputs = Got(RandomInputs(c.chain, c.m, 1));
    const auto expected = Got(Expected::Make(c, inputs, 0, 1));
    std::string output(static_cast<size_t>(*OutputBytes(c.chain, 0, c.m)), '\0');
    ASSERT_TRUE(RunReference(c.chain, c.m, PointersTo(inputs), {&output[0]}).ok());
    EXPECT_TRUE(expected.Compare(c, output)->Within(expected.bounds())) << line;
    for (char& byte : output) byte ^= 0x10;
    EXPECT_FALSE(expected.Compare(c, output)->Within(expected.bounds())) << line;
  }
}

}  // namespace
}  // namespace sinter::bench
