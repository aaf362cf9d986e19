// What GPU tests share: an engine on GPU 0, parallel preparing, and how often to repeat.
#pragma once

#include "src/chain/composites.h"
#include "tests/gpu/device_chain.h"
#include "tests/gpu/plan_build.h"
#include "tests/support/read_ffn.h"
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

  // Runs a plan `repeats` times at each number of rows: within the bounds, guards whole, always the
  // same bytes.
  static void ExpectRows(DeviceChain& data, const BoundRun& run, absl::Span<const int64_t> ms,
                         int repeats = 1);
  static void ExpectRows(DeviceChain& data, const LoadedPlanPtr& plan, absl::Span<const int64_t> ms,
                         int repeats = 1);
  static void ExpectCorrect(DeviceChain& data, PreparedPlanPtr plan, int64_t m, int repeats);

  // The plan of each bucket up to that of `most` rows, and each number of rows up to it with the
  // plan of its bucket.
  static std::map<int64_t, PreparedPlanPtr> PlansOfBuckets(const Chain& chain, int64_t most,
                                                           PrepareOptions::Choice choice);
  static void ExpectEveryM(DeviceChain& data, int64_t most,
                           const std::map<int64_t, PreparedPlanPtr>& plan_of_bucket);

  // Plans of a chain by hand, which are run on data of `rows` rows that `seed` draws.
  struct HandPlans {
    std::shared_ptr<const Chain> chain;
    std::vector<Plan> plans;
    int64_t rows;
    uint64_t seed;
    BuildOptions options = {};
    bool may_be_refused = false;  // a test build may need more registers than there are
  };
  struct PlanCounts {
    size_t ran = 0, refused = 0;
  };
  using RunPlan = std::function<void(DeviceChain& data, const LoadedPlanPtr& plan)>;
  static PlanCounts RunPlans(const HandPlans& hand, const RunPlan& run);

 private:
  static std::shared_ptr<Engine> engine_;
};

}  // namespace sinter::gpu_testing
