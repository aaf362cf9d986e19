/* The functions of libcuda that examples call, each of which asks the libcuda that is found at run
 * time. An example that is linked with this instead of -lcuda builds and starts on a machine
 * without a driver, where cuInit fails. */
#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* The address of `name` in libcuda.so.1, NULL without one. */
static void* find(const char* name) {
  static void* library;
  if (library == NULL) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == NULL ? NULL : dlsym(library, name);
}

#define NAME_OF(function) #function
#define FORWARD(function, parameters, arguments)       \
  CUresult CUDAAPI function parameters {               \
    CUresult(CUDAAPI* target) parameters;              \
    void* found = find(NAME_OF(function));             \
    if (found == NULL) return CUDA_ERROR_STUB_LIBRARY; \
    memcpy(&target, &found, sizeof(target));           \
    return target arguments;                           \
  }

FORWARD(cuInit, (unsigned int flags), (flags))
FORWARD(cuGetErrorString, (CUresult error, const char** text), (error, text))
FORWARD(cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal))
FORWARD(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device))
FORWARD(cuDevicePrimaryCtxRelease, (CUdevice device), (device))
FORWARD(cuCtxSetCurrent, (CUcontext context), (context))
FORWARD(cuMemAlloc, (CUdeviceptr * address, size_t bytes), (address, bytes))
FORWARD(cuMemFree, (CUdeviceptr address), (address))
FORWARD(cuMemcpyHtoDAsync, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream),
        (to, from, bytes, stream))
FORWARD(cuMemcpyDtoHAsync, (void* to, CUdeviceptr from, size_t bytes, CUstream stream),
        (to, from, bytes, stream))
FORWARD(cuStreamCreate, (CUstream * stream, unsigned int flags), (stream, flags))
FORWARD(cuStreamDestroy, (CUstream stream), (stream))
FORWARD(cuStreamSynchronize, (CUstream stream), (stream))
FORWARD(cuStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
FORWARD(cuStreamEndCapture, (CUstream stream, CUgraph* graph), (stream, graph))
FORWARD(cuGraphInstantiate, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
        (exec, graph, flags))
FORWARD(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream))
FORWARD(cuGraphDestroy, (CUgraph graph), (graph))
FORWARD(cuGraphExecDestroy, (CUgraphExec exec), (exec))
