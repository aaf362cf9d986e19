// sinter_x_*: words and numbers as the library itself reads and writes them, so that a command that
// speaks for it does the same.
#include "absl/strings/str_split.h"
#include "src/base/byte_size.h"
#include "src/base/nearest.h"
#include "src/base/printable.h"
#include "src/capi/text.h"
#include "src/chain/problem.h"

namespace capi = sinter::capi;

using Text = absl::StatusOr<std::string>;

extern "C" {

sinter_status sinter_x_problem_help(const char* kind, sinter_x_text** out_text,
                                    sinter_error** error) {
  return capi::GiveText(out_text, error, [&]() -> Text {
    return kind == nullptr ? sinter::ProblemHelp() : sinter::ProblemHelp(kind);
  });
}

sinter_status sinter_x_parse_bytes(const char* text, uint64_t* out_bytes, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(text, "text"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_bytes, "out_bytes"));
    SINTER_ASSIGN_OR_RETURN(*out_bytes, sinter::ParseByteSize(text));
    return absl::OkStatus();
  });
}

sinter_status sinter_x_nearest(const char* word, const char* known, sinter_x_text** out_word,
                               sinter_error** error) {
  return capi::GiveText(out_word, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(word, "word"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(known, "known"));
    return sinter::Nearest(word, absl::StrSplit(known, '\n', absl::SkipEmpty()));
  });
}

sinter_status sinter_x_printable(const char* text, uint32_t flags, sinter_x_text** out_text,
                                 sinter_error** error) {
  return capi::GiveText(out_text, error, [&]() -> Text {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(text, "text"));
    if ((flags & ~uint32_t{SINTER_X_PRINTABLE_LINES}) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("flags is ", flags, ", must be 0 or ", SINTER_X_PRINTABLE_LINES));
    }
    return flags != 0 ? sinter::PrintableLines(text) : sinter::Printable(text);
  });
}

}  // extern "C"
