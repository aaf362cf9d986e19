// Accumulate: how precisely the sums of a product of e4m3 codes are kept.
#ifndef SINTER_SRC_CHAIN_ACCUMULATE_H_
#define SINTER_SRC_CHAIN_ACCUMULATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// Numbers are part of the canonical form: never reused.
enum class Accumulate : int32_t {
  kPromoted = 0,  // sums of 128 of k are added in f32
  kFast = 1,      // kernels may keep all of k in the tensor cores' coarser sums
};

absl::string_view NameOf(Accumulate accumulate);  // "promoted", "fast"
absl::StatusOr<Accumulate> ParseAccumulate(absl::string_view name);
bool IsValid(Accumulate accumulate);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_ACCUMULATE_H_
