// A plan's launches as nodes of a graph: which nodes, their dependencies, and what an update may
// change.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using testing::FakeGraphNode;

constexpr GraphHandle kGraph = nullptr;  // the fakes have one
constexpr GraphExecHandle kExec = nullptr;

class GraphNodesTest : public ::testing::Test {
 protected:
  GraphNodesTest() {
    world.compute = false;
    engine = world.MakeEngine();
  }
  std::shared_ptr<const PreparedPlan> Prepare(
      int64_t m = 16, PrepareOptions::Choice choice = PrepareOptions::Choice::kUnfused) {
    return engine->Prepare(world.chain, m, {.choice = choice}).value();
  }
  static std::shared_ptr<const PlanBinding> Bind(const PreparedPlan& plan, DevicePtr inputs = 16) {
    constexpr DevicePtr kOut = DevicePtr{1} << 40, kWorkspace = 2 * kOut;
    return plan.Bind({inputs, inputs, inputs, kOut}, kWorkspace).value();
  }

  FakeWorld world;
  std::shared_ptr<Engine> engine;
};

TEST_F(GraphNodesTest, NodesAreALaunchsKernelsBehindOneAnother) {
  const auto plan = Prepare();
  const auto caller = reinterpret_cast<GraphNodeHandle>(uintptr_t{0x77});
  for (const bool programmatic : {false, true}) {
    world.nodes.clear();
    const auto added = Got(plan->AddToGraph(*Bind(*plan), kGraph, {{caller}, programmatic}, 9));
    ASSERT_EQ(added.nodes.size(), 2u);
    EXPECT_EQ(added.passes, 1);
    const FakeGraphNode first = world.nodes.at(added.nodes[0]);
    const FakeGraphNode second = world.nodes.at(added.nodes[1]);
    EXPECT_EQ(first.kernel, "first");
    EXPECT_EQ(second.kernel, "second");
    EXPECT_EQ(second.m, 9);
    EXPECT_THAT(first.edges.from, ElementsAre(caller));
    EXPECT_EQ(first.edges.programmatic, programmatic);
    EXPECT_THAT(second.edges.from, ElementsAre(added.nodes[0]));
    EXPECT_TRUE(second.edges.programmatic);
  }
  EXPECT_THAT(world.launches, IsEmpty());
}

TEST_F(GraphNodesTest, TheGraphKeepsThePlan) {
  auto plan = Prepare();
  ASSERT_TRUE(plan->AddToGraph(*Bind(*plan), kGraph, {}, 9).ok());
  EXPECT_EQ(world.ties, 1);
  plan = nullptr;
  engine = nullptr;
  EXPECT_GT(world.loaded, 0);
  world.graph.clear();
  EXPECT_EQ(world.loaded, 0);
}

TEST_F(GraphNodesTest, NoRowsAreANodeThatDoesNothing) {
  const auto plan = Prepare();
  const auto caller = reinterpret_cast<GraphNodeHandle>(uintptr_t{0x77});
  const auto added = Got(plan->AddToGraph(*Bind(*plan), kGraph, {{caller}, true}, 0));
  ASSERT_EQ(added.nodes.size(), 1u);
  EXPECT_EQ(world.nodes.at(added.nodes[0]).kernel, "");
  EXPECT_THAT(world.nodes.at(added.nodes[0]).edges.from, ElementsAre(caller));
  EXPECT_TRUE(plan->UpdateInGraph(added, kExec, *Bind(*plan), 0).ok());
  EXPECT_TRUE(Fails(plan->UpdateInGraph(added, kExec, *Bind(*plan), 4),
                    absl::StatusCode::kFailedPrecondition,
                    "m 4 takes 1 passes, the nodes were added for 0: build the graph again"));
}

TEST_F(GraphNodesTest, AnUpdateTakesNewBuffersAndRows) {
  const auto plan = Prepare();
  const auto added = plan->AddToGraph(*Bind(*plan), kGraph, {}, 9).value();
  ASSERT_TRUE(plan->UpdateInGraph(added, kExec, *Bind(*plan, 4096), 16).ok());
  for (const GraphNodeHandle node : added.nodes) {
    EXPECT_EQ(world.nodes.at(node).m, 16);
    EXPECT_EQ(world.nodes.at(node).pointers.front(), 4096u);
  }
  EXPECT_TRUE(absl::IsOutOfRange(plan->UpdateInGraph(added, kExec, *Bind(*plan), 17)));
}

TEST_F(GraphNodesTest, AnotherPlanIsAnotherGraph) {
  const auto plan = Prepare(), larger = Prepare(64);
  const auto fused = Prepare(16, PrepareOptions::Choice::kFused);
  const auto added = plan->AddToGraph(*Bind(*plan), kGraph, {}, 9).value();
  for (const auto& other : {larger, fused}) {
    EXPECT_TRUE(Fails(other->UpdateInGraph(added, kExec, *Bind(*other), 9),
                      absl::StatusCode::kFailedPrecondition, "build the graph again"));
  }
  EXPECT_EQ(world.nodes.at(added.nodes[0]).m, 9);
  // An equal chain's plan is the same one.
  const auto again = Prepare(12);
  EXPECT_TRUE(again->UpdateInGraph(added, kExec, *Bind(*again), 12).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(plan->AddToGraph(*Bind(*larger), kGraph, {}, 1).status()));
  EXPECT_TRUE(absl::IsOutOfRange(plan->AddToGraph(*Bind(*plan), kGraph, {}, 17).status()));
}

TEST_F(GraphNodesTest, RowsAboveTheLargestBucketAreMorePasses) {
  const auto plan = Prepare(kLargestBucket);
  const int64_t rows = 2 * kLargestBucket + 5;
  const auto added = plan->AddToGraph(*Bind(*plan), kGraph, {}, rows).value();
  ASSERT_EQ(added.nodes.size(), 6u);
  EXPECT_EQ(added.passes, 3);
  EXPECT_EQ(world.nodes.at(added.nodes[5]).m, 5);
  EXPECT_EQ(world.nodes.at(added.nodes[5]).row_offset, 2 * kLargestBucket);
  EXPECT_TRUE(world.nodes.at(added.nodes[2]).edges.programmatic);  // between passes, as in a launch
  ASSERT_TRUE(plan->UpdateInGraph(added, kExec, *Bind(*plan), rows + 1).ok());
  EXPECT_EQ(world.nodes.at(added.nodes[5]).m, 6);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(plan->UpdateInGraph(added, kExec, *Bind(*plan), kLargestBucket)));
}

TEST_F(GraphNodesTest, AFailureLeavesNoNode) {
  const auto plan = Prepare();
  for (const int good : {0, 1, 2}) {  // the first node, the second, the tie
    world.good_nodes = good;
    const auto added = plan->AddToGraph(*Bind(*plan), kGraph, {}, 9);
    EXPECT_EQ(StatusNumber(added.status()), static_cast<int32_t>(ErrorCode::kDriver));
    EXPECT_THAT(world.nodes, IsEmpty()) << good;
  }
  EXPECT_EQ(world.ties, 0);
}

TEST_F(GraphNodesTest, WithoutAGpuItIsUnavailable) {
  const auto plan = Prepare();
  const auto binding = Bind(*plan);
  FakeWorld other{.has_gpu = false};
  const auto blind = other.MakeEngine()->Prepare(other.chain, 16, {}).value();
  EXPECT_TRUE(absl::IsUnavailable(blind->AddToGraph(*binding, kGraph, {}, 9).status()));
  EXPECT_TRUE(absl::IsUnavailable(blind->UpdateInGraph({}, kExec, *binding, 9)));
}

}  // namespace
}  // namespace sinter
