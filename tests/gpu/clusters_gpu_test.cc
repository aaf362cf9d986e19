// Clusters that share M tiles by ranges of N: schedules over the whole space, rows that end
// anywhere, launches one behind another on one workspace, with and without pauses; spins trap.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/fusion/ffn_plans.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/plan_build.h"

namespace sinter::gpu_testing {
namespace {

constexpr size_t kSchedules = 14, kPaused = 4;  // of each chain and number of rows
constexpr int kBehindOneAnother = 40;

// Plain and gated, either layout and dtype, ragged columns, biases, a residual.
std::vector<FfnSpec> Specs() {
  FfnSpec plain;
  plain.n = 1544;
  plain.k = 328;
  plain.l = 523;
  plain.act = Activation::kRelu;
  plain.bias1 = plain.bias2 = true;
  FfnSpec gated = plain;
  gated.gated = true;
  gated.n = 1032;
  gated.l = 264;
  gated.act = Activation::kSilu;
  gated.dtype = DType::kF16;
  gated.bias1 = false;
  gated.residual = true;
  FfnSpec io = gated;
  io.layout = Layout::kIO;
  io.dtype = DType::kBF16;
  io.rounds_sum = true;
  FfnSpec wide;
  wide.n = 3072;
  wide.k = 256;
  wide.l = 1024;
  wide.act = Activation::kGeluErf;
  return {plain, gated, io, wide};
}

std::vector<Plan> PlansOf(const Chain& chain, const DeviceModel& model, int64_t rows,
                          size_t count) {
  const int64_t bucket = BucketOf(rows);
  const FfnProblem problem = ProblemOf(ViewAsFfn(chain).value(), bucket);
  SearchOptions options;
  options.cluster_ranges = true;
  std::vector<Schedule> ranges;
  for (const Schedule& s : LegalSchedules(problem, model, Dataflow::kClusterExchange, options)) {
    if (s.clusters_n > 1) ranges.push_back(s);
  }
  std::vector<Plan> plans;
  for (const Schedule& s : Spread(ranges, count)) {
    plans.push_back(FusedPlanOf(chain, bucket, s).value());
  }
  return plans;
}

class Clusters : public GpuTest {
 protected:
  static void RunAll(int64_t rows, bool jitter) {
    size_t ran = 0, refused = 0;
    for (const FfnSpec& spec : Specs()) {
      const auto chain = std::make_shared<const Chain>(MakeFfnChain(spec).value());
      const std::vector<Plan> plans =
          PlansOf(*chain, ports().model, rows, jitter ? kPaused : kSchedules);
      ASSERT_FALSE(plans.empty()) << NameOf(spec);
      BuildOptions options;
      options.codegen.trap_spins = true;
      options.codegen.jitter = jitter;
      const auto built = BuildPlans(ports(), chain, plans, options);
      const auto data = DeviceChain::Make(ports(), *chain, rows, 23);
      ASSERT_OK(data);
      for (size_t i = 0; i < plans.size(); ++i) {
        SCOPED_TRACE(absl::StrCat(NameOf(spec), "\n", plans[i].ToText()));
        // A test build may need more registers than there are.
        if (!built[i].ok()) {
          std::printf("passed over: %s\n", std::string(built[i].status().message()).c_str());
          ++refused;
          continue;
        }
        Run(**data, *built[i], rows);
        if (HasFatalFailure()) return;
        ++ran;
      }
    }
    std::printf("%zu schedules ran, %zu were refused\n", ran, refused);
    EXPECT_GT(ran, refused);
  }

  // Right for any number of rows; then many launches behind one another, of which the last one's
  // bytes are the first one's.
  static void Run(DeviceChain& data, const LoadedPlanPtr& plan, int64_t rows) {
    const auto run = data.Bind(plan);
    ASSERT_OK(run);
    std::string first;
    for (int64_t m : {rows, rows - 1, rows / 2 + 1, int64_t{1}}) {
      const auto output = data.Run(*run, m);
      ASSERT_OK(output);
      ASSERT_OK(data.Check(*output, m)) << "m " << m;
      if (m == rows) first = *output;
    }
    for (const bool pdl : {false, true}) {
      ASSERT_OK(data.Poison(*run));
      ASSERT_OK(ports().measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
        for (int i = 1; i < kBehindOneAnother; ++i) {
          SINTER_RETURN_IF_ERROR(run->launch(stream, i % 3 == 0 ? rows / 2 : rows, pdl));
        }
        return run->launch(stream, rows, pdl);
      }));
      const auto last = data.DownloadOutput();
      ASSERT_OK(last);
      ASSERT_TRUE(*last == first) << "launches behind one another differ, pdl " << pdl;
    }
  }
};

TEST_F(Clusters, FewRows) { RunAll(16, false); }
TEST_F(Clusters, SomeRows) { RunAll(64, false); }
TEST_F(Clusters, ManyRows) { RunAll(200, false); }
TEST_F(Clusters, FewRowsWithPauses) { RunAll(24, true); }
TEST_F(Clusters, ManyRowsWithPauses) { RunAll(128, true); }

}  // namespace
}  // namespace sinter::gpu_testing
