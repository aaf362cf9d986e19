// A launch allocates nothing: global operator new is counted here.
#include "tests/support/counted_new.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

using testing::t_allocations;

TEST(LaunchAllocations, ALaunchAllocatesNothing) {
  FakeDriver fake;
  fake.kernel = ExampleKernel();
  const auto device = OpenFake(fake);
  const auto loader = MakeLoader(device);
  LaunchRecipe recipe = ExampleRecipe();
  recipe.cluster = {8, 1, 1};
  recipe.cooperative = true;
  recipe.pdl = true;
  const auto kernel = Got((*loader)->Load(FakeCubin("k"), recipe));
  const auto bound = Got(kernel->Bind(recipe, ExampleBuffers()));
  fake.SetRecording(false);
  // Once with our context current, once pushing it; the first round lets the fake know the thread.
  for (const bool current : {false, true}) {
    if (current) fake.Table().CtxPushCurrent(device->context());
    const long before = t_allocations;
    for (int64_t m = 1; m < 100; ++m) {
      ASSERT_TRUE(kernel->Launch(*bound, nullptr, m, m * 16, true).ok());
    }
    EXPECT_EQ(t_allocations - before, 0) << (current ? "current" : "pushed");
  }
  const long before = t_allocations;
  ASSERT_TRUE((*loader)->IsCapturing(nullptr).ok());
  EXPECT_EQ(t_allocations - before, 0);
}

}  // namespace
}  // namespace sinter
