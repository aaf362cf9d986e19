#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/driver/driver.h"
#include "runtime/launch/binding.h"
#include "src/base/arch.h"
#include "src/base/status.h"

namespace sinter {
namespace {

unsigned int FillAttributes(const Binding& bound, bool pdl_edge, CUlaunchAttribute* out) {
  unsigned int count = 0;
  if (bound.has_cluster) out[count++] = bound.cluster;
  if (bound.cooperative) {
    out[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    out[count++].value.cooperative = 1;
  }
  if (bound.pdl && pdl_edge) {
    out[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    out[count++].value.programmaticStreamSerializationAllowed = 1;
  }
  return count;
}

class Kernel : public LoadedKernel {
 public:
  Kernel(std::shared_ptr<const Device> device, Module module, const LaunchRecipe& recipe,
         std::shared_ptr<ReleaseQueue> queue)
      : device_(std::move(device)),
        module_(std::move(module)),
        queue_(std::move(queue)),
        entry_(recipe.entry),
        shared_bytes_(recipe.shared_bytes),
        threads_(ThreadsPerBlock(recipe)),
        non_portable_(BlocksPerCluster(recipe) > kPortableCluster) {
    for (const ArgSlot& arg : recipe.args) arg_sizes_.push_back(SizeOfArg(arg));
  }

  // The part of loading that talks to the driver. Inside a DriverScope.
  absl::Status Start(const LaunchRecipe& recipe);

  absl::Status CheckRecipe(const LaunchRecipe& recipe) const override {
    return Named(CheckCompatible(recipe));
  }
  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const LaunchRecipe& recipe,
                                                    const BufferList& buffers) const override;
  absl::Status Launch(const BoundKernel& bound, StreamHandle stream, int64_t m, int64_t row_offset,
                      bool pdl_edge) const override;
  absl::StatusOr<GraphNodeHandle> AddNode(const BoundKernel& bound, GraphHandle graph,
                                          const NodeEdges& edges, int64_t m,
                                          int64_t row_offset) const override;
  absl::Status UpdateNode(GraphExecHandle exec, GraphNodeHandle node, const BoundKernel& bound,
                          int64_t m, int64_t row_offset) const override;
  absl::StatusOr<int> MaxActiveClusters(const LaunchRecipe& recipe) const override;

 private:
  // The port's binding as this class's, or null when it is another kernel's.
  const Binding* OwnBinding(const BoundKernel& bound) const {
    const Binding& binding = static_cast<const Binding&>(bound);
    return binding.function == function_ ? &binding : nullptr;
  }
  absl::Status ForeignBinding() const {
    return Named(Invalid("the binding belongs to another kernel"));
  }
  absl::Status ForceLoad() const;
  absl::Status SetAttributes() const;
  absl::Status CheckCompatible(const LaunchRecipe& recipe) const;
  absl::Status Named(const absl::Status& status) const {
    return status.ok() ? status : Annotate(status, absl::StrCat("kernel '", entry_, "'"));
  }

  const std::shared_ptr<const Device> device_;
  const Module module_;
  const std::shared_ptr<ReleaseQueue> queue_;
  const std::string entry_;
  const uint32_t shared_bytes_;  // the most dynamic shared memory that a launch may ask for
  const uint64_t threads_;       // of a block
  const bool non_portable_;      // whether clusters above 8 were allowed
  std::vector<size_t> arg_sizes_;
  CUfunction function_ = nullptr;
};

absl::Status Kernel::Start(const LaunchRecipe& recipe) {
  const Driver& driver = device_->driver();
  SINTER_RETURN_IF_ERROR(driver.Check(
      driver->ModuleGetFunction(&function_, module_.get(), entry_.c_str()), "cuModuleGetFunction"));
  SINTER_RETURN_IF_ERROR(ForceLoad());
  SINTER_RETURN_IF_ERROR(CheckFunction(*device_, function_, recipe));
  return SetAttributes();
}

// Under lazy loading the code reaches the device at the first use, which allocates and may
// synchronise; that use is now.
absl::Status Kernel::ForceLoad() const {
  const Driver& driver = device_->driver();
  if (driver->FuncLoad == nullptr) return absl::OkStatus();  // CheckFunction touches it
  return driver.Check(driver->FuncLoad(function_), "cuFuncLoad");
}

absl::Status Kernel::SetAttributes() const {
  const Driver& driver = device_->driver();
  SINTER_RETURN_IF_ERROR(driver.Check(
      driver->FuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               static_cast<int>(shared_bytes_)),
      "cuFuncSetAttribute(max dynamic shared size)"));
  if (!non_portable_) return absl::OkStatus();
  return driver.Check(
      driver->FuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
      "cuFuncSetAttribute(non-portable cluster size)");
}

// Kernels of equal code are loaded once and differ in buffers, grid, and whether their rows are M.
absl::Status Kernel::CheckCompatible(const LaunchRecipe& recipe) const {
  SINTER_RETURN_IF_ERROR(sinter::CheckRecipe(recipe, device_->limits()));
  if (recipe.entry != entry_) return Invalid("the recipe is for entry '", recipe.entry, "'");
  if (ThreadsPerBlock(recipe) != threads_) {
    return Invalid("threads per block ", ThreadsPerBlock(recipe), ", loaded for ", threads_);
  }
  if (recipe.shared_bytes > shared_bytes_) {
    return Invalid("dynamic shared memory ", recipe.shared_bytes, " exceeds the ", shared_bytes_,
                   " bytes that it was loaded for");
  }
  if (BlocksPerCluster(recipe) > kPortableCluster && !non_portable_) {
    return Invalid("cluster of ", BlocksPerCluster(recipe), " blocks, loaded for at most ",
                   kPortableCluster);
  }
  bool same = recipe.args.size() == arg_sizes_.size();
  for (size_t i = 0; same && i < arg_sizes_.size(); ++i)
    same = SizeOfArg(recipe.args[i]) == arg_sizes_[i];
  if (!same) return Invalid("the sizes of arguments differ from those loaded");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BoundKernel>> Kernel::Bind(const LaunchRecipe& recipe,
                                                          const BufferList& buffers) const {
  queue_->Drain();
  SINTER_RETURN_IF_ERROR(Named(CheckCompatible(recipe)));
  ContextScope scope(*device_);
  SINTER_RETURN_IF_ERROR(Named(scope.status()));
  auto binding = MakeBinding(device_->driver(), function_, recipe, buffers);
  if (!binding.ok()) return Named(binding.status());
  return std::unique_ptr<BoundKernel>(std::move(*binding));
}

absl::Status Kernel::Launch(const BoundKernel& bound, StreamHandle stream, int64_t m,
                            int64_t row_offset, bool pdl_edge) const {
  const Binding* const binding = OwnBinding(bound);
  if (binding == nullptr) return ForeignBinding();
  ContextScope scope(*device_);
  if (!scope.status().ok()) return Named(scope.status());
  const Driver& driver = device_->driver();
  Frame frame;
  const absl::Status status = FillParams(driver, *binding, m, row_offset, &frame);
  if (!status.ok()) return Named(status);
  CUlaunchConfig config = binding->config;
  config.gridDimX = BlocksFor(*binding, m);
  config.hStream = static_cast<CUstream>(stream);
  config.attrs = frame.attributes;
  config.numAttrs = FillAttributes(*binding, pdl_edge, frame.attributes);
  const CUresult result = driver->LaunchKernelEx(&config, function_, frame.params, nullptr);
  return result == CUDA_SUCCESS ? absl::OkStatus()
                                : Named(driver.Check(result, "cuLaunchKernelEx"));
}

absl::StatusOr<GraphNodeHandle> Kernel::AddNode(const BoundKernel& bound, GraphHandle graph,
                                                const NodeEdges& edges, int64_t m,
                                                int64_t row_offset) const {
  const Binding* const binding = OwnBinding(bound);
  if (binding == nullptr) return ForeignBinding();
  auto node = AddKernelNode(*device_, *binding, graph, edges, m, row_offset);
  if (!node.ok()) return Named(node.status());
  return node;
}

absl::Status Kernel::UpdateNode(GraphExecHandle exec, GraphNodeHandle node,
                                const BoundKernel& bound, int64_t m, int64_t row_offset) const {
  const Binding* const binding = OwnBinding(bound);
  if (binding == nullptr) return ForeignBinding();
  return Named(UpdateKernelNode(*device_, *binding, exec, node, m, row_offset));
}

absl::StatusOr<int> Kernel::MaxActiveClusters(const LaunchRecipe& recipe) const {
  SINTER_RETURN_IF_ERROR(Named(CheckCompatible(recipe)));
  DriverScope scope(*device_);
  SINTER_RETURN_IF_ERROR(Named(scope.status()));
  const Driver& driver = device_->driver();
  int count = 0;
  if (BlocksPerCluster(recipe) == 1) {
    const CUresult result = driver->OccupancyMaxActiveBlocks(
        &count, function_, static_cast<int>(ThreadsPerBlock(recipe)), recipe.shared_bytes);
    SINTER_RETURN_IF_ERROR(
        Named(driver.Check(result, "cuOccupancyMaxActiveBlocksPerMultiprocessor")));
    return count * device_->limits().sm_count;
  }
  CUlaunchAttribute cluster = ClusterAttribute(recipe);
  CUlaunchConfig config = ConfigOf(recipe);
  config.attrs = &cluster;
  config.numAttrs = 1;
  SINTER_RETURN_IF_ERROR(
      Named(driver.Check(driver->OccupancyMaxActiveClusters(&count, function_, &config),
                         "cuOccupancyMaxActiveClusters")));
  return count;
}

// Both forms of a kernel node's parameters have these fields.
template <typename Params>
void SetParams(const Binding& bound, int64_t m, Frame* frame, Params* out) {
  out->func = bound.function;
  out->gridDimX = BlocksFor(bound, m);
  out->gridDimY = bound.config.gridDimY;
  out->gridDimZ = bound.config.gridDimZ;
  out->blockDimX = bound.config.blockDimX;
  out->blockDimY = bound.config.blockDimY;
  out->blockDimZ = bound.config.blockDimZ;
  out->sharedMemBytes = bound.config.sharedMemBytes;
  out->kernelParams = frame->params;
}

// The edges from `edges.from`, programmatic from kernels if `programmatic`.
absl::StatusOr<std::vector<CUgraphEdgeData>> EdgesOf(const Driver& driver, const NodeEdges& edges,
                                                     bool programmatic) {
  std::vector<CUgraphEdgeData> result(edges.from.size());
  for (size_t i = 0; programmatic && i < result.size(); ++i) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    SINTER_RETURN_IF_ERROR(
        driver.Check(driver->GraphNodeGetType(static_cast<CUgraphNode>(edges.from[i]), &type),
                     "cuGraphNodeGetType"));
    if (type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    result[i].from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    result[i].type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  return result;
}

absl::StatusOr<CUgraphNode> Add(const Driver& driver, GraphHandle graph, const NodeEdges& edges,
                                bool programmatic, CUgraphNodeParams* params) {
  if (driver->GraphAddNode == nullptr) {
    return absl::UnimplementedError(
        "the driver lacks cuGraphAddNode_v2, which came with CUDA 12.3: capture a launch instead");
  }
  SINTER_ASSIGN_OR_RETURN(const std::vector<CUgraphEdgeData> data,
                          EdgesOf(driver, edges, programmatic));
  std::vector<CUgraphNode> from;
  for (const GraphNodeHandle node : edges.from) from.push_back(static_cast<CUgraphNode>(node));
  CUgraphNode node = nullptr;
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->GraphAddNode(&node, static_cast<CUgraph>(graph), from.data(),
                                        data.data(), from.size(), params),
                   "cuGraphAddNode"));
  return node;
}

// Clusters and co-residency are attributes of a node; they stay when its parameters change.
absl::Status SetAttributes(const Driver& driver, const Binding& bound, CUgraphNode node) {
  if (bound.has_cluster) {
    SINTER_RETURN_IF_ERROR(driver.Check(
        driver->GraphKernelNodeSetAttribute(node, bound.cluster.id, &bound.cluster.value),
        "cuGraphKernelNodeSetAttribute(cluster)"));
  }
  if (!bound.cooperative) return absl::OkStatus();
  CUlaunchAttributeValue value{};
  value.cooperative = 1;
  return driver.Check(
      driver->GraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
      "cuGraphKernelNodeSetAttribute(cooperative)");
}

}  // namespace

absl::StatusOr<std::shared_ptr<LoadedKernel>> LoadKernel(
    const std::shared_ptr<const Device>& device, absl::string_view cubin,
    const LaunchRecipe& recipe, std::shared_ptr<ReleaseQueue> queue) {
  absl::Status status = CheckCode(cubin);
  if (!status.ok()) return Annotate(status, absl::StrCat("kernel '", recipe.entry, "'"));
  status = CheckRecipe(recipe, device->limits());
  if (!status.ok()) return Annotate(status, absl::StrCat("kernel '", recipe.entry, "'"));
  DriverScope scope(*device);
  SINTER_RETURN_IF_ERROR(scope.status());
  // A record's bytes lie at any address; the driver reads the image as structures.
  std::vector<std::max_align_t> image(cubin.size() / sizeof(std::max_align_t) + 1);
  std::memcpy(image.data(), cubin.data(), cubin.size());
  absl::StatusOr<Module> module = LoadModule(device, image.data());
  if (!module.ok()) return Annotate(module.status(), absl::StrCat("kernel '", recipe.entry, "'"));
  auto kernel = std::make_shared<Kernel>(device, std::move(*module), recipe, std::move(queue));
  status = kernel->Start(recipe);
  if (!status.ok()) return Annotate(status, absl::StrCat("kernel '", recipe.entry, "'"));
  return std::shared_ptr<LoadedKernel>(std::move(kernel));
}

absl::StatusOr<GraphNodeHandle> AddKernelNode(const Device& device, const Binding& bound,
                                              GraphHandle graph, const NodeEdges& edges, int64_t m,
                                              int64_t row_offset) {
  const Driver& driver = device.driver();
  DriverScope scope(device);
  SINTER_RETURN_IF_ERROR(scope.status());
  Frame frame;
  SINTER_RETURN_IF_ERROR(FillParams(driver, bound, m, row_offset, &frame));
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  SetParams(bound, m, &frame, &params.kernel);
  SINTER_ASSIGN_OR_RETURN(const CUgraphNode node,
                          Add(driver, graph, edges, edges.programmatic && bound.pdl, &params));
  const absl::Status status = SetAttributes(driver, bound, node);
  if (status.ok()) return static_cast<GraphNodeHandle>(node);
  driver->GraphDestroyNode(node);
  return status;
}

absl::Status UpdateKernelNode(const Device& device, const Binding& bound, GraphExecHandle exec,
                              GraphNodeHandle node, int64_t m, int64_t row_offset) {
  const Driver& driver = device.driver();
  DriverScope scope(device);
  SINTER_RETURN_IF_ERROR(scope.status());
  Frame frame;
  SINTER_RETURN_IF_ERROR(FillParams(driver, bound, m, row_offset, &frame));
  CUDA_KERNEL_NODE_PARAMS params{};
  SetParams(bound, m, &frame, &params);
  return driver.Check(driver->GraphExecKernelNodeSetParams(static_cast<CUgraphExec>(exec),
                                                           static_cast<CUgraphNode>(node), &params),
                      "cuGraphExecKernelNodeSetParams");
}

absl::StatusOr<GraphNodeHandle> AddEmptyNode(const Device& device, GraphHandle graph,
                                             const NodeEdges& edges) {
  DriverScope scope(device);
  SINTER_RETURN_IF_ERROR(scope.status());
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  SINTER_ASSIGN_OR_RETURN(const CUgraphNode node,
                          Add(device.driver(), graph, edges, /*programmatic=*/false, &params));
  return static_cast<GraphNodeHandle>(node);
}

void RemoveNode(const Device& device, GraphNodeHandle node) {
  DriverScope scope(device);
  if (scope.status().ok()) device.driver()->GraphDestroyNode(static_cast<CUgraphNode>(node));
}

}  // namespace sinter
