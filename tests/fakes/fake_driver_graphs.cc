// The fake's graphs, their nodes and user objects.
#include "tests/fakes/fake_calls.h"

namespace sinter {

bool FakeDriver::AllLoaded(const std::vector<FakeNode>& nodes) {
  for (const FakeNode& node : nodes) {
    if (!node.kernel || modules_.count(node.launch.module) != 0) continue;
    violations_.push_back("a graph ran a kernel of an unloaded module");
    return false;
  }
  return true;
}

void FakeDriver::Advance(const std::vector<FakeNode>& nodes) {
  for (const FakeNode& node : nodes) {
    if (!node.kernel) continue;
    clock_us_ += launch_us;
    if (on_launch) on_launch(node.launch);
  }
}

CUgraphNode FakeDriver::AddNode(GraphState& graph, FakeNode node) {
  node.node = HandleOf<CUgraphNode>(next_handle_++);
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().node;
}

FakeNode* FakeDriver::FindNode(CUgraphNode node) {
  for (auto& [id, graph] : graphs_) {
    for (FakeNode& one : graph.nodes) {
      if (one.node == node) return &one;
    }
  }
  return nullptr;
}

std::vector<FakeNode> FakeDriver::NodesOf(CUgraph graph) const {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  return graphs_.at(IdOf(graph)).nodes;
}

std::vector<FakeNode> FakeDriver::NodesOf(CUgraphExec exec) const {
  std::lock_guard<std::recursive_mutex> lock(mutex_);
  return execs_.at(IdOf(exec)).nodes;
}

namespace {

template <typename Params>
CUlaunchConfig ConfigOf(const Params& params) {
  CUlaunchConfig config{};
  config.gridDimX = params.gridDimX;
  config.gridDimY = params.gridDimY;
  config.gridDimZ = params.gridDimZ;
  config.blockDimX = params.blockDimX;
  config.blockDimY = params.blockDimY;
  config.blockDimZ = params.blockDimZ;
  config.sharedMemBytes = params.sharedMemBytes;
  return config;
}

bool GridIsOfClusters(const FakeLaunch& launch) {
  for (const CUlaunchAttribute& attribute : launch.attributes) {
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& cluster = attribute.value.clusterDim;
    return launch.config.gridDimX % cluster.x == 0 && launch.config.gridDimY % cluster.y == 0 &&
           launch.config.gridDimZ % cluster.z == 0;
  }
  return true;
}

}  // namespace

// ---------------------------------------------------------------- nodes

CUresult FakeCalls::GraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 const CUgraphEdgeData* edges, size_t count,
                                 CUgraphNodeParams* params) {
  const auto found = f.graphs_.find(IdOf(graph));
  if (found == f.graphs_.end()) return CUDA_ERROR_INVALID_VALUE;
  FakeNode made{.kernel = params->type == CU_GRAPH_NODE_TYPE_KERNEL};
  if (!made.kernel && params->type != CU_GRAPH_NODE_TYPE_EMPTY) return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < count; ++i) {
    const auto& nodes = found->second.nodes;
    const auto from = std::find_if(nodes.begin(), nodes.end(), [&](const FakeNode& one) {
      return one.node == dependencies[i];
    });
    if (from == nodes.end()) return CUDA_ERROR_INVALID_VALUE;
    const bool programmatic = edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    const int port = programmatic ? CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC : 0;
    if (edges[i].from_port != port || edges[i].to_port != 0) return CUDA_ERROR_INVALID_VALUE;
    if (programmatic && !(from->kernel && made.kernel)) return CUDA_ERROR_INVALID_VALUE;
    made.from.push_back(dependencies[i]);
    made.programmatic.push_back(programmatic);
  }
  if (made.kernel) {
    made.launch.config = ConfigOf(params->kernel);
    const CUresult described =
        f.Describe(params->kernel.func, params->kernel.kernelParams, &made.launch);
    if (described != CUDA_SUCCESS) return described;
  }
  *node = f.AddNode(found->second, std::move(made));
  return CUDA_SUCCESS;
}

CUresult FakeCalls::GraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  const FakeNode* found = f.FindNode(node);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = found->kernel ? CU_GRAPH_NODE_TYPE_KERNEL : CU_GRAPH_NODE_TYPE_EMPTY;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::GraphDestroyNode(CUgraphNode node) {
  for (auto& [id, graph] : f.graphs_) {
    auto& nodes = graph.nodes;
    const auto gone = std::remove_if(nodes.begin(), nodes.end(),
                                     [&](const FakeNode& one) { return one.node == node; });
    if (gone == nodes.end()) continue;
    nodes.erase(gone, nodes.end());
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult FakeCalls::GraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID attribute,
                                                const CUlaunchAttributeValue* value) {
  FakeNode* found = f.FindNode(node);
  if (found == nullptr || !found->kernel) return CUDA_ERROR_INVALID_VALUE;
  CUlaunchAttribute one{};
  one.id = attribute;
  one.value = *value;
  found->launch.attributes.push_back(one);
  return GridIsOfClusters(found->launch) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

// As on an H200 (docs/lab/graph-nodes.md): attributes stay.
CUresult FakeCalls::GraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_KERNEL_NODE_PARAMS* params) {
  const auto found = f.execs_.find(IdOf(exec));
  if (found == f.execs_.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (f.FindNode(node) == nullptr) {
    f.violations_.push_back("an update by a node that is in no graph any more");
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (FakeNode& one : found->second.nodes) {
    if (one.node != node || !one.kernel) continue;
    FakeLaunch launch{.config = ConfigOf(*params)};
    launch.attributes = one.launch.attributes;
    const CUresult described = f.Describe(params->func, params->kernelParams, &launch);
    if (described != CUDA_SUCCESS) return described;
    if (!GridIsOfClusters(launch)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    one.launch = std::move(launch);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// ---------------------------------------------------------------- graphs and user objects

CUresult FakeCalls::GraphCreate(CUgraph* graph, unsigned int) {
  const uintptr_t id = f.next_handle_++;
  f.graphs_[id] = {};
  *graph = HandleOf<CUgraph>(id);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::GraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  const auto found = f.graphs_.find(IdOf(graph));
  if (found == f.graphs_.end()) return CUDA_ERROR_INVALID_HANDLE;
  const uintptr_t id = f.next_handle_++;
  f.execs_[id] = found->second;
  for (const auto& [object, count] : found->second.objects) {
    f.objects_.at(object).references += count;
  }
  *exec = HandleOf<CUgraphExec>(id);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::GraphDestroy(CUgraph graph) {
  const auto found = f.graphs_.find(IdOf(graph));
  if (found == f.graphs_.end()) return CUDA_ERROR_INVALID_HANDLE;
  FakeDriver::Callbacks callbacks;
  for (const auto& [object, count] : found->second.objects) f.Release(object, count, &callbacks);
  f.graphs_.erase(found);
  FakeDriver::Run(callbacks);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::GraphExecDestroy(CUgraphExec exec) {
  const auto found = f.execs_.find(IdOf(exec));
  if (found == f.execs_.end()) return CUDA_ERROR_INVALID_HANDLE;
  FakeDriver::Callbacks callbacks;
  for (const auto& [object, count] : found->second.objects) f.Release(object, count, &callbacks);
  f.execs_.erase(found);
  FakeDriver::Run(callbacks);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::GraphLaunch(CUgraphExec exec, CUstream) {
  const auto found = f.execs_.find(IdOf(exec));
  if (found == f.execs_.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (!f.AllLoaded(found->second.nodes)) return CUDA_ERROR_INVALID_HANDLE;
  f.Advance(found->second.nodes);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::UserObjectCreate(CUuserObject* object, void* pointer, CUhostFn destroy,
                                     unsigned int count, unsigned int flags) {
  if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  const uintptr_t id = f.next_handle_++;
  f.objects_[id] = {pointer, destroy, static_cast<int>(count)};
  *object = HandleOf<CUuserObject>(id);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::UserObjectRelease(CUuserObject object, unsigned int count) {
  FakeDriver::Callbacks callbacks;
  f.Release(IdOf(object), static_cast<int>(count), &callbacks);
  FakeDriver::Run(callbacks);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::GraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                          unsigned int flags) {
  const auto found = f.graphs_.find(IdOf(graph));
  if (found == f.graphs_.end()) return CUDA_ERROR_INVALID_HANDLE;
  found->second.objects[IdOf(object)] += static_cast<int>(count);
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) {
    f.objects_.at(IdOf(object)).references += static_cast<int>(count);
  }
  return CUDA_SUCCESS;
}

}  // namespace sinter
