// A kernel that compiles, runs and computes something else is caught by the self-check, put aside,
// and replaced by the unfused plan.
#include "src/engine/core.h"
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::wrong_kernel {
namespace {

// Whatever the times say, so that the wrong kernel is what planning wants.
void ChooseFused(FusionResult* result) {
  for (Plan& plan : result->alternatives) {
    if (result->chosen.fused) return;
    if (plan.fused) std::swap(plan, result->chosen);
  }
}

// The default hooks, but every kernel of two products gets another activation.
PlanningHooks WrongChainKernels() {
  PlanningHooks hooks;
  hooks.plan = [](const Chain& chain, int64_t bucket, const DeviceModel& model,
                  const FusionOptions& options) {
    absl::StatusOr<FusionResult> result = PlanChain(chain, bucket, model, options);
    if (result.ok()) ChooseFused(&*result);
    return result;
  };
  hooks.generate = [](const KernelSpec& spec,
                      const DeviceModel& model) -> absl::StatusOr<GeneratedKernel> {
    absl::StatusOr<GeneratedKernel> kernel = Generate(spec, model);
    if (!kernel.ok() || ProductOf(spec).sequence.size() != 2) return kernel;
    const std::string right = "using Activation = Relu;";
    const size_t at = kernel->request.source.find(right);
    if (at == std::string::npos) return absl::InternalError("the source names no Relu");
    kernel->request.source.replace(at, right.size(), "using Activation = Identity;");
    return kernel;
  };
  hooks.assembly = MakePlanAssembly;
  hooks.device_headers = DeviceHeadersDigest();
  return hooks;
}

TEST(WrongKernel, IsCaughtQuarantinedAndReplaced) {
  const Config config = TestConfig();
  std::string logged;
  const LogSink log(LogLevel::kWarn, [&](LogLevel, absl::string_view message) {
    absl::StrAppend(&logged, message, "\n");
  });
  auto ports = Got(MakePorts(config, 0, "", log));
  const std::shared_ptr<Engine> engine =
      CreateEngine(std::move(ports), config, log, WrongChainKernels());
  const Chain chain =
      MakeFfnChain({.n = 768, .k = 768, .l = 768, .act = Activation::kRelu}).value();
  PrepareOptions options{.verify = true};
  ASSERT_OK(engine->Prepare(chain, 128, options));
  EXPECT_GE(engine->Stats().wrong_kernels, 1u);
  EXPECT_NE(logged.find("quarantined"), std::string::npos) << logged;
  EXPECT_NE(logged.find("seed"), std::string::npos) << logged;
  const auto again = Got(engine->Prepare(chain, 128, options));
  EXPECT_EQ(again->plan().name(), "unfused") << again->Explain();
  const auto data = Got(DeviceChain::Make(engine->ports(), chain, 128, 9));
  const auto run = Got(data->Bind(again));
  EXPECT_OK(data->Check(Got(data->Run(run, 128)), 128));
}

TEST(WrongKernel, IsWrongByTheBoundsOfTheseTests) {
  const Config config = TestConfig();
  auto ports = Got(MakePorts(config, 0, "", LogSink()));
  const std::shared_ptr<Engine> engine =
      CreateEngine(std::move(ports), config, LogSink(), WrongChainKernels());
  const Chain chain =
      MakeFfnChain({.n = 768, .k = 768, .l = 768, .act = Activation::kRelu}).value();
  const auto plan = Got(engine->Prepare(chain, 128, {.choice = PrepareOptions::Choice::kFused}));
  const auto data = Got(DeviceChain::Make(engine->ports(), chain, 128, 9));
  const auto run = Got(data->Bind(plan));
  EXPECT_EQ(data->Check(Got(data->Run(run, 128)), 128).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace sinter::gpu_testing::wrong_kernel
