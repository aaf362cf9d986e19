// Errors of plans that do not fit their chain.
#ifndef SINTER_SRC_FUSION_REFUSE_FIT_H_
#define SINTER_SRC_FUSION_REFUSE_FIT_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sinter {

template <typename... Args>
absl::Status RefuseFit(const Args&... args) {
  return absl::FailedPreconditionError(absl::StrCat(args...));
}

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_REFUSE_FIT_H_
