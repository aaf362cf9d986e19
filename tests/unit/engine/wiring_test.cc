// The engine plugged in: real planner, code generator, compiler and cache, for a named target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "src/base/status.h"
#include "src/chain/problem.h"
#include "src/codegen/codegen.h"
#include "src/engine/cache_tools.h"
#include "src/engine/core.h"
#include "src/engine/engine.h"
#include "src/engine/tuned_choice.h"
#include "src/fusion/fusion.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

Config ConfigIn(const std::string& folder) {
  Config config;
  const std::filesystem::path dir = std::filesystem::path(::testing::TempDir()) / folder;
  std::filesystem::remove_all(dir);
  config.cache_dir = dir.string();
  return config;
}

std::shared_ptr<Engine> TargetEngine(const Config& config) {
  Ports ports = MakePorts(config, -1, "h200", LogSink()).value();
  return Engine::Create(std::move(ports), config, LogSink());
}

TEST(WiringTest, ATargetIsABuiltInNameOrAModelsText) {
  const Config config = ConfigIn("wiring_target");
  const Ports named = MakePorts(config, -1, "h200", LogSink()).value();
  EXPECT_EQ(named.model.name, "h200");
  EXPECT_EQ(named.loader, nullptr);
  EXPECT_EQ(named.measurer, nullptr);
  EXPECT_THAT(named.no_gpu_reason, HasSubstr("'h200'"));
  EXPECT_FALSE(named.compiler->Loaded());
  const Ports text = MakePorts(config, -1, named.model.ToText(), LogSink()).value();
  EXPECT_EQ(text.model.ModelDigest(), named.model.ModelDigest());
}

TEST(WiringTest, BadTargetsAreRefused) {
  const Config config = ConfigIn("wiring_bad");
  EXPECT_FALSE(MakePorts(config, -1, "b200", LogSink()).ok());
  EXPECT_FALSE(MakePorts(config, -1, "name = x", LogSink()).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(MakePorts(config, -1, "", LogSink()).status()));
}

TEST(WiringTest, ADriverThatIsNotThereIsUnavailable) {
  Config config = ConfigIn("wiring_driver");
  config.driver_path = "/nonexistent/libcuda.so.1";
  EXPECT_TRUE(absl::IsUnavailable(MakePorts(config, 0, "", LogSink()).status()));
}

TEST(WiringTest, WithoutACompilerAMissIsUnavailable) {
  Config config = ConfigIn("wiring_compiler");
  config.nvrtc_path = "/nonexistent/libnvrtc.so";
  const auto engine = TargetEngine(config);
  const Problem problem =
      ParseProblem("gemm_chain m=16 n=256 k=256 l=256 act=relu layout=oi dtype=bf16").value();
  EXPECT_TRUE(absl::IsUnavailable(engine->Prepare(problem.chain, 16, {}).status()));
}

// With the real planner, checks and code generator: whatever tuning may measure can be recorded and
// taken again.
TEST(WiringTest, EveryPlanOfARankingCanBecomeATuningEntry) {
  PlanningHooks hooks;
  hooks.plan = PlanChain;
  hooks.generate = [](const KernelSpec& spec, const DeviceModel& model) {
    return Generate(spec, model);
  };
  hooks.device_library = DeviceLibraryDigest();
  Ports ports = MakePorts(ConfigIn("wiring_entries"), -1, "h200", LogSink()).value();
  const EngineCore core(std::move(ports), Config(), LogSink(), std::move(hooks));
  for (const char* line : {"gated_ffn m=16 n=512 k=256 l=256 act=silu layout=oi dtype=bf16",
                           "gemm_chain m=128 n=768 k=768 l=768 act=relu layout=io dtype=f16"}) {
    const Problem problem = ParseProblem(line).value();
    PlanRequest request;
    request.chain = &problem.chain;
    request.bucket = BucketOf(*problem.m);
    const FusionResult ranking =
        PlanChain(problem.chain, request.bucket, core.ports.model, FusionOptions()).value();
    std::vector<Plan> plans = ranking.alternatives;
    plans.push_back(ranking.chosen);
    ASSERT_GT(plans.size(), 2u);
    TuningSet set;
    for (const Plan& plan : plans) {
      set.Add(MakeTuningEntry(request, core, plan).value());
      set = TuningSet::FromText(set.ToText()).value();
      const absl::StatusOr<Plan> again =
          PlanOfEntry(*set.Find(TuningKeyOf(request, core)), request, ranking, core);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->PlanDigest(), plan.PlanDigest());
    }
    EXPECT_EQ(set.entries().size(), 1u);
  }
}

TEST(WiringTest, ASecondEngineOnTheSameFolderSearchesAndCompilesNothing) {
  const Config config = ConfigIn("wiring_warm");
  const Problem problem =
      ParseProblem("gated_ffn m=16 n=512 k=256 l=256 act=silu layout=oi dtype=bf16").value();
  const auto cold = TargetEngine(config);
  const auto first = cold->Prepare(problem.chain, 16, {});
  if (absl::IsUnavailable(first.status())) GTEST_SKIP() << first.status();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT(cold->Stats().kernels_compiled, 0u);
  cold->ports().cache_tools->Flush();

  const auto warm = TargetEngine(config);
  const auto second = warm->Prepare(problem.chain, 16, {}).value();
  EXPECT_EQ(second->ChosenDigest(), (*first)->ChosenDigest());
  EXPECT_EQ(second->plan().PlanDigest(), (*first)->plan().PlanDigest());
  const EngineStats stats = warm->Stats();
  EXPECT_EQ(stats.searched, 0u);
  EXPECT_EQ(stats.kernels_compiled, 0u);
  EXPECT_FALSE(stats.nvrtc_loaded);
  EXPECT_EQ(stats.store.local_hits, 1u + second->plan().kernels.size());
}

}  // namespace
}  // namespace sinter
