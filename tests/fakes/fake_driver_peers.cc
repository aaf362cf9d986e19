// The fake's memory between devices: pinned memory, peers, handles for other processes. A handle
// may be opened in its own process, which the real driver refuses: tests play all ranks in one.
#include <sys/mman.h>

#include "tests/fakes/fake_calls.h"

namespace sinter {
namespace {

void* HostOf(CUdeviceptr pointer) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(pointer));
}

}  // namespace

CUresult FakeCalls::MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  if (!f.Allocated(to, bytes) || !f.Allocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  bool lost = false;
  for (const auto& [opened, count] : f.opened_) {
    const bool inside = to >= opened && to < opened + f.allocations_[opened];
    lost = lost || (inside && !f.copies_to_peers);
  }
  if (!lost) std::memcpy(HostOf(to), HostOf(from), bytes);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemHostAlloc(void** pointer, size_t bytes, unsigned int) {
  CUdeviceptr memory = 0;
  const CUresult result = MemAlloc(&memory, bytes);
  if (result == CUDA_SUCCESS) *pointer = HostOf(memory);
  return result;
}

CUresult FakeCalls::MemFreeHost(void* pointer) {
  return MemFree(reinterpret_cast<uintptr_t>(pointer));
}

CUresult FakeCalls::MemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned int) {
  *device = reinterpret_cast<uintptr_t>(host);
  return f.allocations_.count(*device) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult FakeCalls::DeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, 0x50 + device, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::DeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  *can = f.reaches_peer(device, peer) ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::CtxEnablePeerAccess(CUcontext peer, unsigned int) {
  const bool first = f.peers_[{f.Current(), peer}]++ == 0;
  return first ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult FakeCalls::IpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  if (f.allocations_.count(pointer) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &pointer, sizeof pointer);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::IpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned int) {
  CUdeviceptr memory = 0;
  std::memcpy(&memory, &handle, sizeof memory);
  if (!f.ipc_works || f.allocations_.count(memory) == 0) return CUDA_ERROR_INVALID_HANDLE;
  ++f.opened_[memory];
  *pointer = memory;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::IpcCloseMemHandle(CUdeviceptr pointer) {
  const auto found = f.opened_.find(pointer);
  if (found == f.opened_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second == 0) f.opened_.erase(found);
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- memory by file descriptors
//
// A file without a name replaces a GPU's memory: its descriptors open it in other processes too.

CUresult FakeCalls::MemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                                CUmemAllocationGranularity_flags) {
  *bytes = size_t{2} << 20;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemCreate(CUmemGenericAllocationHandle* memory, size_t bytes,
                              const CUmemAllocationProp* properties, unsigned long long) {
  if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      bytes % (size_t{2} << 20) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int file = memfd_create("fake_gpu", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = f.next_handle_++;
  f.created_[*memory] = {file, bytes};
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemRelease(CUmemGenericAllocationHandle memory) {
  const auto found = f.created_.find(memory);
  if (found == f.created_.end()) return CUDA_ERROR_INVALID_VALUE;
  close(found->second.first);
  f.created_.erase(found);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle memory,
                                               CUmemAllocationHandleType, unsigned long long) {
  const auto found = f.created_.find(memory);
  if (found == f.created_.end()) return CUDA_ERROR_INVALID_VALUE;
  const int copy = dup(found->second.first);
  std::memcpy(shareable, &copy, sizeof copy);
  return copy < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult FakeCalls::MemImportFromShareableHandle(CUmemGenericAllocationHandle* memory,
                                                 void* shareable, CUmemAllocationHandleType) {
  const int copy = dup(static_cast<int>(reinterpret_cast<intptr_t>(shareable)));
  const off_t bytes = copy < 0 ? -1 : lseek(copy, 0, SEEK_END);
  if (bytes < 0) return CUDA_ERROR_INVALID_VALUE;
  *memory = f.next_handle_++;
  f.created_[*memory] = {copy, static_cast<size_t>(bytes)};
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t, CUdeviceptr,
                                      unsigned long long) {
  void* place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<uintptr_t>(place);
  f.reserved_[*pointer] = bytes;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemAddressFree(CUdeviceptr pointer, size_t bytes) {
  const auto found = f.reserved_.find(pointer);
  if (found == f.reserved_.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  munmap(HostOf(pointer), bytes);
  f.reserved_.erase(found);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemMap(CUdeviceptr pointer, size_t bytes, size_t,
                           CUmemGenericAllocationHandle memory, unsigned long long) {
  const auto created = f.created_.find(memory);
  const auto reserved = f.reserved_.find(pointer);
  if (created == f.created_.end() || created->second.second != bytes ||
      reserved == f.reserved_.end() || reserved->second != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const void* mapped =
      mmap(HostOf(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, created->second.first, 0);
  return mapped == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult FakeCalls::MemUnmap(CUdeviceptr pointer, size_t bytes) {
  const auto reserved = f.reserved_.find(pointer);
  if (reserved == f.reserved_.end() || reserved->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  f.allocations_.erase(pointer);
  mmap(HostOf(pointer), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}

// From here on copies may name it.
CUresult FakeCalls::MemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access,
                                 size_t count) {
  if (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
      mprotect(HostOf(pointer), bytes, PROT_READ | PROT_WRITE) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  f.allocations_[pointer] = bytes;
  return CUDA_SUCCESS;
}

}  // namespace sinter
