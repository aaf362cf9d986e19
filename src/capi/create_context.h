// CreateContext: what makes a context, with or without a remote store of the caller's own.
#ifndef SINTER_SRC_CAPI_CREATE_CONTEXT_H_
#define SINTER_SRC_CAPI_CREATE_CONTEXT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sinter/sinter.h"
#include "src/base/remote_port.h"

namespace sinter::capi {

// One reference, the caller's. `remote` may be null.
absl::StatusOr<sinter_context*> CreateContext(const sinter_context_options* given,
                                              std::shared_ptr<RemoteBackend> remote);

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_CREATE_CONTEXT_H_
