// GiveText: the firewall for functions that hand out a sinter_x_text.
#ifndef SINTER_SRC_CAPI_TEXT_H_
#define SINTER_SRC_CAPI_TEXT_H_

#include <string>
#include <utility>

#include "src/capi/firewall.h"
#include "src/capi/objects.h"

namespace sinter::capi {

// Stores what `make() -> absl::StatusOr<std::string>` returns as a new text in `*out`.
template <typename Make>
sinter_status GiveText(sinter_x_text** out, sinter_error** error, Make&& make) noexcept {
  return Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(CheckNotNull(out, "out_text"));
    SINTER_ASSIGN_OR_RETURN(std::string text, make());
    *out = NewText(std::move(text));
    return absl::OkStatus();
  });
}

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_TEXT_H_
