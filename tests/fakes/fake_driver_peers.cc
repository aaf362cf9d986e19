// The fake's memory between devices: pinned memory, peers, handles for other processes. A handle
// may be opened in its own process, which the real driver refuses: tests play all ranks in one.
#include <cstdlib>
#include <cstring>

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

}  // namespace sinter
