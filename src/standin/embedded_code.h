// The machine code of stand-ins (src/standin/stand_in.h) that the build embedded.
#ifndef SINTER_SRC_STANDIN_EMBEDDED_CODE_H_
#define SINTER_SRC_STANDIN_EMBEDDED_CODE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// How many there are: all, or 0 of a build without NVRTC.
int EmbeddedStandIns();
// Static storage. FAILED_PRECONDITION for one that is not there, DATA_LOSS for one whose bytes are
// not those that were built: the library's file is damaged.
absl::StatusOr<absl::string_view> EmbeddedStandIn(absl::string_view name);

// How one is stored: its machine code, and behind that the SHA-256 of it.
std::string StoredStandIn(absl::string_view cubin);
absl::StatusOr<absl::string_view> CheckStandIn(absl::string_view name, absl::string_view stored);

}  // namespace sinter

#endif  // SINTER_SRC_STANDIN_EMBEDDED_CODE_H_
