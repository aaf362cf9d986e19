// Plans as nodes of a graph that is built by hand, against plain launches: the same bytes for every
// kind of kernel, before and after updates with other buffers and rows.
#include <cuda.h>
#include <dlfcn.h>

#include "src/chain/problem.h"
#include "src/engine/bound_plan.h"
#include "tests/gpu/late_kernel.h"
#include "tests/gpu/stream_fixture.h"

namespace sinter::gpu_testing::graph_nodes {
namespace {

constexpr int64_t kBucket = 128;
constexpr auto kFused = PrepareOptions::Choice::kFused;
constexpr auto kUnfused = PrepareOptions::Choice::kUnfused;

// A chain's tensors, and a plan bound to them.
struct Bound {
  std::unique_ptr<DeviceTensors> tensors;
  BoundRun run;
};

class GraphNodes : public StreamTest {
 protected:
  void SetUp() override {
    StreamTest::SetUp();
    if (driver()->GraphAddNode == nullptr) GTEST_SKIP() << "a driver older than CUDA 12.3";
  }

  Graph EmptyGraph() const {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto create =
        reinterpret_cast<CUresult (*)(CUgraph*, unsigned)>(dlsym(library, "cuGraphCreate"));
    CUgraph graph = nullptr;
    EXPECT_EQ(create(&graph, 0), CUDA_SUCCESS);
    return Graph(device_, graph);
  }

  template <typename PlanPtr>
  static Bound Bind(const Chain& chain, const PlanPtr& plan, int64_t rows, uint64_t seed) {
    auto tensors =
        Got(DeviceTensors::Make(ports(), chain, rows, Got(RandomInputs(chain, rows, seed))));
    BoundRun run = Got(tensors->Bind(plan));
    return {std::move(tensors), std::move(run)};
  }

  // What a replay leaves in the outputs.
  absl::StatusOr<std::vector<std::string>> Replayed(const GraphExec& exec,
                                                    const Bound& bound) const {
    SINTER_ASSIGN_OR_RETURN(const Stream stream, MakeStream(device_));
    SINTER_RETURN_IF_ERROR(bound.tensors->Poison(bound.run));
    SINTER_RETURN_IF_ERROR(Replay(exec, stream));
    return bound.tensors->DownloadOutputs();
  }

  // Adds the plan three times in sequence at `rows[0]`, by programmatic edges where they are
  // allowed; then updates it to other buffers and rows, and back.
  template <typename PlanPtr>
  void ExpectALaunchsBytes(const Chain& chain, const PlanPtr& plan,
                           const std::vector<int64_t>& rows) {
    const Bound first = Bind(chain, plan, rows[0], 3), second = Bind(chain, plan, rows[0], 4);
    const Graph graph = EmptyGraph();
    std::vector<PlanNodes> added;
    for (int i = 0; i < 3; ++i) {
      NodeEdges edges;
      if (i > 0) edges = {{added.back().nodes.back()}, true};
      added.push_back(Got(first.run.add(graph.get(), edges, rows[0])));
    }
    const auto exec = Got(Instantiate(device_, graph));
    const auto expect_same = [&](const Bound& bound, int64_t m) {
      const auto want = Got(bound.tensors->RunAll(bound.run, m));
      for (int round = 0; round < 3; ++round) {
        EXPECT_TRUE(Got(Replayed(exec, bound)) == want) << "m " << m << " round " << round;
      }
    };
    expect_same(first, rows[0]);
    for (const int64_t m : rows) {
      for (const Bound* bound : {&second, &first}) {
        for (const PlanNodes& nodes : added) ASSERT_OK(bound->run.update(nodes, exec.get(), m));
        expect_same(*bound, m);
      }
    }
  }

  // Plans of `dataflow` from all over its space.
  void ExpectALaunchsBytesOf(Dataflow dataflow) {
    const auto chain =
        std::make_shared<const Chain>(MakeFfnChain(ReadFfn("gated n1024 k512 l512 silu")).value());
    const std::vector<Plan> plans = SpreadPlans(*chain, kBucket, ports().model, dataflow, 8);
    ASSERT_FALSE(plans.empty());
    bool clusters = false, cooperative = false;
    const auto built = BuildPlans(ports(), chain, plans);
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(plans[i].ToText());
      ASSERT_OK(built[i]);
      for (const LaunchRecipe& recipe : (*built[i])->recipes) {
        clusters |= recipe.cluster[0] * recipe.cluster[1] * recipe.cluster[2] > 1;
        cooperative |= recipe.cooperative;
      }
      ExpectALaunchsBytes(*chain, *built[i], {kBucket, 77, 1});
    }
    EXPECT_EQ(cooperative, RowOf(dataflow).cooperative);
    EXPECT_TRUE(clusters || dataflow != Dataflow::kClusterExchange);
  }

  void ExpectALaunchsBytesOf(const char* line, int64_t m, std::vector<int64_t> rows,
                             size_t min_kernels) {
    const auto problem = Got(ParseProblem(line));
    for (const auto choice : {PrepareOptions::Choice::kBest, kUnfused}) {
      const auto plan = Got(engine()->Prepare(problem.chain, m, {.choice = choice}));
      SCOPED_TRACE(plan->plan().ToText());
      if (choice == kUnfused) {
        EXPECT_GE(plan->plan().kernels.size(), min_kernels);
      }
      ExpectALaunchsBytes(problem.chain, plan, rows);
    }
  }
};

TEST_F(GraphNodes, OfTwoProducts) { ExpectALaunchsBytesOf(Dataflow::kProduct); }
TEST_F(GraphNodes, OfCooperativeGrids) { ExpectALaunchsBytesOf(Dataflow::kGridExchange); }
TEST_F(GraphNodes, OfClusters) { ExpectALaunchsBytesOf(Dataflow::kClusterExchange); }

TEST_F(GraphNodes, OfManyKernels) {
  ExpectALaunchsBytesOf(
      "products m=M k=512 n=1536,512,1536,512,256 act=silu,identity,silu,identity,relu "
      "gated=1,0,1,0,0 layout=oi",
      kBucket, {kBucket, 17, 1}, 5);
}

TEST_F(GraphNodes, OfMemoryChains) {
  ExpectALaunchsBytesOf("residual_rmsnorm rows=M cols=4096 eps=1e-6", 256, {256, 100, 1}, 1);
  ExpectALaunchsBytesOf("softmax rows=M cols=2048 dtype=bf16", 64, {64, 33}, 1);
}

TEST_F(GraphNodes, OfMoreRowsThanTheLargestBucket) {
  ExpectALaunchsBytesOf("products m=M k=64 n=128,72,64 act=silu,identity,identity layout=oi",
                        kLargestBucket, {kLargestBucket + 333, kLargestBucket + 1}, 3);
}

TEST_F(GraphNodes, BehindAKernelThatWritesLate) {
  const Chain chain = MakeFfnChain(ReadFfn("gated n3072 k1024 l1024 silu")).value();
  const int a = MatchProducts(chain).value().rows;
  for (const auto choice : {kFused, kUnfused}) {
    const auto plan = Got(engine()->Prepare(chain, kBucket, {.choice = choice}));
    const auto data = Got(DeviceChain::Make(ports(), chain, kBucket, 3));
    const DeviceBuffer input = data->input_buffer(a);
    const std::string& bytes = data->inputs()[static_cast<size_t>(a)];
    const auto kept = Got(data->MakeWorkspace(bytes.size()));
    ASSERT_OK(ports().measurer->Upload(kept, bytes.data(), bytes.size()));
    const auto late =
        Got(LateKernel::Make(ports().compiler.get(), ports().loader.get(), kept, input));
    const auto run = Got(data->Bind(plan));
    const Graph graph = EmptyGraph();
    ASSERT_OK(run.add(graph.get(), {{Got(late->AddTo(graph.get()))}, true}, kBucket));
    const auto exec = Got(Instantiate(device_, graph));
    const auto stream = Got(MakeStream(device_));
    for (int round = 0; round < Repeats(); ++round) {
      ASSERT_OK(data->Poison(run));
      ASSERT_OK(ports().measurer->Fill(input, 0xff));
      ASSERT_OK(Replay(exec, stream));
      ASSERT_OK(data->Check(Got(data->DownloadOutput()), kBucket)) << "round " << round;
    }
  }
}

// The nodes are added and the graph instantiated while a stream of this thread captures, which
// stays valid; then the plan goes, and both graphs run it.
TEST_F(GraphNodes, AGraphKeepsItsPlanAndLeavesACaptureValid) {
  const auto problem = Got(ParseProblem("gemm_chain m=M n=1024 k=256 l=256 act=relu layout=oi"));
  auto plan = Got(engine()->Prepare(problem.chain, kBucket, PrepareOptions()));
  Bound bound = Bind(problem.chain, plan, kBucket, 5);
  const auto want = Got(bound.tensors->RunAll(bound.run, kBucket));
  const auto stream = Got(MakeStream(device_));
  const Graph graph = EmptyGraph();
  ASSERT_OK(BeginCapture(stream));
  EXPECT_OK(bound.run.launch(stream.get(), kBucket, false));
  EXPECT_OK(bound.run.add(graph.get(), {}, kBucket));
  const auto exec = Instantiate(device_, graph);
  const auto captured = Got(EndCapture(stream));
  ASSERT_OK(exec);
  const auto captured_exec = Got(Instantiate(device_, captured));
  bound.run = {.workspace = bound.run.workspace};
  plan = nullptr;
  for (const GraphExec* one : {&*exec, &captured_exec}) {
    EXPECT_TRUE(Got(Replayed(*one, bound)) == want);
  }
}

// Which nothing runs, and which more than the driver's own update would notice.
TEST_F(GraphNodes, NoRowsAreANodeAndAnotherPlanIsRefused) {
  const auto problem = Got(ParseProblem("gemm_chain m=M n=1024 k=256 l=256 act=relu layout=oi"));
  const auto plan = Got(engine()->Prepare(problem.chain, kBucket, PrepareOptions()));
  const auto other = Got(engine()->Prepare(problem.chain, 8, PrepareOptions()));
  const Bound bound = Bind(problem.chain, plan, kBucket, 5);
  const Bound others = Bind(problem.chain, other, 8, 5);
  const Graph graph = EmptyGraph();
  const auto none = Got(bound.run.add(graph.get(), {}, 0));
  const auto some = Got(bound.run.add(graph.get(), {none.nodes, true}, 16));
  const auto exec = Got(Instantiate(device_, graph));
  EXPECT_OK(Replayed(exec, bound));
  for (const absl::Status& refused :
       {others.run.update(some, exec.get(), 8), bound.run.update(some, exec.get(), 0),
        bound.run.update(none, exec.get(), 1)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::graph_nodes
