#include "runtime/peers/peers.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
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

  absl::StatusOr<DevicePtr> Allocate(uint64_t bytes, RoomSharing sharing) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    if (sharing == RoomSharing::kDescriptor) {
      return InContext(Create(bytes), absl::StrCat("allocating ", bytes, " bytes to be shared"));
    }
    CUdeviceptr pointer = 0;
    const absl::Status status = driver_.Check(driver_->MemAlloc(&pointer, bytes), "cuMemAlloc");
    if (!status.ok()) return Annotate(status, absl::StrCat("allocating ", bytes, " bytes"));
    return static_cast<DevicePtr>(pointer);
  }
  void Free(DevicePtr pointer) override {
    DriverScope scope(*device_);
    if (!Unmap(pointer)) driver_->MemFree(pointer);
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

  absl::StatusOr<Handle> Export(DevicePtr allocated) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    if (const Mapping* mapping = Find(allocated); mapping != nullptr) {
      if (post_ == nullptr) {
        SINTER_ASSIGN_OR_RETURN(post_, DescriptorPost::Open());
      }
      shared_bytes_ = mapping->bytes;
      return HandleOf(DescriptorHandle{post_->address(), mapping->bytes, kByDescriptor});
    }
    CUipcMemHandle raw;
    const absl::Status status =
        driver_.Check(driver_->IpcGetMemHandle(&raw, allocated), "cuIpcGetMemHandle");
    if (!status.ok()) return Annotate(status, "sharing memory with other processes");
    return HandleOf(raw);
  }

  absl::Status Offer(DevicePtr allocated, const Handle& to) override {
    const Mapping* mapping = Find(allocated);
    if (mapping == nullptr) return absl::OkStatus();
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    int descriptor = -1;
    SINTER_RETURN_IF_ERROR(driver_.Check(
        driver_->MemExportToShareableHandle(&descriptor, mapping->memory,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle"));
    if (!offers_end_.has_value()) offers_end_ = std::chrono::steady_clock::now() + kOffersTake;
    const absl::Status sent =
        post_->Send(descriptor, FromHandle<DescriptorHandle>(to).address, *offers_end_);
    close(descriptor);
    return WithinTheTime(sent);
  }

  absl::StatusOr<DevicePtr> Open(const Handle& handle) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    if (post_ != nullptr) return OpenDescriptor(FromHandle<DescriptorHandle>(handle));
    CUdeviceptr pointer = 0;
    const absl::Status status =
        driver_.Check(driver_->IpcOpenMemHandle(&pointer, FromHandle<CUipcMemHandle>(handle),
                                                CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                      "cuIpcOpenMemHandle");
    if (!status.ok()) {
      return Annotate(status,
                      "opening another process's memory: the processes must share one host and one "
                      "IPC namespace, and their GPUs must reach each other; else share it by file "
                      "descriptors (SINTER_GROUP_DESCRIPTORS)");
    }
    return static_cast<DevicePtr>(pointer);
  }
  void Close(DevicePtr opened) override {
    DriverScope scope(*device_);
    if (!Unmap(opened)) driver_->IpcCloseMemHandle(opened);
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
      return FailedPrecondition("device ", device_->ordinal(),
                                " cannot reach the memory of device ", other.ordinal());
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
  // Memory that this GPU has mapped, its own or another process's.
  struct Mapping {
    CUmemGenericAllocationHandle memory = 0;
    uint64_t bytes = 0;
  };
  // The exchange of handles carries this where memory is shared by descriptors.
  struct DescriptorHandle {
    DescriptorPost::Address address;
    uint64_t bytes;
    uint64_t kind;
  };
  static constexpr uint64_t kByDescriptor = 0x53494e5445524644;  // no cuIpc handle says so
  static constexpr std::chrono::seconds kOffersTake{30};         // to and from all ranks together

  template <typename Raw>
  static Handle HandleOf(const Raw& raw) {
    static_assert(sizeof(raw) <= sizeof(Handle), "64 plain bytes");
    Handle handle{};
    std::memcpy(handle.data(), &raw, sizeof(raw));
    return handle;
  }
  template <typename Raw>
  static Raw FromHandle(const Handle& handle) {
    Raw raw;
    std::memcpy(&raw, handle.data(), sizeof(raw));
    return raw;
  }
  static absl::StatusOr<DevicePtr> InContext(absl::StatusOr<DevicePtr> made,
                                             const std::string& context) {
    if (made.ok()) return made;
    return Annotate(made.status(), context);
  }

  static absl::Status WithinTheTime(const absl::Status& passed) {
    if (!absl::IsDeadlineExceeded(passed)) return passed;
    return Annotate(passed, absl::StrCat("within ", kOffersTake.count(), " s of the first offer"));
  }

  CUmemLocation Here() const {
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device_->handle();
    return location;
  }

  absl::StatusOr<DevicePtr> Create(uint64_t bytes) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location = Here();
    size_t unit = 0;
    SINTER_RETURN_IF_ERROR(
        driver_.Check(driver_->MemGetAllocationGranularity(&unit, &properties,
                                                           CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                      "cuMemGetAllocationGranularity"));
    Mapping mapping;
    mapping.bytes = (bytes + unit - 1) / unit * unit;
    SINTER_RETURN_IF_ERROR(driver_.Check(
        driver_->MemCreate(&mapping.memory, mapping.bytes, &properties, 0), "cuMemCreate"));
    return Map(mapping);
  }

  absl::StatusOr<DevicePtr> OpenDescriptor(const DescriptorHandle& handle) {
    if (handle.kind != kByDescriptor) {
      return FailedPrecondition("its memory is not shared by file descriptors");
    }
    if (handle.bytes != shared_bytes_) {
      return FailedPrecondition("another process shares ", handle.bytes, " bytes, this one ",
                                shared_bytes_,
                                ": all ranks need one size of slots, and one kind of GPU");
    }
    const absl::StatusOr<int> received =
        post_->Receive(handle.address, offers_end_.value_or(Deadline()));
    if (!received.ok()) return WithinTheTime(received.status());
    const int descriptor = *received;
    Mapping mapping;
    mapping.bytes = handle.bytes;
    const absl::Status imported = driver_.Check(
        driver_->MemImportFromShareableHandle(
            &mapping.memory, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle");
    close(descriptor);
    SINTER_RETURN_IF_ERROR(imported);
    return InContext(Map(mapping),
                     "mapping another process's memory: their GPUs must reach each other");
  }

  // Takes `mapping`, also where it fails.
  absl::StatusOr<DevicePtr> Map(const Mapping& mapping) {
    CUdeviceptr pointer = 0;
    absl::Status status = driver_.Check(
        driver_->MemAddressReserve(&pointer, mapping.bytes, 0, 0, 0), "cuMemAddressReserve");
    bool mapped = false;
    if (status.ok()) {
      status =
          driver_.Check(driver_->MemMap(pointer, mapping.bytes, 0, mapping.memory, 0), "cuMemMap");
      mapped = status.ok();
    }
    if (mapped) {
      CUmemAccessDesc access{};
      access.location = Here();
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      status = driver_.Check(driver_->MemSetAccess(pointer, mapping.bytes, &access, 1),
                             "cuMemSetAccess");
    }
    if (status.ok()) {
      const std::lock_guard<std::mutex> lock(mappings_mutex_);
      mappings_[pointer] = mapping;
      return static_cast<DevicePtr>(pointer);
    }
    if (mapped) driver_->MemUnmap(pointer, mapping.bytes);
    if (pointer != 0) driver_->MemAddressFree(pointer, mapping.bytes);
    driver_->MemRelease(mapping.memory);
    return status;
  }

  // Stays until it is unmapped.
  const Mapping* Find(DevicePtr pointer) {
    const std::lock_guard<std::mutex> lock(mappings_mutex_);
    const auto found = mappings_.find(pointer);
    return found == mappings_.end() ? nullptr : &found->second;
  }

  // False where it is memory of another kind.
  bool Unmap(DevicePtr pointer) {
    Mapping mapping;
    {
      const std::lock_guard<std::mutex> lock(mappings_mutex_);
      const auto found = mappings_.find(pointer);
      if (found == mappings_.end()) return false;
      mapping = found->second;
      mappings_.erase(found);
    }
    driver_->MemUnmap(pointer, mapping.bytes);
    driver_->MemAddressFree(pointer, mapping.bytes);
    driver_->MemRelease(mapping.memory);
    return true;
  }

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
  std::mutex mutex_;                      // of the stream
  std::unique_ptr<DescriptorPost> post_;  // once memory that is shared by descriptors is exported
  uint64_t shared_bytes_ = 0;             // of that memory
  std::optional<Deadline> offers_end_;    // since the first offer
  std::mutex mappings_mutex_;
  std::map<DevicePtr, Mapping> mappings_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PeerMemory>> MakePeerMemory(std::shared_ptr<const Device> device) {
  SINTER_ASSIGN_OR_RETURN(Stream stream, MakeStream(device));
  return std::unique_ptr<PeerMemory>(
      std::make_unique<DriverPeerMemory>(std::move(device), std::move(stream)));
}

}  // namespace sinter
