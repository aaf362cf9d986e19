// The machine code of stand-ins (src/plan/stand_in.h) that the build embedded.
#ifndef SINTER_SRC_ENGINE_STAND_IN_CODE_H_
#define SINTER_SRC_ENGINE_STAND_IN_CODE_H_

#include "absl/strings/string_view.h"

namespace sinter {

// How many there are: all, or 0 of a build without NVRTC.
int EmbeddedStandIns();
// "" for one that is not there. Static storage.
absl::string_view EmbeddedStandIn(absl::string_view name);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_STAND_IN_CODE_H_
