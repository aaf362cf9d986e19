// Granularity: which elements of a tensor share one value of its scale.
#ifndef SINTER_SRC_CHAIN_GRANULARITY_H_
#define SINTER_SRC_CHAIN_GRANULARITY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// Numbers are part of the C ABI: never reused.
enum class Granularity : int32_t {
  kTensor = 1,
  kRow = 2,
  kGroup = 3,   // 128 elements of a row
  kStatic = 4,  // the tensor, by a scale that is given
};

absl::string_view NameOf(Granularity granularity);  // "tensor", "row", "group", "static"
absl::StatusOr<Granularity> ParseGranularity(absl::string_view name);
bool IsValid(Granularity granularity);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_GRANULARITY_H_
