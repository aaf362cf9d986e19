// Kernel nodes added to a caller's graph, and new parameters for them in an instance of it.
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

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

}  // namespace
}  // namespace sinter
