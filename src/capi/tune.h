// Tune: the shared half of sinter_tune and sinter_x_tune.
#ifndef SINTER_SRC_CAPI_TUNE_H_
#define SINTER_SRC_CAPI_TUNE_H_

#include "src/capi/objects.h"

namespace sinter::capi {

// The choice, if there is one, is in options->into afterwards.
absl::StatusOr<TuneResult> Tune(sinter_context* context, const sinter_chain* chain, int64_t m,
                                const sinter_tune_options* options);

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_TUNE_H_
