// The fake's streams, events and memory. Device memory is host memory.
#include "tests/fakes/fake_calls.h"

namespace sinter {

bool FakeDriver::Allocated(CUdeviceptr pointer, size_t bytes) const {
  auto found = allocations_.upper_bound(pointer);
  if (found == allocations_.begin()) return false;
  --found;
  return pointer - found->first + bytes <= found->second;
}

// ---------------------------------------------------------------- streams and capture

CUresult FakeCalls::StreamCreate(CUstream* stream, unsigned int) {
  if (f.Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const uintptr_t id = f.next_handle_++;
  f.streams_[id] = {};
  *stream = HandleOf<CUstream>(id);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::StreamDestroy(CUstream stream) {
  return f.streams_.erase(IdOf(stream)) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FakeCalls::StreamSynchronize(CUstream stream) {
  const auto found = f.streams_.find(IdOf(stream));
  if (found != f.streams_.end() && found->second.graph != 0) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult FakeCalls::StreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  const auto found = f.streams_.find(IdOf(stream));
  if (found == f.streams_.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (found->second.graph != 0) return CUDA_ERROR_ILLEGAL_STATE;
  const uintptr_t graph = f.next_handle_++;
  f.graphs_[graph] = {};
  found->second = {graph, mode, false};
  return CUDA_SUCCESS;
}

CUresult FakeCalls::StreamEndCapture(CUstream stream, CUgraph* graph) {
  const auto found = f.streams_.find(IdOf(stream));
  if (found == f.streams_.end() || found->second.graph == 0) return CUDA_ERROR_ILLEGAL_STATE;
  const uintptr_t id = found->second.graph;
  const bool invalidated = found->second.invalidated;
  found->second = {};
  *graph = nullptr;
  if (invalidated) {
    GraphDestroy(HandleOf<CUgraph>(id));
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  *graph = HandleOf<CUgraph>(id);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::StreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return StreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr);
}

CUresult FakeCalls::StreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status,
                                         cuuint64_t*, CUgraph* graph, const CUgraphNode**,
                                         size_t*) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream == nullptr) {
    for (const auto& [id, other] : f.streams_) {
      if (other.graph != 0 && other.mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    }
    return CUDA_SUCCESS;
  }
  const auto found = f.streams_.find(IdOf(stream));
  if (found == f.streams_.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (found->second.graph == 0) return CUDA_SUCCESS;
  *status = found->second.invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (graph != nullptr) *graph = HandleOf<CUgraph>(found->second.graph);
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- events

CUresult FakeCalls::EventCreate(CUevent* event, unsigned int) {
  if (f.Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const uintptr_t id = f.next_handle_++;
  f.events_[id] = 0;
  *event = HandleOf<CUevent>(id);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::EventDestroy(CUevent event) {
  return f.events_.erase(IdOf(event)) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FakeCalls::EventRecord(CUevent event, CUstream) {
  f.events_.at(IdOf(event)) = f.clock_us_;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::EventSynchronize(CUevent) { return CUDA_SUCCESS; }

CUresult FakeCalls::EventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  *milliseconds = static_cast<float>((f.events_.at(IdOf(to)) - f.events_.at(IdOf(from))) / 1000.0);
  return CUDA_SUCCESS;
}

// ---------------------------------------------------------------- memory

CUresult FakeCalls::MemAlloc(CUdeviceptr* pointer, size_t bytes) {
  if (f.Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<uintptr_t>(memory);
  f.allocations_[*pointer] = bytes;
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemGetInfo(size_t* free, size_t* total) {
  *total = f.chips_.front().memory_bytes;
  size_t taken = 0;
  for (const auto& [pointer, bytes] : f.allocations_) taken += bytes;
  *free = *total - std::min(*total, taken);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemFree(CUdeviceptr pointer) {
  if (f.allocations_.erase(pointer) == 0) return CUDA_ERROR_INVALID_VALUE;
  std::free(reinterpret_cast<void*>(static_cast<uintptr_t>(pointer)));
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
  if (!f.Allocated(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(reinterpret_cast<void*>(static_cast<uintptr_t>(to)), from, bytes);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  if (!f.Allocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(to, reinterpret_cast<const void*>(static_cast<uintptr_t>(from)), bytes);
  return CUDA_SUCCESS;
}

CUresult FakeCalls::MemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream) {
  if (!f.Allocated(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::memset(reinterpret_cast<void*>(static_cast<uintptr_t>(to)), value, bytes);
  return CUDA_SUCCESS;
}

}  // namespace sinter
