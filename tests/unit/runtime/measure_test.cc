#include "runtime/measure/probes.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

class MeasureTest : public ::testing::Test {
 protected:
  MeasureTest() {
    fake.kernel = ExampleKernel();
    device = OpenFake(fake);
    loader = std::move(*MakeLoader(device));
    kernel = *loader->Load(FakeCubin("k"), ExampleRecipe());
    bound = std::move(*kernel->Bind(ExampleRecipe(), ExampleBuffers()));
    measurer = std::move(*MakeMeasurer(device));
  }

  FakeDriver fake;
  std::shared_ptr<const Device> device;
  std::unique_ptr<Loader> loader;
  std::shared_ptr<LoadedKernel> kernel;
  std::unique_ptr<BoundKernel> bound;
  std::unique_ptr<Measurer> measurer;
};

TEST_F(MeasureTest, CopiesAndFills) {
  const auto buffer = Got(measurer->Allocate(16));
  ASSERT_TRUE(measurer->Fill(buffer, 0xab).ok());
  ASSERT_TRUE(measurer->Upload(buffer, "hello", 5).ok());
  std::string back(16, '\0');
  ASSERT_TRUE(measurer->Download(&back[0], buffer, 16).ok());
  EXPECT_EQ(back, "hello" + std::string(11, '\xab'));
  EXPECT_EQ(measurer->Upload(buffer, "x", 17).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(measurer->Download(&back[0], buffer, 17).code(), absl::StatusCode::kOutOfRange);
  measurer->Free(buffer);
  measurer->Free(DeviceBuffer());
  EXPECT_EQ(fake.live().allocations, 0);
}

TEST_F(MeasureTest, AnEmptyBufferIsABuffer) {
  const auto buffer = Got(measurer->Allocate(0));
  EXPECT_TRUE(measurer->Fill(buffer, 1).ok());
  EXPECT_TRUE(measurer->Upload(buffer, nullptr, 0).ok());
  measurer->Free(buffer);
}

TEST_F(MeasureTest, TimesOneCallOfAGraphOfMany) {
  fake.launch_us = 7;
  std::vector<int> indices;
  const auto us = measurer->TimeGraph({[&](StreamHandle stream, int i) {
                                        indices.push_back(i);
                                        return kernel->Launch(*bound, stream, 4, 0, false);
                                      }},
                                      20, 15);
  ASSERT_TRUE(us.ok()) << Text(us.status());
  EXPECT_NEAR(*us, 7.0, 1e-4);
  EXPECT_EQ(indices.size(), 20u);
  EXPECT_EQ(indices.back(), 19);
  EXPECT_TRUE(fake.launches().back().captured);
  EXPECT_EQ(fake.live().graphs + fake.live().execs, 0);
}

TEST_F(MeasureTest, TheMedianIgnoresAnOutlier) {
  int replay = 0;
  fake.on_launch = [&](const FakeLaunch&) {
    fake.launch_us = ++replay == 3 ? 1000 : 6;
    return CUDA_SUCCESS;
  };
  const auto us = measurer->TimeGraph(
      {[&](StreamHandle stream, int) { return kernel->Launch(*bound, stream, 4, 0, false); }}, 1,
      9);
  ASSERT_TRUE(us.ok());
  EXPECT_NEAR(*us, 6.0, 1e-4);
}

TEST_F(MeasureTest, AFailingEnqueueEndsTheCaptureAndIsReported) {
  const auto us =
      measurer->TimeGraph({[&](StreamHandle, int i) {
                            return i == 1 ? absl::InternalError("no more") : absl::OkStatus();
                          }},
                          3, 3);
  EXPECT_THAT(Text(us.status()), HasSubstr("no more"));
  EXPECT_EQ(fake.live().graphs, 0);
  EXPECT_TRUE(measurer->RunAndWait([](StreamHandle) { return absl::OkStatus(); }).ok());
}

TEST_F(MeasureTest, RefusesToTimeNothing) {
  const GraphCalls nothing{[](StreamHandle, int) { return absl::OkStatus(); }};
  EXPECT_EQ(measurer->TimeGraph(nothing, 0, 5).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(measurer->TimeGraph(nothing, 5, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MeasureTest, AFaultIsAnErrorOfTheRunThatCausedIt) {
  const absl::Status status = measurer->RunAndWait([&](StreamHandle stream) {
    const absl::Status launched = kernel->Launch(*bound, stream, 4, 0, false);
    fake.FailCall(1, CUDA_ERROR_ILLEGAL_ADDRESS);  // what the wait reports
    return launched;
  });
  EXPECT_EQ(DriverResultOf(status), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// What one call of `kernel` adds.
GraphCalls NodesOf(const LoadedKernel& kernel, const BoundKernel& bound) {
  return {[](StreamHandle, int) { return absl::InternalError("captured"); },
          [&](GraphHandle graph, const NodeEdges& edges, int) -> absl::StatusOr<NodeEdges> {
            SINTER_ASSIGN_OR_RETURN(const GraphNodeHandle node,
                                    kernel.AddNode(bound, graph, edges, 4, 0));
            return NodeEdges{{node}};
          }};
}

// A capture would fail other threads that wait for the context meanwhile.
TEST_F(MeasureTest, CallsThatCanBeNodesAreNotCaptured) {
  fake.launch_us = 7;
  EXPECT_NEAR(Got(measurer->TimeGraph(NodesOf(*kernel, *bound), 20, 3)), 7.0, 1e-4);
  EXPECT_EQ(fake.live().graphs + fake.live().execs, 0);
}

TEST_F(MeasureTest, InTheBackgroundNothingIsCaptured) {
  const auto background = Got(measurer->MakeBackground());
  const GraphCalls captured{[](StreamHandle, int) { return absl::OkStatus(); }};
  EXPECT_EQ(background->MakeGraph(captured, 1).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(background->MakeGraph(NodesOf(*kernel, *bound), 1).ok());
}

TEST_F(MeasureTest, ADriverThatMakesNoNodesMeasuresNothingInTheBackground) {
  DriverTable old = fake.Table();
  old.GraphAddNode = nullptr;
  const auto foreground = Got(MakeMeasurer(Got(Device::Open(*Driver::FromTable(old), 0))));
  const absl::Status status = foreground->MakeBackground().status();
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_THAT(Text(status), HasSubstr("cuGraphAddNode_v2, which came with CUDA 12.3"));
  GraphCalls either = NodesOf(*kernel, *bound);
  either.enqueue = [](StreamHandle, int) { return absl::OkStatus(); };
  EXPECT_TRUE(foreground->TimeGraph(either, 2, 2).ok());  // captured
}

TEST_F(MeasureTest, AGraphIsReplayedAndTimedByItself) {
  fake.launch_us = 7;
  const GraphCalls launch{
      [&](StreamHandle stream, int) { return kernel->Launch(*bound, stream, 4, 0, false); }};
  {
    const auto graph = Got(measurer->MakeGraph(launch, 3));
    EXPECT_EQ(fake.launches().size(), 3u);  // captured
    EXPECT_NEAR(graph->Replay().value(), 21, 1e-6);
    EXPECT_NEAR(graph->Replay().value(), 21, 1e-6);
  }
  EXPECT_EQ(fake.live().execs, 0);
}

TEST_F(MeasureTest, TheBackgroundLeavesMemoryToOthers) {
  const auto background = Got(measurer->MakeBackground());
  const uint64_t all = FakeChip().memory_bytes;
  const auto refused = background->Allocate(all - (uint64_t{1} << 29));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(refused.status()), HasSubstr("are left to others"));
  background->Free(Got(background->Allocate(1 << 20)));
  EXPECT_EQ(fake.live().allocations, 0);
}

}  // namespace
}  // namespace sinter
