// Structs with a size: reading options of any age, writing results of any age.
#ifndef SINTER_SRC_CAPI_STRUCTS_H_
#define SINTER_SRC_CAPI_STRUCTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "sinter/sinter.h"
#include "src/base/status.h"
#include "src/capi/handle.h"

namespace sinter::capi {

// Copies the struct at `from`, whose first field is its size, over the zeroed `size` bytes at `to`.
// INVALID_ARGUMENT when the size is below 8 or above 4096, or when bytes beyond `size` are not
// zero.
absl::Status CopyIn(const void* from, absl::string_view name, void* to, size_t size);
// Copies `size` bytes into the struct at `to`, as far as its size field goes; zeroes what is
// beyond.
absl::Status CopyOut(const void* from, size_t size, absl::string_view name, void* to);
absl::Status CheckFlags(uint32_t flags, uint32_t known, absl::string_view name);
absl::Status CheckReserved(int32_t value, absl::string_view name);
absl::Status CheckSwitch(sinter_switch value, absl::string_view name);

// A whole T: the caller's fields, defaults (zero) for the rest. Null options are all defaults.
template <typename T>
absl::StatusOr<T> ReadOptions(const T* options, absl::string_view name, uint32_t known_flags) {
  T result{};
  if (options != nullptr) SINTER_RETURN_IF_ERROR(CopyIn(options, name, &result, sizeof(T)));
  result.struct_size = static_cast<uint32_t>(sizeof(T));
  SINTER_RETURN_IF_ERROR(CheckFlags(result.flags, known_flags, name));
  return result;
}

template <typename T>
absl::Status WriteStruct(const T& value, absl::string_view name, T* out) {
  return CopyOut(&value, sizeof(T), name, out);
}

// The two-call pattern of text.
absl::Status CopyText(absl::string_view text, size_t capacity, char* buffer, size_t* required);

// M of a launch. A chain without M runs as if M were 1.
inline absl::StatusOr<int64_t> SymbolM(bool uses_m, uint32_t count, const int64_t* symbols) {
  const uint32_t wanted = uses_m ? 1 : 0;
  if (count != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("symbol_count is ", count, ", the chain has ", wanted));
  }
  if (!uses_m) return int64_t{1};
  if (symbols == nullptr) return absl::InvalidArgumentError("symbols is null");
  return symbols[0];
}

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_STRUCTS_H_
