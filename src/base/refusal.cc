#include "src/base/refusal.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/types/optional.h"

namespace sinter {
namespace {

constexpr char kOp[] = "sinter/op";
constexpr char kField[] = "sinter/field";
constexpr char kValue[] = "sinter/value";
constexpr char kBound[] = "sinter/bound";

std::string Text(const absl::Status& status, absl::string_view url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

void Set(absl::Status& status, absl::string_view url, absl::string_view text) {
  if (!text.empty()) status.SetPayload(url, absl::Cord(text));
}

}  // namespace

int32_t OpOf(const absl::Status& status) {
  int32_t op = -1;
  return absl::SimpleAtoi(Text(status, kOp), &op) ? op : -1;
}

RefusalFields FieldsOf(const absl::Status& status) {
  return {OpOf(status), Text(status, kField), Text(status, kValue), Text(status, kBound)};
}

absl::Status WithOp(absl::Status status, int32_t op) {
  Set(status, kOp, absl::StrCat(op));
  return status;
}

absl::Status WithField(absl::Status status, absl::string_view field, const absl::AlphaNum& value,
                       const absl::AlphaNum& bound) {
  Set(status, kField, field);
  Set(status, kValue, value.Piece());
  Set(status, kBound, bound.Piece());
  return status;
}

absl::Status WithFieldsOf(absl::Status error, const absl::Status& why) {
  for (const absl::string_view url : {kOp, kField, kValue, kBound}) {
    if (const auto payload = why.GetPayload(url)) error.SetPayload(url, *payload);
  }
  return error;
}

absl::Status OfOp(int32_t op, absl::string_view kind, const absl::Status& why) {
  return WithOp(Annotate(why, absl::StrCat("op ", op, " (", kind, ")")), op);
}

}  // namespace sinter
