#include "runtime/measure/probes.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

// Says when it died and whether calling the driver there was legal.
struct Witness {
  Witness(std::atomic<bool>* dead, std::shared_ptr<const Device> device)
      : dead(dead), stream(std::move(*MakeStream(device))) {}
  ~Witness() { dead->store(true); }
  std::atomic<bool>* dead;
  Stream stream;  // destroyed with a driver call
};

class CaptureTest : public ::testing::Test {
 protected:
  CaptureTest() {
    fake.kernel = ExampleKernel();
    table = fake.Table();
    device = OpenFake(fake);
    loader = std::move(*MakeLoader(device));
    stream = std::make_unique<Stream>(std::move(*MakeStream(device)));
  }

  void Begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_EQ(table.StreamBeginCapture(stream->get(), mode), CUDA_SUCCESS);
  }
  CUgraph End() {
    CUgraph graph = nullptr;
    EXPECT_EQ(table.StreamEndCapture(stream->get(), &graph), CUDA_SUCCESS);
    return graph;
  }

  FakeDriver fake;
  DriverTable table;
  std::shared_ptr<const Device> device;
  std::unique_ptr<Loader> loader;
  std::unique_ptr<Stream> stream;
};

TEST_F(CaptureTest, KnowsWhetherAStreamCaptures) {
  EXPECT_EQ(loader->IsCapturing(stream->get()).value(), false);
  Begin();
  EXPECT_EQ(loader->IsCapturing(stream->get()).value(), true);
  const auto legacy = loader->IsCapturing(nullptr);
  EXPECT_EQ(StatusNumber(legacy.status()), static_cast<int32_t>(ErrorCode::kStreamCapturing));
  table.GraphDestroy(End());
  EXPECT_EQ(loader->IsCapturing(stream->get()).value(), false);
  EXPECT_EQ(loader->IsCapturing(nullptr).value(), false);
}

TEST_F(CaptureTest, SlowCallsLeaveACaptureOfTheirOwnAndOfAnotherThreadValid) {
  Begin();
  const auto slow = [&] {
    const auto kernel = Got(loader->Load(FakeCubin("k"), ExampleRecipe()));
    EXPECT_TRUE(kernel->Bind(ExampleRecipe(), ExampleBuffers()).ok());
    EXPECT_TRUE(kernel->MaxActiveClusters(ExampleRecipe()).ok());
    const auto measurer = Got(MakeMeasurer(device));
    const auto buffer = Got(measurer->Allocate(64));
    EXPECT_TRUE(measurer->Fill(buffer, 1).ok());
    measurer->Free(buffer);
    const auto background = Got(measurer->MakeBackground());
    const auto taken = Got(background->Allocate(64));
    EXPECT_TRUE(background->Upload(taken, "x", 1).ok());
    const auto graph = background->MakeGraph(
        {nullptr,
         [&](GraphHandle of, const NodeEdges& edges, int) -> absl::StatusOr<NodeEdges> {
           SINTER_ASSIGN_OR_RETURN(const GraphNodeHandle node, loader->AddEmptyNode(of, edges));
           return NodeEdges{{node}};
         }},
        2);
    ASSERT_TRUE(graph.ok()) << Text(graph.status());
    EXPECT_TRUE((*graph)->Replay().ok());
    background->Free(taken);
    EXPECT_TRUE(Device::Open(*fake.Make(), 0).ok());
  };
  slow();
  std::thread(slow).join();
  EXPECT_THAT(fake.violations(), IsEmpty());
  table.GraphDestroy(End());
}

TEST_F(CaptureTest, TyingOutsideACaptureDoesNothing) {
  std::atomic<bool> dead{false};
  EXPECT_TRUE(loader->TieToCapture(stream->get(), std::make_shared<Witness>(&dead, device)).ok());
  EXPECT_TRUE(dead.load());
  EXPECT_EQ(fake.live().user_objects, 0);
}

TEST_F(CaptureTest, ATiedObjectLivesAsLongAsEveryGraphAndDiesOutsideTheCallback) {
  std::atomic<bool> dead{false};
  Begin();
  ASSERT_TRUE(loader->TieToCapture(stream->get(), std::make_shared<Witness>(&dead, device)).ok());
  const CUgraph graph = End();
  CUgraphExec exec = nullptr;
  ASSERT_EQ(table.GraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  table.GraphDestroy(graph);
  EXPECT_FALSE(dead.load());
  table.GraphExecDestroy(exec);  // runs the callback
  EXPECT_FALSE(dead.load());
  EXPECT_THAT(fake.violations(), IsEmpty());
  ASSERT_TRUE(loader->Load(FakeCubin("k"), ExampleRecipe()).ok());  // a slow path
  EXPECT_TRUE(dead.load());
  EXPECT_THAT(fake.violations(), IsEmpty());
}

TEST_F(CaptureTest, WhatIsStillQueuedDiesWithTheLoader) {
  std::atomic<bool> dead{false};
  Begin();
  ASSERT_TRUE(loader->TieToCapture(stream->get(), std::make_shared<Witness>(&dead, device)).ok());
  table.GraphDestroy(End());
  EXPECT_FALSE(dead.load());
  loader.reset();
  EXPECT_TRUE(dead.load());
}

// Objects that keep the loader alive, as plans keep their engine's ports, would wait for ever.
TEST_F(CaptureTest, WhatIsQueuedDiesWhenTheLoaderRetiresThoughItKeepsTheLoader) {
  struct Keeper {
    std::shared_ptr<Loader> loader;
    Witness witness;
  };
  std::atomic<bool> dead{false};
  const std::shared_ptr<Loader> shared = std::move(loader);
  Begin();
  ASSERT_TRUE(shared
                  ->TieToCapture(stream->get(),
                                 std::shared_ptr<Keeper>(new Keeper{shared, {&dead, device}}))
                  .ok());
  table.GraphDestroy(End());
  EXPECT_FALSE(dead.load());
  shared->Retire();
  EXPECT_TRUE(dead.load());
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_THAT(fake.violations(), IsEmpty());
}

TEST_F(CaptureTest, AGraphThatOutlivesTheLoaderReleasesOnAThreadOfItsOwn) {
  for (const bool retired : {true, false}) {
    std::atomic<bool> dead{false};
    Begin();
    ASSERT_TRUE(loader->TieToCapture(stream->get(), std::make_shared<Witness>(&dead, device)).ok());
    const CUgraph graph = End();
    if (retired) {
      loader->Retire();
    } else {
      loader.reset();
    }
    EXPECT_FALSE(dead.load());
    table.GraphDestroy(graph);
    for (int i = 0; i < 5000 && fake.live().streams > 1; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(dead.load());
    EXPECT_EQ(fake.live().streams, 1);
    EXPECT_THAT(fake.violations(), IsEmpty());
    // The thread leaves the driver before the fake goes.
    for (int i = 0; i < 5000 && device.use_count() > (retired ? 3 : 2); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

TEST_F(CaptureTest, AFailedTieReleasesTheObject) {
  std::atomic<bool> dead{false};
  Begin();
  auto witness = std::make_shared<Witness>(&dead, device);
  const int before = fake.calls();
  ASSERT_TRUE(loader->TieToCapture(stream->get(), witness).ok());
  const int calls = fake.calls() - before;
  for (int n = 1; n <= calls; ++n) {
    fake.FailCall(n, CUDA_ERROR_UNKNOWN);
    (void)loader->TieToCapture(stream->get(), witness);
    fake.FailCall(0, CUDA_SUCCESS);
  }
  table.GraphDestroy(End());
  ASSERT_TRUE(loader->Load(FakeCubin("k"), ExampleRecipe()).ok());
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(fake.live().user_objects, 0);
}

TEST_F(CaptureTest, LaunchesAndClearsAreCaptured) {
  const auto kernel = Got(loader->Load(FakeCubin("k"), ExampleRecipe()));
  const auto bound = Got(kernel->Bind(ExampleRecipe(), ExampleBuffers()));
  Begin();
  ASSERT_TRUE(kernel->Launch(*bound, stream->get(), 7, 0, false).ok());
  EXPECT_TRUE(fake.launches().back().captured);
  table.GraphDestroy(End());
  EXPECT_THAT(fake.violations(), IsEmpty());
}

}  // namespace
}  // namespace sinter
