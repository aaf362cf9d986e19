// DataSheets: device models of chips on which nothing was measured.
#ifndef SINTER_SRC_BASE_DATA_SHEETS_H_
#define SINTER_SRC_BASE_DATA_SHEETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/device_model.h"

namespace sinter {

// Said of each of them.
constexpr absl::string_view kDataSheetNote =
    "Of no card: figures of the chip's data sheet; others are the h200's, scaled by clock and SMs. "
    "Nothing was measured.";

// "a100" and so on, by architecture.
std::vector<std::string> DataSheetNames();

// The model of a chip, in any case of letters: what its data sheet and the CUDA C Programming Guide
// say, [architecture], and the other figures of `measured`, scaled by clocks and SMs, whose
// provenance names it. No clusters are planned. NOT_FOUND for another name.
absl::StatusOr<DeviceModel> DataSheetModel(absl::string_view name, const DeviceModel& measured);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_DATA_SHEETS_H_
