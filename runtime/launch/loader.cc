#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "runtime/driver/driver.h"
#include "runtime/launch/binding.h"
#include "src/base/status.h"

namespace sinter {

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
