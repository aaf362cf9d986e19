// sinter_x_reference_run and _check, as the command calls them with a budget of its own.
#ifndef SINTER_SRC_CAPI_HOST_REFERENCE_H_
#define SINTER_SRC_CAPI_HOST_REFERENCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sinter/sinter_experimental.h"
#include "src/chain/chain.h"
#include "src/reference/budget.h"

namespace sinter::capi {

// Buffers in the caller's order, on the host.
struct HostBuffers {
  uint32_t input_count = 0;
  const void* const* inputs = nullptr;
  uint32_t output_count = 0;
  void* const* outputs = nullptr;
};

// Writes the outputs. `threads` as in the ABI.
absl::Status RunOnHost(const Chain& chain, int64_t m, const HostBuffers& buffers, uint32_t threads,
                       const ReferenceBudget& budget);

// Compares the outputs. `max_rows` and `threads` as in the ABI.
absl::StatusOr<sinter_x_check> CheckOnHost(const Chain& chain, int64_t m,
                                           const HostBuffers& buffers, int64_t max_rows,
                                           uint32_t threads, const ReferenceBudget& budget);

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_HOST_REFERENCE_H_
