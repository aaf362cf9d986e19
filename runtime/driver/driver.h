// Driver: libcuda, opened at run time, and its errors as statuses.
#ifndef SINTER_RUNTIME_DRIVER_DRIVER_H_
#define SINTER_RUNTIME_DRIVER_DRIVER_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// X(field, symbol, parameters). Every driver that knows sm_90 and tensor maps (12.0) has these.
#define SINTER_DRIVER_REQUIRED(X)                                                                 \
  X(Init, "cuInit", (unsigned int flags))                                                         \
  X(DriverGetVersion, "cuDriverGetVersion", (int* version))                                       \
  X(GetErrorName, "cuGetErrorName", (CUresult error, const char** name))                          \
  X(GetErrorString, "cuGetErrorString", (CUresult error, const char** text))                      \
  X(DeviceGetCount, "cuDeviceGetCount", (int* count))                                             \
  X(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                   \
  X(DeviceGetName, "cuDeviceGetName", (char* name, int size, CUdevice device))                    \
  X(DeviceGetAttribute, "cuDeviceGetAttribute",                                                   \
    (int* value, CUdevice_attribute attribute, CUdevice device))                                  \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                     \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))   \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                   \
  X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                                      \
  X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                        \
  X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                   \
  X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                   \
  X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode",                         \
    (CUstreamCaptureMode * mode))                                                                 \
  X(ModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void* image))                   \
  X(ModuleUnload, "cuModuleUnload", (CUmodule module))                                            \
  X(ModuleGetFunction, "cuModuleGetFunction",                                                     \
    (CUfunction * function, CUmodule module, const char* name))                                   \
  X(FuncGetAttribute, "cuFuncGetAttribute",                                                       \
    (int* value, CUfunction_attribute attribute, CUfunction function))                            \
  X(FuncSetAttribute, "cuFuncSetAttribute",                                                       \
    (CUfunction function, CUfunction_attribute attribute, int value))                             \
  X(OccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters",                                   \
    (int* clusters, CUfunction function, const CUlaunchConfig* config))                           \
  X(OccupancyMaxActiveBlocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                      \
    (int* blocks, CUfunction function, int threads, size_t shared_bytes))                         \
  X(TensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                               \
    (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void* address,                 \
     const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,                    \
     const cuuint32_t* element_strides, CUtensorMapInterleave interleave,                         \
     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)) \
  X(TensorMapEncodeIm2col, "cuTensorMapEncodeIm2col",                                             \
    (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void* address,                 \
     const cuuint64_t* dims, const cuuint64_t* strides, const int* lower, const int* upper,       \
     cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* element_strides,                   \
     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,                                \
     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill))                             \
  X(LaunchKernelEx, "cuLaunchKernelEx",                                                           \
    (const CUlaunchConfig* config, CUfunction function, void** params, void** extra))             \
  X(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned int flags))                      \
  X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                       \
  X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                  \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, CUstreamCaptureMode mode))   \
  X(StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                   \
  X(StreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, CUstreamCaptureStatus * status))  \
  X(StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2",                                            \
    (CUstream stream, CUstreamCaptureStatus * status, cuuint64_t * id, CUgraph * graph,           \
     const CUgraphNode** dependencies, size_t* count))                                            \
  X(EventCreate, "cuEventCreate", (CUevent * event, unsigned int flags))                          \
  X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                                           \
  X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                               \
  X(EventSynchronize, "cuEventSynchronize", (CUevent event))                                      \
  X(EventElapsedTime, "cuEventElapsedTime", (float* milliseconds, CUevent from, CUevent to))      \
  X(GraphCreate, "cuGraphCreate", (CUgraph * graph, unsigned int flags))                          \
  X(GraphDestroy, "cuGraphDestroy", (CUgraph graph))                                              \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags",                                              \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                \
  X(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec))                                   \
  X(GraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))                            \
  X(GraphNodeGetType, "cuGraphNodeGetType", (CUgraphNode node, CUgraphNodeType * type))           \
  X(GraphDestroyNode, "cuGraphDestroyNode", (CUgraphNode node))                                   \
  X(GraphKernelNodeSetAttribute, "cuGraphKernelNodeSetAttribute",                                 \
    (CUgraphNode node, CUlaunchAttributeID attribute, const CUlaunchAttributeValue* value))       \
  X(GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2",                            \
    (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params))                  \
  X(GraphRetainUserObject, "cuGraphRetainUserObject",                                             \
    (CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags))                 \
  X(UserObjectCreate, "cuUserObjectCreate",                                                       \
    (CUuserObject * object, void* pointer, CUhostFn destroy, unsigned int count,                  \
     unsigned int flags))                                                                         \
  X(UserObjectRelease, "cuUserObjectRelease", (CUuserObject object, unsigned int count))          \
  X(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t bytes))                             \
  X(MemFree, "cuMemFree_v2", (CUdeviceptr pointer))                                               \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                      \
    (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))                            \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                      \
    (void* to, CUdeviceptr from, size_t bytes, CUstream stream))                                  \
  X(MemsetD8Async, "cuMemsetD8Async",                                                             \
    (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))                         \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                      \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                            \
  X(MemHostAlloc, "cuMemHostAlloc", (void** pointer, size_t bytes, unsigned int flags))           \
  X(MemFreeHost, "cuMemFreeHost", (void* pointer))                                                \
  X(MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",                                      \
    (CUdeviceptr * device, void* host, unsigned int flags))                                       \
  X(DeviceGetUuid, "cuDeviceGetUuid_v2", (CUuuid * uuid, CUdevice device))                        \
  X(DeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int* can, CUdevice device, CUdevice peer))     \
  X(CtxEnablePeerAccess, "cuCtxEnablePeerAccess", (CUcontext peer, unsigned int flags))           \
  X(IpcGetMemHandle, "cuIpcGetMemHandle", (CUipcMemHandle * handle, CUdeviceptr pointer))         \
  X(IpcOpenMemHandle, "cuIpcOpenMemHandle_v2",                                                    \
    (CUdeviceptr * pointer, CUipcMemHandle handle, unsigned int flags))                           \
  X(IpcCloseMemHandle, "cuIpcCloseMemHandle", (CUdeviceptr pointer))                              \
  X(MemGetAllocationGranularity, "cuMemGetAllocationGranularity",                                 \
    (size_t * bytes, const CUmemAllocationProp* properties,                                       \
     CUmemAllocationGranularity_flags flags))                                                     \
  X(MemCreate, "cuMemCreate",                                                                     \
    (CUmemGenericAllocationHandle * memory, size_t bytes, const CUmemAllocationProp* properties,  \
     unsigned long long flags))                                                                   \
  X(MemRelease, "cuMemRelease", (CUmemGenericAllocationHandle memory))                            \
  X(MemExportToShareableHandle, "cuMemExportToShareableHandle",                                   \
    (void* shareable, CUmemGenericAllocationHandle memory, CUmemAllocationHandleType type,        \
     unsigned long long flags))                                                                   \
  X(MemImportFromShareableHandle, "cuMemImportFromShareableHandle",                               \
    (CUmemGenericAllocationHandle * memory, void* shareable, CUmemAllocationHandleType type))     \
  X(MemAddressReserve, "cuMemAddressReserve",                                                     \
    (CUdeviceptr * pointer, size_t bytes, size_t alignment, CUdeviceptr wanted,                   \
     unsigned long long flags))                                                                   \
  X(MemAddressFree, "cuMemAddressFree", (CUdeviceptr pointer, size_t bytes))                      \
  X(MemMap, "cuMemMap",                                                                           \
    (CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle memory,       \
     unsigned long long flags))                                                                   \
  X(MemUnmap, "cuMemUnmap", (CUdeviceptr pointer, size_t bytes))                                  \
  X(MemSetAccess, "cuMemSetAccess",                                                               \
    (CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access, size_t count))
// Newer functions (12.4; the last 12.3), and what can be done without: null where the driver lacks
// them.
#define SINTER_DRIVER_OPTIONAL(X)                                        \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t * free, size_t * total))      \
  X(FuncLoad, "cuFuncLoad", (CUfunction function))                       \
  X(FuncGetParamInfo, "cuFuncGetParamInfo",                              \
    (CUfunction function, size_t index, size_t * offset, size_t * size)) \
  X(GraphAddNode, "cuGraphAddNode_v2",                                   \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, \
     const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params))

namespace sinter {

// The driver functions that the runtime calls, as one table of pointers: filled from libcuda, or by
// a fake.
//
// Signatures are written out, not taken from cuda.h with decltype, because the plain names there
// are macros that change meaning from toolkit to toolkit. Each row names the exact exported symbol.

struct DriverTable {
#define SINTER_DRIVER_FIELD(field, symbol, parameters) CUresult(*field) parameters = nullptr;
  SINTER_DRIVER_REQUIRED(SINTER_DRIVER_FIELD)
  SINTER_DRIVER_OPTIONAL(SINTER_DRIVER_FIELD)
#undef SINTER_DRIVER_FIELD
};

// Immutable and thread-safe. The library is never closed: the driver's own threads may outlive us.
class Driver {
 public:
  // Opens `path`, or libcuda.so.1 and libcuda.so when it is empty, and initialises the driver.
  // A path that was given is the only one tried. UNAVAILABLE when there is no usable driver.
  static absl::StatusOr<std::shared_ptr<const Driver>> Open(const std::string& path);

  // Takes a table as it is and initialises it. UNAVAILABLE when cuInit fails.
  static absl::StatusOr<std::shared_ptr<const Driver>> FromTable(const DriverTable& table);

  const DriverTable* operator->() const { return &table_; }
  const DriverTable& table() const { return table_; }

  // OK, or kDriver with the CUresult attached and "call: NAME (number): text". Allocates only on
  // failure.
  absl::Status Check(CUresult result, const char* call) const {
    return result == CUDA_SUCCESS ? absl::OkStatus() : Error(result, call);
  }

  absl::StatusOr<int> DeviceCount() const;
  // As 13000, which is version 13.0.
  absl::StatusOr<int> Version() const;

 private:
  explicit Driver(const DriverTable& table) : table_(table) {}
  std::string Describe(CUresult result) const;
  absl::Status Error(CUresult result, const char* call) const;

  const DriverTable table_;
};

// Device: one GPU of the process, its retained primary context and its limits.

// The chip as its driver describes it. Checks and reports read it; planning reads DeviceModel.
struct DeviceLimits {
  int cc_major = 0;
  int cc_minor = 0;
  int sm_count = 0;
  int max_threads_per_block = 0;
  int max_block[3] = {0, 0, 0};
  int max_grid[3] = {0, 0, 0};
  int max_shared_bytes = 0;  // per block, opt-in, static and dynamic together
  int l2_bytes = 0;
  int clock_khz = 0;
  bool cooperative = false;
};

// Immutable and thread-safe. Everything that lives on a GPU holds one of these, so two GPUs in one
// process never mix. Opening and closing leave the calling thread's current context and capture
// mode as they were.
class Device {
 public:
  // INVALID_ARGUMENT naming the number of devices when there is no such ordinal; kDriver when a
  // call fails.
  static absl::StatusOr<std::shared_ptr<const Device>> Open(std::shared_ptr<const Driver> driver,
                                                            int ordinal);
  // Releases the primary context. Not to be reached from a CUDA callback.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  CUdevice handle() const { return handle_; }
  CUcontext context() const { return context_; }
  const DeviceLimits& limits() const { return limits_; }

 private:
  Device(std::shared_ptr<const Driver> driver, int ordinal)
      : driver_(std::move(driver)), ordinal_(ordinal) {}
  absl::Status Start();
  absl::Status ReadLimits();

  const std::shared_ptr<const Driver> driver_;
  const int ordinal_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;  // null until retained
  DeviceLimits limits_;
};

// Owners of driver handles. Each destroys its handle in the device's context and in relaxed capture
// mode.

// Makes the device's context current. Works on a thread that has none; costs one query where it is
// current already. Check status() before any call that needs the context.
class ContextScope {
 public:
  explicit ContextScope(const Device& device);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  const Device& device_;
  CUcontext previous_ = nullptr;
  bool pushed_ = false;
  absl::Status status_;
};

// Puts the thread into relaxed capture mode, in which calls that would break another stream's
// capture are allowed and leave that capture valid. Needs no current context.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  const Driver& driver_;
  CUstreamCaptureMode previous_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  absl::Status status_;
};

// Both: what every call off the launch path runs in.
class DriverScope {
 public:
  explicit DriverScope(const Device& device) : context_(device), relaxed_(device.driver()) {}
  const absl::Status& status() const {
    return context_.status().ok() ? relaxed_.status() : context_.status();
  }

 private:
  ContextScope context_;
  RelaxedCapture relaxed_;
};

// Move-only. Destroying one inside a CUDA callback is illegal, as for any driver call.
template <typename Handle, CUresult (*DriverTable::*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(std::shared_ptr<const Device> device, Handle handle)
      : device_(std::move(device)), handle_(handle) {}
  Owned(Owned&& other) noexcept { Swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    Owned moved(std::move(other));
    Swap(moved);
    return *this;
  }
  ~Owned() {
    if (handle_ == Handle{}) return;
    DriverScope scope(*device_);
    (device_->driver().table().*kDestroy)(handle_);
  }

  Handle get() const { return handle_; }

 private:
  void Swap(Owned& other) {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
  }

  std::shared_ptr<const Device> device_;
  Handle handle_{};
};

using Module = Owned<CUmodule, &DriverTable::ModuleUnload>;
using Stream = Owned<CUstream, &DriverTable::StreamDestroy>;
using Event = Owned<CUevent, &DriverTable::EventDestroy>;
using Graph = Owned<CUgraph, &DriverTable::GraphDestroy>;
using GraphExec = Owned<CUgraphExec, &DriverTable::GraphExecDestroy>;

// The makers open their own scope. kDriver on failure.
// `image` is a whole cubin that has been checked, 16-byte aligned: the driver takes no length.
absl::StatusOr<Module> LoadModule(const std::shared_ptr<const Device>& device, const void* image);
// A stream that does not synchronise with the legacy stream.
absl::StatusOr<Stream> MakeStream(const std::shared_ptr<const Device>& device);
absl::StatusOr<Event> MakeEvent(const std::shared_ptr<const Device>& device);
absl::StatusOr<GraphExec> Instantiate(const std::shared_ptr<const Device>& device,
                                      const Graph& graph);

}  // namespace sinter

#endif  // SINTER_RUNTIME_DRIVER_DRIVER_H_
