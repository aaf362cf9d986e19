// Provenance: where a figure of a device model comes from.
#ifndef SINTER_SRC_BASE_PROVENANCE_H_
#define SINTER_SRC_BASE_PROVENANCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

enum class Origin : uint8_t {
  kUnknown = 0,   // never in a model file
  kMeasured,      // by a program that does nothing else
  kArchitecture,  // documented, or told by the driver
  kFitted,        // chosen so that predictions are near measured kernels
};

struct Provenance {
  Origin origin = Origin::kUnknown;
  std::string
      from;  // the model that the figure, or the one that it is scaled from, comes from; "": none

  // "measured", "fitted from h200".
  std::string ToText() const;
  // INVALID_ARGUMENT for another word than measured, architecture and fitted, or for a bad name
  // behind "from".
  static absl::StatusOr<Provenance> FromText(absl::string_view text);
};

// A model's name: 1 to 64 letters, digits, '_', '-' or '.'.
bool IsModelName(absl::string_view name);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_PROVENANCE_H_
