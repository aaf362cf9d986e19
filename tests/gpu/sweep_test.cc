#include "tests/gpu/sweep_test.h"

namespace sinter::gpu_testing {

void SweepTest::Sweep(const std::vector<FfnSpec>& specs, Dataflow dataflow, size_t count,
                      bool jitter, uint64_t seed, const Run& run) {
  size_t ran = 0;
  for (const FfnSpec& spec : specs) {
    const auto chain = std::make_shared<const Chain>(MakeFfnChain(spec).value());
    const std::vector<Plan> plans =
        SpreadPlans(*chain, BucketOf(kRows), ports().model, dataflow, count);
    BuildOptions options;
    options.codegen.jitter = jitter;
    const auto built = BuildPlans(ports(), chain, plans, options);
    const auto data = Got(DeviceChain::Make(ports(), *chain, kRows, seed));
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(NameOf(spec), "\n", plans[i].ToText()));
      // With pauses a kernel may need registers that there are not.
      if (jitter && !built[i].ok()) continue;
      ASSERT_OK(built[i]);
      run(*data, *built[i]);
      if (HasFatalFailure()) return;
      ++ran;
    }
  }
  std::printf("%zu schedules ran\n", ran);
  EXPECT_GT(ran, 0u);
}

}  // namespace sinter::gpu_testing
