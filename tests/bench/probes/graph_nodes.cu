// What CUDA graphs do with clustered kernels: whether new parameters keep the cluster, what a
// change costs, programmatic edges by hand, conditional bodies, tensor maps among the parameters.
// Prints a line a question. README.md of this folder says how to build it.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void Check(CUresult result, int line) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "?";
  cuGetErrorName(result, &name);
  std::printf("line %d: %s\n", line, name);
  std::exit(3);
}
#define CHECK(call) Check((call), __LINE__)

const char* NameOf(CUresult result) {
  const char* name = "?";
  cuGetErrorName(result, &name);
  return name;
}

// Blocks of the grid, blocks of a cluster, and a value, by the first thread.
__global__ void Mark(int* out, int value) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  uint32_t cluster;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(cluster));
  if (threadIdx.x != 0 || blockIdx.x != 0) return;
  out[0] = static_cast<int>(gridDim.x);
  out[1] = static_cast<int>(cluster);
  out[2] = value;
  out[3] += 1;
}

// The first element of what the map's tensor holds.
__global__ void First(const __grid_constant__ CUtensorMap map, int* out) {
  __shared__ __align__(128) int box[32];
  __shared__ uint64_t bar;
  if (threadIdx.x != 0) return;
  const auto address = [](const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
  };
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&bar)));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(address(&bar))
               : "memory");
  asm volatile(
      "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2}], [%3];" ::"r"(address(box)),
      "l"(&map), "r"(0), "r"(address(&bar))
      : "memory");
  uint32_t done = 0;
  for (int n = 0; n < 400000 && !done; ++n) {
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0,1,0,p;}"
        : "=r"(done)
        : "r"(address(&bar))
        : "memory");
  }
  out[0] = done ? box[0] : -1;
}

CUcontext context;
CUfunction mark, first;
int* out;  // host and device

CUDA_KERNEL_NODE_PARAMS KernelOf(CUfunction function, unsigned grid, void** args) {
  CUDA_KERNEL_NODE_PARAMS params = {};
  params.func = function;
  params.gridDimX = grid;
  params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = 32;
  params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = args;
  return params;
}

void SetCluster(CUgraphNode node, unsigned size) {
  CUkernelNodeAttrValue value = {};
  value.clusterDim = {size, 1, 1};
  CHECK(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value));
}

// A graph of `count` nodes in a line.
struct Graph {
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> nodes;
  CUgraphExec exec = nullptr;

  Graph(unsigned grid, unsigned cluster, int count, bool programmatic) {
    CHECK(cuGraphCreate(&graph, 0));
    for (int i = 0; i < count; ++i) {
      int value = i;
      void* args[] = {&out, &value};
      CUgraphNodeParams params = {};
      params.type = CU_GRAPH_NODE_TYPE_KERNEL;
      const CUDA_KERNEL_NODE_PARAMS kernel = KernelOf(mark, grid, args);
      params.kernel.func = kernel.func;
      params.kernel.gridDimX = grid;
      params.kernel.gridDimY = params.kernel.gridDimZ = 1;
      params.kernel.blockDimX = 32;
      params.kernel.blockDimY = params.kernel.blockDimZ = 1;
      params.kernel.kernelParams = args;
      CUgraphEdgeData edge = {};
      if (programmatic) {
        edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
      }
      CUgraphNode node;
      CHECK(cuGraphAddNode(&node, graph, nodes.empty() ? nullptr : &nodes.back(),
                           nodes.empty() ? nullptr : &edge, nodes.empty() ? 0 : 1, &params));
      if (cluster > 1) SetCluster(node, cluster);
      nodes.push_back(node);
    }
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  }
};

void Launch(CUgraphExec exec) {
  out[0] = out[1] = out[2] = -1;
  const CUresult launched = cuGraphLaunch(exec, nullptr);
  const CUresult ran = cuStreamSynchronize(nullptr);
  if (launched != CUDA_SUCCESS || ran != CUDA_SUCCESS)
    std::printf("  launch %s, %s\n", NameOf(launched), NameOf(ran));
}

void PrintSeen(const char* what) {
  std::printf("%s: grid %d, cluster %d, value %d\n", what, out[0], out[1], out[2]);
}

void ProbeSetParams() {
  Graph g(8, 2, 1, false);
  Launch(g.exec);
  PrintSeen("1. added with cluster 2");
  int value = 77;
  void* args[] = {&out, &value};
  for (const unsigned grid : {16u, 4u, 7u}) {
    const CUDA_KERNEL_NODE_PARAMS params = KernelOf(mark, grid, args);
    const CUresult set = cuGraphExecKernelNodeSetParams(g.exec, g.nodes[0], &params);
    std::printf("1. new parameters with grid %u: %s\n", grid, NameOf(set));
    if (set != CUDA_SUCCESS) continue;
    Launch(g.exec);
    PrintSeen("1.   seen");
  }
}

void ProbeCost() {
  Graph g(8, 2, 64, false);
  int value = 1;
  void* args[] = {&out, &value};
  const CUDA_KERNEL_NODE_PARAMS params = KernelOf(mark, 16, args);
  for (int round = 0; round < 3; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (const CUgraphNode node : g.nodes)
      CHECK(cuGraphExecKernelNodeSetParams(g.exec, node, &params));
    const auto spent = std::chrono::steady_clock::now() - begin;
    std::printf("2. %.2f us a node of 64\n",
                std::chrono::duration<double, std::micro>(spent).count() / 64);
  }
}

double MicrosecondsOf(CUgraphExec exec, int count) {
  std::vector<float> times;
  CUevent begin, end;
  CHECK(cuEventCreate(&begin, 0));
  CHECK(cuEventCreate(&end, 0));
  for (int i = 0; i < 15; ++i) {
    CHECK(cuEventRecord(begin, nullptr));
    CHECK(cuGraphLaunch(exec, nullptr));
    CHECK(cuEventRecord(end, nullptr));
    CHECK(cuEventSynchronize(end));
    float ms;
    CHECK(cuEventElapsedTime(&ms, begin, end));
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1000 / count;
}

CUgraphExec Captured(int count, unsigned cluster, bool programmatic) {
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < count; ++i) {
    void* args[] = {&out, &i};
    CUlaunchConfig config = {};
    config.gridDimX = 8;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 32;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    CUlaunchAttribute attributes[2] = {};
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[0].value.clusterDim = {cluster, 1, 1};
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[1].value.programmaticStreamSerializationAllowed = 1;
    config.attrs = attributes;
    config.numAttrs = programmatic ? 2 : 1;
    CHECK(cuLaunchKernelEx(&config, mark, args, nullptr));
  }
  CUgraph graph;
  CHECK(cuStreamEndCapture(stream, &graph));
  CUgraphExec exec;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

void ProbeEdges() {
  const int count = 200;
  for (const bool programmatic : {false, true}) {
    Graph added(8, 2, count, programmatic);
    CUgraphExec captured = Captured(count, 2, programmatic);
    MicrosecondsOf(added.exec, count);
    const double by_hand = MicrosecondsOf(added.exec, count);
    MicrosecondsOf(captured, count);
    std::printf("3. %s edges: added %.3f us a kernel, captured %.3f\n",
                programmatic ? "programmatic" : "plain", by_hand, MicrosecondsOf(captured, count));
  }
}

void ProbeUpdate() {
  Graph two(8, 2, 1, false), four(8, 4, 1, false), two_again(16, 2, 1, false);
  for (Graph* other : {&two_again, &four}) {
    CUgraphExecUpdateResultInfo info = {};
    const CUresult updated = cuGraphExecUpdate(two.exec, other->graph, &info);
    std::printf("4. update of cluster 2 to %s: %s, result %d\n",
                other == &four ? "cluster 4" : "another grid", NameOf(updated),
                static_cast<int>(info.result));
    Launch(two.exec);
    PrintSeen("4.   seen");
  }
}

void ProbeConditional() {
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
  CUgraphConditionalHandle handle;
  CHECK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = CU_GRAPH_COND_TYPE_IF;
  params.conditional.size = 1;
  params.conditional.ctx = context;
  CUgraphNode node;
  CHECK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  CUgraph body = params.conditional.phGraph_out[0];
  std::vector<CUgraphNode> nodes;
  for (int i = 0; i < 2; ++i) {
    int value = 50 + i;
    void* args[] = {&out, &value};
    CUgraphNodeParams kernel = {};
    kernel.type = CU_GRAPH_NODE_TYPE_KERNEL;
    kernel.kernel.func = mark;
    kernel.kernel.gridDimX = 8;
    kernel.kernel.gridDimY = kernel.kernel.gridDimZ = 1;
    kernel.kernel.blockDimX = 32;
    kernel.kernel.blockDimY = kernel.kernel.blockDimZ = 1;
    kernel.kernel.kernelParams = args;
    CUgraphEdgeData edge = {};
    edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    CUgraphNode added;
    const CUresult result = cuGraphAddNode(&added, body, nodes.empty() ? nullptr : &nodes.back(),
                                           nodes.empty() ? nullptr : &edge, nodes.size(), &kernel);
    std::printf("5. kernel %d in a conditional body: %s\n", i, NameOf(result));
    if (result != CUDA_SUCCESS) return;
    CUkernelNodeAttrValue value_of = {};
    value_of.clusterDim = {2, 1, 1};
    std::printf("5.   cluster 2: %s\n",
                NameOf(cuGraphKernelNodeSetAttribute(added, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                                     &value_of)));
    nodes.push_back(added);
  }
  CUgraphExec exec;
  const CUresult made = cuGraphInstantiateWithFlags(&exec, graph, 0);
  std::printf("5. instantiated: %s\n", NameOf(made));
  if (made != CUDA_SUCCESS) return;
  Launch(exec);
  PrintSeen("5.   seen");
}

CUtensorMap MapOf(CUdeviceptr memory) {
  CUtensorMap map;
  const cuuint64_t dims[1] = {32};
  const cuuint64_t strides[1] = {0};
  const cuuint32_t box[1] = {32}, ones[1] = {1};
  CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 1,
                               reinterpret_cast<void*>(memory), dims, strides, box, ones,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                               CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

void ProbeMaps() {
  CUdeviceptr a, b;
  CHECK(cuMemAlloc(&a, 128));
  CHECK(cuMemAlloc(&b, 128));
  CHECK(cuMemsetD32(a, 111, 32));
  CHECK(cuMemsetD32(b, 222, 32));
  CUtensorMap map = MapOf(a);
  void* args[] = {&map, &out};
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
  CUDA_KERNEL_NODE_PARAMS params = KernelOf(first, 1, args);
  CUgraphNode node;
  CHECK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  CUgraphExec exec;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  Launch(exec);
  std::printf("6. map of 111: %d\n", out[0]);
  map = MapOf(b);
  std::printf("6. new parameters with a map of 222: %s\n",
              NameOf(cuGraphExecKernelNodeSetParams(exec, node, &params)));
  Launch(exec);
  std::printf("6.   seen: %d\n", out[0]);
}

}  // namespace

int main() {
  setvbuf(stdout, nullptr, _IONBF, 0);
  cudaFree(nullptr);
  CHECK(cuInit(0));
  CHECK(cuCtxGetCurrent(&context));
  if (cudaHostAlloc(&out, 64, cudaHostAllocMapped) != cudaSuccess) return 3;
  cudaGetFuncBySymbol(&mark, reinterpret_cast<const void*>(&Mark));
  cudaGetFuncBySymbol(&first, reinterpret_cast<const void*>(&First));
  ProbeSetParams();
  ProbeCost();
  ProbeEdges();
  ProbeUpdate();
  ProbeConditional();
  ProbeMaps();
  return 0;
}
