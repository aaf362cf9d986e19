// A launch allocates nothing in the engine, whatever its plan is made of and however many rows it
// takes: global operator new is counted here. The driver's side:
// tests/unit/runtime/launch_alloc_test.cc.
#include "tests/support/counted_new.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using testing::t_allocations;

constexpr int64_t kRows[] = {1, 100, kLargestBucket, kLargestBucket + 1, 3 * kLargestBucket + 5};

// rmsnorm(x), then two products, then a softmax of each row.
Chain Mixture() {
  ChainBuilder builder;
  const TensorType rows{DType::kBF16, {Dim::M(), Dim::Constant(512)}};
  ValueId value = *AddRmsNorm(builder, *builder.Input(rows), 1e-6);
  for (int i = 0; i < 2; ++i) {
    const ValueId w = *builder.Input({DType::kBF16, {Dim::Constant(512), Dim::Constant(512)}},
                                     {.constant = true});
    value = *AddLinear(builder, value, w, kNoValue, Layout::kOI);
  }
  value = *AddSoftmax(builder, value, 1);
  return Finished(builder, {value});
}

void ExpectNoAllocations(const Chain& chain, bool products, bool stitched) {
  FakeWorld world{.chain = chain, .plan = PlanChain};
  world.generate = [](const KernelSpec& spec, const DeviceModel& model) {
    return Generate(spec, model);
  };
  world.record_launches = world.compute = false;
  const std::shared_ptr<Engine> engine = world.MakeEngine();
  const auto plan = Got(engine->Prepare(chain, kLargestBucket, {}));
  bool has_products = false, has_stitched = false;
  for (const PlannedKernel& kernel : plan->plan().kernels) {
    (StitchOf(kernel.spec) == nullptr ? has_products : has_stitched) = true;
  }
  EXPECT_EQ(has_products, products);
  EXPECT_EQ(has_stitched, stitched);
  const auto bound =
      Got(plan->Bind(testing::FarApart(chain.num_inputs() + chain.num_outputs()), 1 << 20));
  for (const int64_t m : kRows) {
    const long before = t_allocations;
    const absl::Status status = plan->Launch(*bound, nullptr, m, true);
    EXPECT_EQ(t_allocations - before, 0) << m << " rows";
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(LaunchAllocations, OfProducts) {
  ExpectNoAllocations(
      ParseProblem("gated_ffn m=M n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16")->chain, true,
      false);
}

TEST(LaunchAllocations, OfStitchedKernels) {
  ExpectNoAllocations(ParseProblem("residual_rmsnorm rows=M cols=1024 eps=1e-6")->chain, false,
                      true);
}

TEST(LaunchAllocations, OfBoth) { ExpectNoAllocations(Mixture(), true, true); }

}  // namespace
}  // namespace sinter
