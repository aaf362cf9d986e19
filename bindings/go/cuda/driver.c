#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

typedef void* handle;
enum { STREAM_NON_BLOCKING = 1, INVALID_CONTEXT = 201 };

// Filled once, under the lock, before anything else here is called.
static struct {
  int (*init)(unsigned);
  int (*text)(int, const char**);
  int (*device_get)(int*, int);
  int (*retain)(handle*, int);
  int (*release)(int);
  int (*push)(handle);
  int (*pop)(handle*);
  int (*alloc)(uint64_t*, size_t);
  int (*free)(uint64_t);
  int (*stream_create)(handle*, unsigned);
  int (*stream_destroy)(handle);
  int (*synchronize)(handle);
  int (*upload)(uint64_t, const void*, size_t, handle);
  int (*download)(void*, uint64_t, size_t, handle);
} driver;
static const struct {
  size_t field;
  const char* symbol;
} kSymbols[] = {
    {offsetof(__typeof__(driver), init), "cuInit"},
    {offsetof(__typeof__(driver), text), "cuGetErrorString"},
    {offsetof(__typeof__(driver), device_get), "cuDeviceGet"},
    {offsetof(__typeof__(driver), retain), "cuDevicePrimaryCtxRetain"},
    {offsetof(__typeof__(driver), release), "cuDevicePrimaryCtxRelease_v2"},
    {offsetof(__typeof__(driver), push), "cuCtxPushCurrent_v2"},
    {offsetof(__typeof__(driver), pop), "cuCtxPopCurrent_v2"},
    {offsetof(__typeof__(driver), alloc), "cuMemAlloc_v2"},
    {offsetof(__typeof__(driver), free), "cuMemFree_v2"},
    {offsetof(__typeof__(driver), stream_create), "cuStreamCreate"},
    {offsetof(__typeof__(driver), stream_destroy), "cuStreamDestroy_v2"},
    {offsetof(__typeof__(driver), synchronize), "cuStreamSynchronize"},
    {offsetof(__typeof__(driver), upload), "cuMemcpyHtoDAsync_v2"},
    {offsetof(__typeof__(driver), download), "cuMemcpyDtoHAsync_v2"},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int opened;

static const char* Fill(const char* path) {
  void* library = dlopen(path[0] != '\0' ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return "libcuda cannot be opened";
  for (size_t i = 0; i < sizeof(kSymbols) / sizeof(kSymbols[0]); ++i) {
    void* found = dlsym(library, kSymbols[i].symbol);
    if (found == NULL) return kSymbols[i].symbol;
    memcpy((char*)&driver + kSymbols[i].field, &found, sizeof(found));
  }
  return driver.init(0) == 0 ? NULL : "cuInit failed";
}

const char* sinter_go_cuda_open(const char* path) {
  pthread_mutex_lock(&lock);
  const char* wrong = opened ? NULL : Fill(path);
  opened = wrong == NULL;
  pthread_mutex_unlock(&lock);
  return wrong;
}

int sinter_go_cuda_retain(int ordinal, int* device, uintptr_t* context) {
  handle retained = NULL;
  int result = driver.device_get(device, ordinal);
  if (result == 0) result = driver.retain(&retained, *device);
  *context = (uintptr_t)retained;
  return result;
}

int sinter_go_cuda_release(int device) { return driver.release(device); }

// Go moves a goroutine from thread to thread, so nothing may stay current. Without a context the
// driver may not be there either.
#define WITH(context, call)                  \
  handle popped;                             \
  if (context == 0) return INVALID_CONTEXT;  \
  int result = driver.push((handle)context); \
  if (result != 0) return result;            \
  result = call;                             \
  const int popping = driver.pop(&popped);   \
  return result != 0 ? result : popping

int sinter_go_cuda_alloc(uintptr_t context, size_t bytes, uint64_t* address) {
  WITH(context, driver.alloc(address, bytes));
}

int sinter_go_cuda_free(uintptr_t context, uint64_t address) {
  WITH(context, driver.free(address));
}

int sinter_go_cuda_new_stream(uintptr_t context, uintptr_t* stream) {
  handle made = NULL;
  WITH(context, (result = driver.stream_create(&made, STREAM_NON_BLOCKING),
                 *stream = (uintptr_t)made, result));
}

int sinter_go_cuda_destroy_stream(uintptr_t context, uintptr_t stream) {
  WITH(context, driver.stream_destroy((handle)stream));
}

int sinter_go_cuda_synchronize(uintptr_t context, uintptr_t stream) {
  WITH(context, driver.synchronize((handle)stream));
}

static int Waited(int result, uintptr_t stream) {
  return result != 0 ? result : driver.synchronize((handle)stream);
}

int sinter_go_cuda_upload(uintptr_t context, uint64_t to, const void* from, size_t bytes,
                          uintptr_t stream) {
  WITH(context, Waited(driver.upload(to, from, bytes, (handle)stream), stream));
}

int sinter_go_cuda_download(uintptr_t context, void* to, uint64_t from, size_t bytes,
                            uintptr_t stream) {
  WITH(context, Waited(driver.download(to, from, bytes, (handle)stream), stream));
}

const char* sinter_go_cuda_text(int result) {
  const char* text = NULL;
  if (driver.text == NULL) return "the device is not open";
  return driver.text(result, &text) == 0 && text != NULL ? text : "unknown error";
}
