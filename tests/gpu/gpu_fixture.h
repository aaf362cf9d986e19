// What GPU tests share: an engine on GPU 0, parallel preparing, and how often to repeat.
#pragma once

#include "src/chain/composites.h"
#include "tests/gpu/device_chain.h"
#include "tests/support/test.h"

namespace sinter::gpu_testing {

// The environment's configuration without a local cache: kernels of earlier builds are not tested.
Config TestConfig();
absl::StatusOr<std::shared_ptr<Engine>> MakeEngine();
LogSink StderrLog();

// SINTER_GPU_REPEATS, or `fallback`.
int Repeats(int fallback = 20);

struct PlanJob {
  const Chain* chain;  // outlives the job
  int64_t m;
  PrepareOptions::Choice choice;
  bool batch_invariant = false;
};
using PreparedPlanPtr = std::shared_ptr<const PreparedPlan>;
// Prepares all jobs on all cores; results in their order.
std::vector<absl::StatusOr<PreparedPlanPtr>> PrepareAll(Engine* engine,
                                                        const std::vector<PlanJob>& jobs);

// "gated_silu_io_bf16_n3072_k1024_l1024", with "_b1" and "_b2" for biases, "_s" for scales, "_f1"
// and "_f2" for factors of rows and "_r" for a residual: a test's name.
std::string NameOf(const FfnSpec& spec);

// One engine for all tests of a suite.
class GpuTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  // Null, after a failure, when there is no usable engine.
  static Engine* engine() { return engine_.get(); }
  static const Ports& ports() { return engine_->ports(); }
  void SetUp() override { ASSERT_NE(engine_, nullptr) << "no engine on GPU 0"; }

  // Prepares, runs and checks `repeats` times: within the bounds, guards whole, always the same
  // bytes.
  static void ExpectCorrect(DeviceChain& data, PreparedPlanPtr plan, int64_t m, int repeats);

 private:
  static std::shared_ptr<Engine> engine_;
};

}  // namespace sinter::gpu_testing
