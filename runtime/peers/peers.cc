#include "runtime/peers/peers.h"

#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr size_t kWordBytes = 64;  // pinned words have a cache line of their own

class DriverPeerMemory : public PeerMemory {
 public:
  DriverPeerMemory(std::shared_ptr<const Device> device, Stream stream)
      : device_(std::move(device)), driver_(device_->driver()), stream_(std::move(stream)) {}

  absl::StatusOr<std::array<uint8_t, 16>> DeviceUuid() const override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    CUuuid uuid;
    SINTER_RETURN_IF_ERROR(
        driver_.Check(driver_->DeviceGetUuid(&uuid, device_->handle()), "cuDeviceGetUuid"));
    std::array<uint8_t, 16> bytes;
    std::memcpy(bytes.data(), uuid.bytes, bytes.size());
    return bytes;
  }

  absl::StatusOr<DevicePtr> Allocate(uint64_t bytes) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    CUdeviceptr pointer = 0;
    const absl::Status status = driver_.Check(driver_->MemAlloc(&pointer, bytes), "cuMemAlloc");
    if (!status.ok()) return Annotate(status, absl::StrCat("allocating ", bytes, " bytes"));
    return static_cast<DevicePtr>(pointer);
  }
  void Free(DevicePtr pointer) override {
    DriverScope scope(*device_);
    driver_->MemFree(pointer);
  }

  absl::StatusOr<HostWords> AllocateWords() override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    void* host = nullptr;
    SINTER_RETURN_IF_ERROR(
        driver_.Check(driver_->MemHostAlloc(&host, kWordBytes,
                                            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                      "cuMemHostAlloc"));
    std::memset(host, 0, kWordBytes);
    CUdeviceptr device = 0;
    const absl::Status mapped = driver_.Check(driver_->MemHostGetDevicePointer(&device, host, 0),
                                              "cuMemHostGetDevicePointer");
    if (!mapped.ok()) {
      driver_->MemFreeHost(host);
      return mapped;
    }
    return HostWords{static_cast<uint32_t*>(host), static_cast<DevicePtr>(device)};
  }
  void FreeWords(const HostWords& words) override {
    DriverScope scope(*device_);
    driver_->MemFreeHost(words.host);
  }

  absl::StatusOr<Handle> Export(DevicePtr allocated) const override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    CUipcMemHandle raw;
    const absl::Status status =
        driver_.Check(driver_->IpcGetMemHandle(&raw, allocated), "cuIpcGetMemHandle");
    if (!status.ok()) return Annotate(status, "sharing memory with other processes");
    Handle handle;
    static_assert(sizeof(raw) == sizeof(handle), "64 plain bytes");
    std::memcpy(handle.data(), &raw, handle.size());
    return handle;
  }
  absl::StatusOr<DevicePtr> Open(const Handle& handle) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    CUipcMemHandle raw;
    std::memcpy(&raw, handle.data(), handle.size());
    CUdeviceptr pointer = 0;
    const absl::Status status =
        driver_.Check(driver_->IpcOpenMemHandle(&pointer, raw, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                      "cuIpcOpenMemHandle");
    if (!status.ok()) {
      return Annotate(status,
                      "opening another process's memory: the processes must share one host and one "
                      "IPC namespace, and their GPUs must reach each other");
    }
    return static_cast<DevicePtr>(pointer);
  }
  void Close(DevicePtr opened) override {
    DriverScope scope(*device_);
    driver_->IpcCloseMemHandle(opened);
  }

  absl::Status Reach(const PeerMemory& peer) override {
    const Device& other = *static_cast<const DriverPeerMemory&>(peer).device_;
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    int can = 0;
    SINTER_RETURN_IF_ERROR(
        driver_.Check(driver_->DeviceCanAccessPeer(&can, device_->handle(), other.handle()),
                      "cuDeviceCanAccessPeer"));
    if (can == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "device ", device_->ordinal(), " cannot reach the memory of device ", other.ordinal()));
    }
    const CUresult enabled = driver_->CtxEnablePeerAccess(other.context(), 0);
    if (enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return absl::OkStatus();
    return driver_.Check(enabled, "cuCtxEnablePeerAccess");
  }

  absl::Status Fill(DevicePtr to, uint8_t byte, uint64_t bytes) override {
    return Run([&] {
      return driver_.Check(driver_->MemsetD8Async(to, byte, bytes, stream_.get()),
                           "cuMemsetD8Async");
    });
  }
  absl::Status Upload(DevicePtr to, const void* from, uint64_t bytes) override {
    return Run([&] {
      return driver_.Check(driver_->MemcpyHtoDAsync(to, from, bytes, stream_.get()),
                           "cuMemcpyHtoDAsync");
    });
  }
  absl::Status Download(void* to, DevicePtr from, uint64_t bytes) override {
    return Run([&] {
      return driver_.Check(driver_->MemcpyDtoHAsync(to, from, bytes, stream_.get()),
                           "cuMemcpyDtoHAsync");
    });
  }
  absl::Status Push(DevicePtr to, DevicePtr from, uint64_t bytes) override {
    return Run([&] {
      return driver_.Check(driver_->MemcpyDtoDAsync(to, from, bytes, stream_.get()),
                           "cuMemcpyDtoDAsync");
    });
  }

 private:
  absl::Status Run(const std::function<absl::Status()>& enqueue) {
    std::lock_guard<std::mutex> lock(mutex_);
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    const absl::Status enqueued = enqueue();
    const absl::Status finished =
        driver_.Check(driver_->StreamSynchronize(stream_.get()), "cuStreamSynchronize");
    return enqueued.ok() ? finished : enqueued;
  }

  const std::shared_ptr<const Device> device_;
  const Driver& driver_;
  const Stream stream_;
  std::mutex mutex_;  // of the stream
};

}  // namespace

absl::StatusOr<std::unique_ptr<PeerMemory>> MakePeerMemory(std::shared_ptr<const Device> device) {
  SINTER_ASSIGN_OR_RETURN(Stream stream, MakeStream(device));
  return std::unique_ptr<PeerMemory>(
      std::make_unique<DriverPeerMemory>(std::move(device), std::move(stream)));
}

}  // namespace sinter
