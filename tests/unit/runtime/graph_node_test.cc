#include "runtime/measure/probes.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

// Kernel nodes added to a caller's graph, and new parameters for them in an instance of it.

class GraphNodeTest : public ::testing::Test {
 protected:
  GraphNodeTest() {
    fake.kernel = ExampleKernel();
    Open(fake.Table());
  }

  void Open(const DriverTable& functions) {
    table = functions;
    device = *Device::Open(*Driver::FromTable(table), 0);
    loader = std::move(*MakeLoader(device));
    stream = std::move(*MakeStream(device));
    EXPECT_EQ(table.StreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    CUgraph empty = nullptr;
    EXPECT_EQ(table.StreamEndCapture(stream.get(), &empty), CUDA_SUCCESS);
    graph = Graph(device, empty);
  }

  struct Bound {
    std::shared_ptr<LoadedKernel> kernel;
    std::unique_ptr<BoundKernel> binding;
  };
  Bound Bind(const LaunchRecipe& recipe, const BufferList& buffers = ExampleBuffers()) {
    Bound bound{.kernel = *loader->Load(FakeCubin("k"), recipe)};
    bound.binding = std::move(*bound.kernel->Bind(recipe, buffers));
    return bound;
  }
  GraphNodeHandle Add(const Bound& bound, const NodeEdges& edges = {}, int64_t m = 5,
                      int64_t row_offset = 0) {
    return Got(bound.kernel->AddNode(*bound.binding, graph.get(), edges, m, row_offset));
  }
  FakeNode LastNode() { return fake.NodesOf(graph.get()).back(); }

  FakeDriver fake;
  DriverTable table;
  std::shared_ptr<const Device> device;
  std::unique_ptr<Loader> loader;
  Stream stream;
  Graph graph;
};

TEST_F(GraphNodeTest, ANodeRunsWhatALaunchWould) {
  LaunchRecipe recipe = ExampleRecipe();
  recipe.cluster = {8, 1, 1};
  recipe.cooperative = true;
  const Bound bound = Bind(recipe);
  ASSERT_TRUE(bound.kernel->Launch(*bound.binding, stream.get(), 5, 64, false).ok());
  const FakeLaunch launch = fake.launches().back();
  Add(bound, {}, 5, 64);
  const FakeLaunch node = LastNode().launch;
  EXPECT_EQ(node.entry, launch.entry);
  EXPECT_EQ(node.params, launch.params);
  EXPECT_EQ(node.config.gridDimX, launch.config.gridDimX);
  EXPECT_EQ(node.config.gridDimY, launch.config.gridDimY);
  EXPECT_EQ(node.config.gridDimZ, launch.config.gridDimZ);
  EXPECT_EQ(node.config.blockDimX, launch.config.blockDimX);
  EXPECT_EQ(node.config.sharedMemBytes, launch.config.sharedMemBytes);
  EXPECT_EQ(node.context, device->context());
  ASSERT_EQ(node.attributes.size(), 2u);
  EXPECT_EQ(node.attributes[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(node.attributes[0].value.clusterDim.x, 8u);
  EXPECT_EQ(node.attributes[1].id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  EXPECT_EQ(node.attributes[1].value.cooperative, 1);
  EXPECT_THAT(fake.ContextStack(), IsEmpty());
  EXPECT_THAT(fake.violations(), IsEmpty());
}

TEST_F(GraphNodeTest, EdgesAreProgrammaticFromKernelsToAKernelThatWaits) {
  LaunchRecipe waits = ExampleRecipe();
  waits.pdl = true;
  const Bound waiting = Bind(waits), plain = Bind(ExampleRecipe());
  const GraphNodeHandle first = Add(plain);
  const auto empty = Got(loader->AddEmptyNode(graph.get(), {{first}, true}));
  EXPECT_THAT(LastNode().programmatic, ElementsAre(false));
  Add(waiting, {{first, empty}, true});
  EXPECT_THAT(LastNode().from, ElementsAre(first, empty));
  EXPECT_THAT(LastNode().programmatic, ElementsAre(true, false));
  Add(waiting, {{first}, false});
  EXPECT_THAT(LastNode().programmatic, ElementsAre(false));
  Add(plain, {{first}, true});
  EXPECT_THAT(LastNode().programmatic, ElementsAre(false));
}

TEST_F(GraphNodeTest, AnUpdateChangesBuffersAndRowsOfTheInstanceAlone) {
  LaunchRecipe recipe = ExampleRecipe();
  recipe.cluster = {2, 1, 1};
  const Bound bound = Bind(recipe);
  const GraphNodeHandle node = Add(bound);
  const auto exec = Got(Instantiate(device, graph));
  const DevicePtr others[3] = {0x110000, 0x120000, 0x130000};
  const auto binding = Got(bound.kernel->Bind(recipe, {others, 3, kWorkspace}));
  ASSERT_TRUE(bound.kernel->UpdateNode(exec.get(), node, *binding, 7, 0).ok());
  const FakeNode now = fake.NodesOf(exec.get()).back();
  EXPECT_EQ(DecodeFakeMap(now.launch.params[0]).address, others[0]);
  EXPECT_EQ(DecodeFakeMap(now.launch.params[0]).dims[1], 7u);
  EXPECT_EQ(ReadAs<DevicePtr>(now.launch.params[2]), others[2] + 64);
  EXPECT_EQ(ReadAs<int32_t>(now.launch.params[4]), 7);
  EXPECT_EQ(now.launch.attributes.size(), 1u);
  EXPECT_EQ(ReadAs<int32_t>(LastNode().launch.params[4]), 5);  // the source is as it was
  ASSERT_EQ(table.GraphLaunch(exec.get(), stream.get()), CUDA_SUCCESS);
  EXPECT_THAT(fake.violations(), IsEmpty());
}

TEST_F(GraphNodeTest, ErrorsNameTheKernelAndLeaveTheGraphAsItWas) {
  const Bound bound = Bind(ExampleRecipe()), other = Bind(ExampleRecipe());
  EXPECT_THAT(Text(bound.kernel->AddNode(*other.binding, graph.get(), {}, 5, 0).status()),
              HasSubstr("kernel 'k': the binding belongs to another kernel"));
  EXPECT_THAT(Text(bound.kernel->AddNode(*bound.binding, graph.get(), {}, -5, 0).status()),
              HasSubstr("m -5"));
  const auto unknown = reinterpret_cast<GraphNodeHandle>(uintptr_t{0x99});
  const absl::Status bad =
      bound.kernel->AddNode(*bound.binding, graph.get(), {{unknown}, false}, 5, 0).status();
  EXPECT_THAT(Text(bad), HasSubstr("kernel 'k': cuGraphAddNode: "));
  EXPECT_EQ(DriverResultOf(bad), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(fake.NodesOf(graph.get()), IsEmpty());
}

// Clusters are set after the node is there.
TEST_F(GraphNodeTest, AFailedAttributeTakesTheNodeBack) {
  LaunchRecipe recipe = ExampleRecipe();
  recipe.cluster = {8, 1, 1};
  const Bound bound = Bind(recipe);
  const int before = fake.calls();
  Add(bound);
  const int calls = fake.calls() - before;
  int failures = 0;
  for (int n = 1; n <= calls; ++n) {
    const size_t nodes = fake.NodesOf(graph.get()).size();
    fake.FailCall(n, CUDA_ERROR_UNKNOWN);
    const bool failed = !bound.kernel->AddNode(*bound.binding, graph.get(), {}, 5, 0).ok();
    fake.FailCall(0, CUDA_SUCCESS);
    EXPECT_EQ(fake.NodesOf(graph.get()).size(), nodes + (failed ? 0 : 1));
    failures += failed ? 1 : 0;
  }
  EXPECT_GE(failures, 3);
}

TEST_F(GraphNodeTest, AnOldDriverIsToldByTheFunctionThatItLacks) {
  DriverTable old = fake.Table();
  old.GraphAddNode = nullptr;
  graph = Graph();
  Open(old);
  const Bound bound = Bind(ExampleRecipe());
  for (const absl::Status& status :
       {bound.kernel->AddNode(*bound.binding, graph.get(), {}, 5, 0).status(),
        loader->AddEmptyNode(graph.get(), {}).status()}) {
    EXPECT_TRUE(absl::IsUnimplemented(status));
    EXPECT_THAT(Text(status), HasSubstr("cuGraphAddNode_v2, which came with CUDA 12.3"));
  }
}

TEST_F(GraphNodeTest, ATiedObjectLivesAsLongAsTheGraphAndItsInstances) {
  auto object = std::make_shared<int>(1);
  ASSERT_TRUE(loader->TieToGraph(graph.get(), object).ok());
  {
    const auto exec = Got(Instantiate(device, graph));
    graph = Graph();
    EXPECT_EQ(object.use_count(), 2);
  }
  loader->Retire();
  EXPECT_EQ(object.use_count(), 1);
  EXPECT_THAT(fake.violations(), IsEmpty());
}

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
