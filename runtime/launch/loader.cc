#include <cstdint>
#include <exception>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/driver/driver.h"
#include "runtime/launch/binding.h"
#include "src/base/status.h"

namespace sinter {

namespace {

constexpr const char* kAxis[3] = {"x", "y", "z"};

absl::Status OverLimit(absl::string_view what, uint64_t value, uint64_t limit) {
  return FailedPrecondition(what, " ", value, " exceeds the device's ", limit);
}

absl::Status CheckLimits(const LaunchRecipe& recipe, const DeviceLimits& limits) {
  for (int i = 0; i < 3; ++i) {
    if (recipe.grid[i] > static_cast<uint32_t>(limits.max_grid[i])) {
      return OverLimit(absl::StrCat("grid.", kAxis[i]), recipe.grid[i], limits.max_grid[i]);
    }
    if (recipe.block[i] > static_cast<uint32_t>(limits.max_block[i])) {
      return OverLimit(absl::StrCat("block.", kAxis[i]), recipe.block[i], limits.max_block[i]);
    }
  }
  if (ThreadsPerBlock(recipe) > static_cast<uint64_t>(limits.max_threads_per_block)) {
    return OverLimit("threads per block", ThreadsPerBlock(recipe), limits.max_threads_per_block);
  }
  if (recipe.shared_bytes > static_cast<uint64_t>(limits.max_shared_bytes)) {
    return OverLimit("dynamic shared memory per block in bytes", recipe.shared_bytes,
                     limits.max_shared_bytes);
  }
  if (recipe.cooperative && !limits.cooperative) {
    return FailedPrecondition("the device has no cooperative launch");
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t BlocksPerCluster(const LaunchRecipe& recipe) {
  return uint64_t{recipe.cluster[0]} * recipe.cluster[1] * recipe.cluster[2];
}

uint64_t ThreadsPerBlock(const LaunchRecipe& recipe) {
  return uint64_t{recipe.block[0]} * recipe.block[1] * recipe.block[2];
}

absl::Status CheckRecipe(const LaunchRecipe& recipe, const DeviceLimits& limits) {
  SINTER_RETURN_IF_ERROR(recipe.Check());
  return CheckLimits(recipe, limits);
}

namespace {

absl::StatusOr<int> AttributeOf(const Driver& driver, CUfunction function,
                                CUfunction_attribute attribute) {
  int value = 0;
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->FuncGetAttribute(&value, attribute, function), "cuFuncGetAttribute"));
  return value;
}

absl::Status CheckResources(const Device& device, CUfunction function, const LaunchRecipe& recipe) {
  const Driver& driver = device.driver();
  SINTER_ASSIGN_OR_RETURN(const int max_threads,
                          AttributeOf(driver, function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  SINTER_ASSIGN_OR_RETURN(const int static_bytes,
                          AttributeOf(driver, function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  if (ThreadsPerBlock(recipe) > static_cast<uint64_t>(max_threads)) {
    return FailedPrecondition("threads per block ", ThreadsPerBlock(recipe),
                              " exceeds the kernel's ", max_threads);
  }
  const int64_t total = int64_t{recipe.shared_bytes} + static_bytes;
  if (total > device.limits().max_shared_bytes) {
    return FailedPrecondition("shared memory per block in bytes ", recipe.shared_bytes,
                              " dynamic + ", static_bytes, " static exceeds the device's ",
                              device.limits().max_shared_bytes);
  }
  return absl::OkStatus();
}

// The driver copies as many parameters as the kernel declares: a recipe with fewer would be read
// past its end.
absl::Status CheckSignature(const Driver& driver, CUfunction function,
                            const std::vector<ArgSlot>& args) {
  if (driver->FuncGetParamInfo == nullptr) return absl::OkStatus();
  for (size_t i = 0; i <= args.size(); ++i) {
    size_t offset = 0;
    size_t size = 0;
    const CUresult result = driver->FuncGetParamInfo(function, i, &offset, &size);
    const bool declared = result == CUDA_SUCCESS;
    if (!declared && result != CUDA_ERROR_INVALID_VALUE) {
      return driver.Check(result, "cuFuncGetParamInfo");
    }
    if (declared != (i < args.size())) {
      return Invalid("the recipe gives ", args.size(), " arguments, the kernel takes ",
                     declared ? "more" : absl::StrCat(i));
    }
    if (declared && size != SizeOfArg(args[i])) {
      return Invalid("argument ", i, " has ", SizeOfArg(args[i]),
                     " bytes, the kernel's parameter has ", size);
    }
  }
  return absl::OkStatus();
}

}  // namespace

size_t SizeOfArg(const ArgSlot& arg) {
  switch (arg.kind) {
    case ArgKind::kTensorMap:
      return sizeof(CUtensorMap);
    case ArgKind::kPointer:
    case ArgKind::kRoom:
    case ArgKind::kPlan:
      return sizeof(DevicePtr);
    case ArgKind::kSymbolM:
    case ArgKind::kFirstRow:
    case ArgKind::kInt32:
    case ArgKind::kFloat32:
      return 4;
    case ArgKind::kBytes:
      return arg.bytes.size();
  }
  return 0;
}

absl::Status CheckFunction(const Device& device, CUfunction function, const LaunchRecipe& recipe) {
  SINTER_RETURN_IF_ERROR(CheckResources(device, function, recipe));
  return CheckSignature(device.driver(), function, recipe.args);
}

void ReleaseQueue::Push(std::shared_ptr<const void> object) {
  try {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!closed_) {
        pending_.push_back(std::move(object));
        return;
      }
    }
    std::thread([last = std::move(object)]() mutable { last.reset(); }).detach();
  } catch (const std::exception&) {
    // No memory: it must not die here, so what is still ours does not die.
    using Pointer = std::shared_ptr<const void>;
    alignas(Pointer) unsigned char kept[sizeof(Pointer)];
    new (kept) Pointer(std::move(object));
  }
}

void ReleaseQueue::Drain() {
  std::vector<std::shared_ptr<const void>> taken;
  std::lock_guard<std::mutex> lock(mutex_);
  taken.swap(pending_);
}

void ReleaseQueue::Close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  Drain();
}

namespace {

// What a graph's user object points to.
struct Tie {
  std::shared_ptr<const void> object;
  std::shared_ptr<ReleaseQueue> queue;
};

// Runs on a thread of the driver and makes no driver call.
void ReleaseTie(void* pointer) {
  const std::unique_ptr<Tie> tie(static_cast<Tie*>(pointer));
  tie->queue->Push(std::move(tie->object));
}

class DriverLoader : public Loader {
 public:
  explicit DriverLoader(std::shared_ptr<const Device> device)
      : device_(std::move(device)), queue_(std::make_shared<ReleaseQueue>()) {}
  ~DriverLoader() override { queue_->Close(); }
  void Retire() override { queue_->Close(); }

  absl::StatusOr<std::shared_ptr<LoadedKernel>> Load(absl::string_view cubin,
                                                     const LaunchRecipe& recipe) override {
    queue_->Drain();
    return LoadKernel(device_, cubin, recipe, queue_);
  }

  absl::Status MemsetAsync(DevicePtr ptr, uint8_t value, uint64_t bytes,
                           StreamHandle stream) override {
    if (bytes == 0) return absl::OkStatus();
    ContextScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    const Driver& driver = device_->driver();
    return driver.Check(driver->MemsetD8Async(static_cast<CUdeviceptr>(ptr), value, bytes,
                                              static_cast<CUstream>(stream)),
                        "cuMemsetD8Async");
  }

  absl::StatusOr<bool> IsCapturing(StreamHandle stream) override {
    ContextScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    const Driver& driver = device_->driver();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = driver->StreamIsCapturing(static_cast<CUstream>(stream), &status);
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
      absl::Status error = MakeError(ErrorCode::kStreamCapturing,
                                     "the legacy stream cannot be used while a stream of its "
                                     "context captures");
      AttachDriverResult(error, static_cast<int32_t>(result));
      return error;
    }
    SINTER_RETURN_IF_ERROR(driver.Check(result, "cuStreamIsCapturing"));
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }

  absl::Status TieToCapture(StreamHandle stream, std::shared_ptr<const void> object) override {
    ContextScope scope(*device_);  // the question is legal in every capture mode
    SINTER_RETURN_IF_ERROR(scope.status());
    const Driver& driver = device_->driver();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = nullptr;
    SINTER_RETURN_IF_ERROR(
        driver.Check(driver->StreamGetCaptureInfo(static_cast<CUstream>(stream), &status, nullptr,
                                                  &graph, nullptr, nullptr),
                     "cuStreamGetCaptureInfo"));
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return absl::OkStatus();
    return TieToGraph(graph, std::move(object));
  }

  absl::StatusOr<GraphNodeHandle> AddEmptyNode(GraphHandle graph, const NodeEdges& edges) override {
    return sinter::AddEmptyNode(*device_, graph, edges);
  }
  void RemoveNode(GraphNodeHandle node) override { sinter::RemoveNode(*device_, node); }

  absl::Status TieToGraph(GraphHandle graph, std::shared_ptr<const void> object) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    const Driver& driver = device_->driver();
    auto tie = std::make_unique<Tie>(Tie{std::move(object), queue_});
    CUuserObject user = nullptr;
    SINTER_RETURN_IF_ERROR(driver.Check(driver->UserObjectCreate(&user, tie.get(), &ReleaseTie, 1,
                                                                 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
                                        "cuUserObjectCreate"));
    tie.release();  // the user object owns it now
    const CUresult result = driver->GraphRetainUserObject(static_cast<CUgraph>(graph), user, 1,
                                                          CU_GRAPH_USER_OBJECT_MOVE);
    if (result == CUDA_SUCCESS) return absl::OkStatus();
    driver->UserObjectRelease(user, 1);
    return driver.Check(result, "cuGraphRetainUserObject");
  }

 private:
  const std::shared_ptr<const Device> device_;
  const std::shared_ptr<ReleaseQueue> queue_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(std::shared_ptr<const Device> device) {
  if (device == nullptr) return Invalid("a loader needs a device");
  return std::unique_ptr<Loader>(std::make_unique<DriverLoader>(std::move(device)));
}

}  // namespace sinter
