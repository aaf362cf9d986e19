// Driver: libcuda, opened at run time, and its errors as statuses.
#ifndef SINTER_RUNTIME_DRIVER_DRIVER_H_
#define SINTER_RUNTIME_DRIVER_DRIVER_H_

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <string>

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
    (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))
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
  // 13000 for 13.0.
  absl::StatusOr<int> Version() const;

 private:
  explicit Driver(const DriverTable& table) : table_(table) {}
  std::string Describe(CUresult result) const;
  absl::Status Error(CUresult result, const char* call) const;

  const DriverTable table_;
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_DRIVER_DRIVER_H_
