// Bounds check of a cubin before a driver sees it: the driver takes a pointer and no length, so no
// header may point past the end.
#ifndef SINTER_CACHE_RECORD_CUBIN_CHECK_H_
#define SINTER_CACHE_RECORD_CUBIN_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter {

// DATA_LOSS naming the field unless `cubin` is a little-endian ELF64 of machine 190 (CUDA) whose
// header tables, segments and sections lie inside the bytes and whose string tables end in NUL.
// Says nothing about the code inside.
absl::Status CheckCubin(absl::string_view cubin);

}  // namespace sinter

#endif  // SINTER_CACHE_RECORD_CUBIN_CHECK_H_
