// Tune: the shared half of sinter_tune and sinter_x_tune.
#ifndef SINTER_SRC_CAPI_TUNE_H_
#define SINTER_SRC_CAPI_TUNE_H_

#include <string>

#include "src/capi/objects.h"

namespace sinter::capi {

// The report as text.
absl::StatusOr<std::string> Tune(sinter_context* context, const sinter_chain* chain, int64_t m,
                                 const sinter_tune_options* options);

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_TUNE_H_
