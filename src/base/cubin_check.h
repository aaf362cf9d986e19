// Bounds check of a cubin, made when a record is read and again before the driver gets it:
// cuModuleLoadData takes a pointer and no length, so no header may point past the end.
#ifndef SINTER_SRC_BASE_CUBIN_CHECK_H_
#define SINTER_SRC_BASE_CUBIN_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter {

// DATA_LOSS naming the field, its value and its bound unless `cubin` is a little-endian ELF64 of
// machine 190 (CUDA) whose header tables, segments and sections lie inside the bytes, whose string
// tables end in NUL, and whose sections have names and links that exist. Takes any bytes at any
// alignment, and allocates only to say what is wrong. Says nothing about the code inside.
absl::Status CheckCubin(absl::string_view cubin);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_CUBIN_CHECK_H_
