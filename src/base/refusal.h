// What an error is about, as fields: programs read them, people read the message.
#ifndef SINTER_SRC_BASE_REFUSAL_H_
#define SINTER_SRC_BASE_REFUSAL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/base/status.h"

namespace sinter {

// Invariant: the message of the error has each field that is set, with the same characters.
struct RefusalFields {
  int32_t op = -1;                  // number of the op; -1: none
  std::string field, value, bound;  // "" for none
  bool operator==(const RefusalFields& o) const {
    return op == o.op && field == o.field && value == o.value && bound == o.bound;
  }
};

// Copies of the status, WithMessage and Annotate keep the fields. An OK status has none.
RefusalFields FieldsOf(const absl::Status& status);
// Only the op.
int32_t OpOf(const absl::Status& status);

// The error with its op set. An OK status stays as it is.
absl::Status WithOp(absl::Status status, int32_t op);
// The error with field, value and bound set; "" leaves one unset.
absl::Status WithField(absl::Status status, absl::string_view field,
                       const absl::AlphaNum& value = "", const absl::AlphaNum& bound = "");

// `error` with the fields of `why`, for which it was made.
absl::Status WithFieldsOf(absl::Status error, const absl::Status& why);

// INVALID_ARGUMENT "FIELD is VALUE, must be BOUND", then `rest`: the remedy.
template <typename Value, typename... Rest>
absl::Status InvalidField(absl::string_view field, const Value& value, const absl::AlphaNum& bound,
                          const Rest&... rest) {
  return WithField(Invalid(field, " is ", value, ", must be ", bound, rest...), field, value,
                   bound);
}

// The same of a plural: "FIELD are VALUE, must be BOUND".
template <typename Value, typename... Rest>
absl::Status InvalidFields(absl::string_view field, const Value& value, const absl::AlphaNum& bound,
                           const Rest&... rest) {
  return WithField(Invalid(field, " are ", value, ", must be ", bound, rest...), field, value,
                   bound);
}

// FAILED_PRECONDITION "op 3", then the pieces; the op is a field.
template <typename... Pieces>
absl::Status OpRefused(int32_t op, const Pieces&... pieces) {
  return WithOp(FailedPrecondition("op ", op, pieces...), op);
}

// "op 3 (matmul): " before the message of `why`, whose other fields stay.
absl::Status OfOp(int32_t op, absl::string_view kind, const absl::Status& why);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_REFUSAL_H_
