#include "tests/gpu/sweep_test.h"

namespace sinter::gpu_testing {

void SweepTest::Sweep(const std::vector<FfnSpec>& specs, Dataflow dataflow, size_t count,
                      bool jitter, uint64_t seed, const RunPlan& run) {
  size_t ran = 0;
  for (const FfnSpec& spec : specs) {
    SCOPED_TRACE(NameOf(spec));
    HandPlans hand{std::make_shared<const Chain>(MakeFfnChain(spec).value()), {}, kRows, seed};
    hand.plans = SpreadPlans(*hand.chain, BucketOf(kRows), ports().model, dataflow, count);
    hand.options.codegen.jitter = hand.may_be_refused = jitter;
    ran += RunPlans(hand, run).ran;
    if (HasFatalFailure()) return;
  }
  std::printf("%zu schedules ran\n", ran);
  EXPECT_GT(ran, 0u);
}

}  // namespace sinter::gpu_testing
