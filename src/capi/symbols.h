// Symbol values of a launch.
#ifndef SINTER_SRC_CAPI_SYMBOLS_H_
#define SINTER_SRC_CAPI_SYMBOLS_H_

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/capi/handle.h"

namespace sinter::capi {

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

#endif  // SINTER_SRC_CAPI_SYMBOLS_H_
