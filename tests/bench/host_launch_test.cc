// Recorded launches are what the driver was given.
#include "tests/bench/host_launch.h"

#include "runtime/launch/binding.h"
#include "runtime/measure/probes.h"
#include "tests/fakes/fake_cubin.h"
#include "tests/fakes/fake_driver.h"
#include "tests/support/test.h"

namespace sinter::bench {
namespace {

LaunchRecipe TwoArguments() {
  return LaunchRecipe{.entry = "k",
                      .grid = {16, 1, 1},
                      .block = {128, 1, 1},
                      .cluster = {2, 1, 1},
                      .args = {{ArgKind::kPointer, 0, 0, 0, 0}, {ArgKind::kSymbolM, 0, 0, 0, 0}}};
}

TEST(HostLaunch, BareLaunchesAreTheLibrarysOwn) {
  FakeDriver fake;
  fake.kernel.param_sizes = {8, 4};
  const auto device = Device::Open(*Driver::FromTable(RecordingTable(fake.Table())), 0).value();
  const auto loader = MakeLoader(device).value();
  const auto measurer = MakeMeasurer(device).value();
  const LaunchRecipe recipe = TwoArguments();
  const auto kernel = loader->Load(FakeCubin("k"), recipe).value();
  const DevicePtr buffer = 0x10000;
  const auto bound = kernel->Bind(recipe, {&buffer, 1, 0}).value();
  std::vector<BareLaunch> bare;
  const auto launch = [&](StreamHandle stream, int64_t fewer) {
    return kernel->Launch(*bound, stream, 9 - fewer, 0, false);
  };
  ASSERT_TRUE(measurer
                  ->RunAndWait([&](StreamHandle stream) {
                    auto recorded = RecordLaunches([&]() -> absl::Status {
                      const absl::Status first = launch(stream, 0);
                      return first.ok() ? launch(stream, 1) : first;
                    });
                    if (recorded.ok()) bare = *std::move(recorded);
                    return recorded.status();
                  })
                  .ok());
  ASSERT_EQ(bare.size(), 2u);
  const std::vector<FakeLaunch> seen = fake.launches();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(bare[i].params, seen[i].params);
    EXPECT_EQ(bare[i].config.gridDimX, 16u);
    ASSERT_EQ(bare[i].attributes.size(), 1u);
    EXPECT_EQ(bare[i].attributes[0].value.clusterDim.x, 2u);
  }
  bare.pop_back();
  const auto times = Got(MeasureHost(measurer.get(), bare, launch));
  EXPECT_GT(times.bare_us, 0);
  EXPECT_GT(times.launch_us, 0);
  const std::vector<FakeLaunch> all = fake.launches();
  size_t same = 0;
  for (const FakeLaunch& one : all) same += one.params == seen[0].params ? 1 : 0;
  EXPECT_GT(same, all.size() / 2);  // both ways but the one with other rows
  EXPECT_LT(same, all.size());
}

TEST(HostLaunch, ADriverThatDoesNotTellSizesIsUnavailable) {
  FakeDriver fake;  // without param_sizes it has no cuFuncGetParamInfo
  (void)RecordingTable(fake.Table());
  EXPECT_TRUE(absl::IsUnavailable(RecordLaunches([] { return absl::OkStatus(); }).status()));
}

TEST(HostLaunch, TheAimGrowsByKernel) {
  EXPECT_DOUBLE_EQ(HostAimUs(1), 0.5);
  EXPECT_DOUBLE_EQ(HostAimUs(4), 1.7);
}

}  // namespace
}  // namespace sinter::bench
