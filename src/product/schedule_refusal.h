// Errors of refused schedules: field, value and bound.
#ifndef SINTER_SRC_PRODUCT_SCHEDULE_REFUSAL_H_
#define SINTER_SRC_PRODUCT_SCHEDULE_REFUSAL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sinter {

inline absl::Status RefuseSchedule(absl::string_view field, int64_t value,
                                   absl::string_view bound) {
  return absl::InvalidArgumentError(absl::StrCat("schedule: ", field, " ", value, " ", bound));
}

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SCHEDULE_REFUSAL_H_
