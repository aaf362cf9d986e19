// Plans as nodes of a graph that is built by hand, against plain launches: the same bytes for every
// kind of kernel, before and after updates with other buffers and rows.
#include <cuda.h>
#include <dlfcn.h>

#include "src/chain/problem.h"
#include "src/engine/bound_plan.h"
#include "src/product/dataflow/dataflow.h"
#include "tests/gpu/late_kernel.h"
#include "tests/gpu/stream_fixture.h"

namespace sinter::gpu_testing::graph_nodes {
namespace {

constexpr int64_t kBucket = 128;
constexpr auto kFused = PrepareOptions::Choice::kFused;
constexpr auto kUnfused = PrepareOptions::Choice::kUnfused;

// A plan bound to buffers, whatever made it.
struct BoundNodes {
  std::function<absl::Status(StreamHandle, int64_t m)> launch;
  std::function<absl::StatusOr<PlanNodes>(GraphHandle, NodeEdges, int64_t m)> add;
  std::function<absl::Status(const PlanNodes&, GraphExecHandle, int64_t m)> update;
};

// A plan and how to bind it to buffers in canonical order.
struct Subject {
  const Chain* chain;
  uint64_t workspace_bytes;
  std::function<absl::Status(DeviceBuffer workspace, StreamHandle)> init;
  std::function<absl::StatusOr<BoundNodes>(const std::vector<DevicePtr>&, DevicePtr)> bind;
};

Subject SubjectOf(const Ports& ports, LoadedPlanPtr plan) {
  Loader* const loader = ports.loader.get();
  return {&plan->chain(), plan->plan.workspace_bytes,
          [plan, loader](DeviceBuffer workspace, StreamHandle stream) {
            return ClearHeader(plan->plan, *loader, workspace.ptr, stream);
          },
          [plan, loader](const std::vector<DevicePtr>& buffers,
                         DevicePtr workspace) -> absl::StatusOr<BoundNodes> {
            SINTER_ASSIGN_OR_RETURN(const auto bound, BindPlan(plan, buffers, workspace));
            return BoundNodes{[bound](StreamHandle stream, int64_t m) {
                                return EnqueuePlan(*bound, stream, m, false);
                              },
                              [bound, loader](GraphHandle graph, NodeEdges edges, int64_t m) {
                                return AddPlanNodes(*bound, *loader, graph, std::move(edges), m);
                              },
                              [bound](const PlanNodes& nodes, GraphExecHandle exec, int64_t m) {
                                return UpdatePlanNodes(nodes, exec, *bound, m);
                              }};
          }};
}

Subject SubjectOf(const Chain& chain, PreparedPlanPtr plan) {
  const std::vector<int32_t> order = chain.InputOrder();
  return {&chain, plan->WorkspaceBytes(),
          [plan](DeviceBuffer workspace, StreamHandle stream) {
            return plan->InitWorkspace(workspace.ptr, workspace.bytes, stream);
          },
          [plan, order](const std::vector<DevicePtr>& buffers,
                        DevicePtr workspace) -> absl::StatusOr<BoundNodes> {
            std::vector<DevicePtr> caller = buffers;
            for (size_t i = 0; i < order.size(); ++i) {
              caller[static_cast<size_t>(order[i])] = buffers[i];
            }
            SINTER_ASSIGN_OR_RETURN(const auto bound, plan->Bind(caller, workspace));
            return BoundNodes{
                [plan, bound](StreamHandle stream, int64_t m) {
                  return plan->Launch(*bound, stream, m, false);
                },
                [plan, bound](GraphHandle graph, NodeEdges edges, int64_t m) {
                  return plan->AddToGraph(*bound, graph, std::move(edges), m);
                },
                [plan, bound](const PlanNodes& nodes, GraphExecHandle exec, int64_t m) {
                  return plan->UpdateInGraph(nodes, exec, *bound, m);
                }};
          }};
}

// A subject's tensors on the device, and the subject bound to them.
struct Tensors {
  DeviceArena arena;
  Measurer* measurer;
  std::vector<DeviceBuffer> outputs;
  DeviceBuffer workspace;
  BoundNodes bound;

  explicit Tensors(Measurer* m) : arena(m), measurer(m) {}

  static absl::StatusOr<std::unique_ptr<Tensors>> Make(Measurer* measurer, const Subject& subject,
                                                       int64_t rows, uint64_t seed) {
    auto made = std::make_unique<Tensors>(measurer);
    const Chain& chain = *subject.chain;
    SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> inputs, RandomInputs(chain, rows, seed));
    std::vector<DevicePtr> pointers;
    for (const std::string& input : inputs) {
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, made->arena.Allocate(input.size()));
      SINTER_RETURN_IF_ERROR(measurer->Upload(buffer, input.data(), input.size()));
      pointers.push_back(buffer.ptr);
    }
    for (int i = 0; i < chain.num_outputs(); ++i) {
      SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain, i, rows));
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer,
                              made->arena.Allocate(static_cast<uint64_t>(bytes)));
      made->outputs.push_back(buffer);
      pointers.push_back(buffer.ptr);
    }
    if (subject.workspace_bytes > 0) {
      SINTER_ASSIGN_OR_RETURN(made->workspace, made->arena.Allocate(subject.workspace_bytes));
      SINTER_RETURN_IF_ERROR(measurer->RunAndWait(
          [&](StreamHandle stream) { return subject.init(made->workspace, stream); }));
    }
    SINTER_ASSIGN_OR_RETURN(made->bound, subject.bind(pointers, made->workspace.ptr));
    return made;
  }

  // NaN in the outputs and in the workspace past its header.
  absl::Status Poison() const {
    for (const DeviceBuffer& buffer : outputs) {
      SINTER_RETURN_IF_ERROR(measurer->Fill(buffer, 0xff));
    }
    if (workspace.bytes <= kWorkspaceFlagBytes) return absl::OkStatus();
    return measurer->Fill(
        {workspace.ptr + kWorkspaceFlagBytes, workspace.bytes - kWorkspaceFlagBytes}, 0xff);
  }
  absl::StatusOr<std::string> Download() const {
    std::string all;
    for (const DeviceBuffer& buffer : outputs) {
      std::string bytes(buffer.bytes, '\0');
      SINTER_RETURN_IF_ERROR(measurer->Download(&bytes[0], buffer, bytes.size()));
      all += bytes;
    }
    return all;
  }
  // What a plain launch of `m` rows gives.
  absl::StatusOr<std::string> Launched(int64_t m) const {
    SINTER_RETURN_IF_ERROR(Poison());
    SINTER_RETURN_IF_ERROR(
        measurer->RunAndWait([&](StreamHandle stream) { return bound.launch(stream, m); }));
    return Download();
  }
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

  // The bytes that a replay leaves in the tensors' outputs.
  absl::StatusOr<std::string> Replayed(const GraphExec& exec, const Tensors& tensors) const {
    SINTER_ASSIGN_OR_RETURN(const Stream stream, MakeStream(device_));
    SINTER_RETURN_IF_ERROR(tensors.Poison());
    SINTER_RETURN_IF_ERROR(Replay(exec, stream));
    return tensors.Download();
  }

  // Adds the plan three times in sequence at `rows[0]`, by programmatic edges where they are
  // allowed; then updates it to other buffers and rows, and back.
  void ExpectALaunchsBytes(const Subject& subject, const std::vector<int64_t>& rows) {
    const auto first = Tensors::Make(ports().measurer.get(), subject, rows[0], 3);
    const auto second = Tensors::Make(ports().measurer.get(), subject, rows[0], 4);
    ASSERT_OK(first);
    ASSERT_OK(second);
    const Graph graph = EmptyGraph();
    std::vector<PlanNodes> added;
    for (int i = 0; i < 3; ++i) {
      NodeEdges edges;
      if (i > 0) edges = {{added.back().nodes.back()}, true};
      auto nodes = Got((*first)->bound.add(graph.get(), edges, rows[0]));
      added.push_back(std::move(nodes));
    }
    const auto exec = Got(Instantiate(device_, graph));
    const auto expect_same = [&](const Tensors& tensors, int64_t m) {
      const auto want = Got(tensors.Launched(m));
      for (int round = 0; round < 3; ++round) {
        const auto got = Got(Replayed(exec, tensors));
        EXPECT_TRUE(got == want) << "m " << m << " round " << round;
      }
    };
    expect_same(**first, rows[0]);
    for (const int64_t m : rows) {
      for (const auto* tensors : {&*second, &*first}) {
        for (const PlanNodes& nodes : added) {
          ASSERT_OK((*tensors)->bound.update(nodes, exec.get(), m));
        }
        expect_same(**tensors, m);
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
      ExpectALaunchsBytes(SubjectOf(ports(), *built[i]), {kBucket, 77, 1});
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
      ExpectALaunchsBytes(SubjectOf(problem.chain, plan), rows);
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
    const auto kept = data->MakeWorkspace(bytes.size());
    const auto workspace = data->MakeWorkspace(plan->WorkspaceBytes());
    ASSERT_OK(kept);
    ASSERT_OK(workspace);
    ASSERT_OK(ports().measurer->Upload(*kept, bytes.data(), bytes.size()));
    ASSERT_OK(ports().measurer->RunAndWait([&](StreamHandle stream) {
      return (plan)->InitWorkspace(workspace->ptr, workspace->bytes, stream);
    }));
    const auto late =
        Got(LateKernel::Make(ports().compiler.get(), ports().loader.get(), *kept, input));
    std::vector<DevicePtr> canonical;
    for (int i = 0; i < chain.num_inputs(); ++i) {
      canonical.push_back(data->input_buffer(i).ptr);
    }
    canonical.push_back(data->output_buffer().ptr);
    const auto bound = Got(SubjectOf(chain, plan).bind(canonical, workspace->ptr));
    const Graph graph = EmptyGraph();
    const auto first = Got(late->AddTo(graph.get()));
    ASSERT_OK(bound.add(graph.get(), {{first}, true}, kBucket));
    const auto exec = Instantiate(device_, graph);
    const auto stream = MakeStream(device_);
    ASSERT_OK(exec);
    ASSERT_OK(stream);
    for (int round = 0; round < Repeats(); ++round) {
      ASSERT_OK(data->Poison(BoundRun{nullptr, *workspace}));
      ASSERT_OK(ports().measurer->Fill(input, 0xff));
      ASSERT_OK(Replay(*exec, *stream));
      const auto output = Got(data->DownloadOutput());
      ASSERT_OK(data->Check(output, kBucket)) << "round " << round;
    }
  }
}

// The nodes are added and the graph instantiated while a stream of this thread captures, which
// stays valid; then the plan goes, and both graphs run it.
TEST_F(GraphNodes, AGraphKeepsItsPlanAndLeavesACaptureValid) {
  const auto problem = Got(ParseProblem("gemm_chain m=M n=1024 k=256 l=256 act=relu layout=oi"));
  auto plan = engine()->Prepare(problem.chain, kBucket, PrepareOptions());
  ASSERT_OK(plan);
  auto tensors =
      Got(Tensors::Make(ports().measurer.get(), SubjectOf(problem.chain, *plan), kBucket, 5));
  const auto want = Got(tensors->Launched(kBucket));
  const auto stream = Got(MakeStream(device_));
  const Graph graph = EmptyGraph();
  ASSERT_OK(BeginCapture(stream));
  EXPECT_OK(tensors->bound.launch(stream.get(), kBucket));
  EXPECT_OK(tensors->bound.add(graph.get(), {}, kBucket));
  const auto exec = Instantiate(device_, graph);
  const auto captured = Got(EndCapture(stream));
  ASSERT_OK(exec);
  const auto captured_exec = Got(Instantiate(device_, captured));
  tensors->bound = {};
  plan = absl::UnknownError("gone");
  for (const GraphExec* one : {&*exec, &captured_exec}) {
    const auto got = Got(Replayed(*one, *tensors));
    EXPECT_TRUE(got == want);
  }
}

// Which nothing runs, and which more than the driver's own update would notice.
TEST_F(GraphNodes, NoRowsAreANodeAndAnotherPlanIsRefused) {
  const auto problem = Got(ParseProblem("gemm_chain m=M n=1024 k=256 l=256 act=relu layout=oi"));
  const auto plan = engine()->Prepare(problem.chain, kBucket, PrepareOptions());
  const auto other = engine()->Prepare(problem.chain, 8, PrepareOptions());
  ASSERT_OK(plan);
  ASSERT_OK(other);
  const auto tensors =
      Tensors::Make(ports().measurer.get(), SubjectOf(problem.chain, *plan), kBucket, 5);
  const auto others = Tensors::Make(ports().measurer.get(), SubjectOf(problem.chain, *other), 8, 5);
  ASSERT_OK(tensors);
  ASSERT_OK(others);
  const Graph graph = EmptyGraph();
  const auto none = Got((*tensors)->bound.add(graph.get(), {}, 0));
  const auto some = Got((*tensors)->bound.add(graph.get(), {none.nodes, true}, 16));
  const auto exec = Got(Instantiate(device_, graph));
  EXPECT_OK(Replayed(exec, **tensors));
  for (const absl::Status& refused :
       {(*others)->bound.update(some, exec.get(), 8), (*tensors)->bound.update(some, exec.get(), 0),
        (*tensors)->bound.update(none, exec.get(), 1)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::graph_nodes
