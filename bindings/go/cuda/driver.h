// The CUDA driver, opened at run time: so that a program builds and starts without one.
#ifndef SINTER_BINDINGS_GO_CUDA_DRIVER_H_
#define SINTER_BINDINGS_GO_CUDA_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

// Opens libcuda: the library of that path, or "" for the usual name. NULL, or why not; static.
const char* sinter_go_cuda_open(const char* path);
// Each is a CUresult. All but the first make the context current only for the call.
int sinter_go_cuda_retain(int ordinal, int* device, uintptr_t* context);
int sinter_go_cuda_release(int device);
int sinter_go_cuda_alloc(uintptr_t context, size_t bytes, uint64_t* address);
int sinter_go_cuda_free(uintptr_t context, uint64_t address);
int sinter_go_cuda_new_stream(uintptr_t context, uintptr_t* stream);
int sinter_go_cuda_destroy_stream(uintptr_t context, uintptr_t stream);
int sinter_go_cuda_synchronize(uintptr_t context, uintptr_t stream);
// Both return once the copy is done.
int sinter_go_cuda_upload(uintptr_t context, uint64_t to, const void* from, size_t bytes,
                          uintptr_t stream);
int sinter_go_cuda_download(uintptr_t context, void* to, uint64_t from, size_t bytes,
                            uintptr_t stream);
// Returns what the driver says of a CUresult. The text is static: never free it.
const char* sinter_go_cuda_text(int result);

#endif  // SINTER_BINDINGS_GO_CUDA_DRIVER_H_
