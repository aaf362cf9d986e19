#include "src/base/provenance.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sinter {
namespace {

constexpr std::pair<absl::string_view, Origin> kOrigins[] = {
    {"measured", Origin::kMeasured},
    {"architecture", Origin::kArchitecture},
    {"fitted", Origin::kFitted},
};

}  // namespace

bool IsModelName(absl::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
}

std::string Provenance::ToText() const {
  absl::string_view word = "unknown";
  for (const auto& [name, known] : kOrigins) {
    if (known == origin) word = name;
  }
  return from.empty() ? std::string(word) : absl::StrCat(word, " from ", from);
}

absl::StatusOr<Provenance> Provenance::FromText(absl::string_view text) {
  Provenance provenance;
  absl::string_view rest = text;
  for (const auto& [name, known] : kOrigins) {
    if (!absl::ConsumePrefix(&rest, name)) continue;
    provenance.origin = known;
    break;
  }
  if (absl::ConsumePrefix(&rest, " from ")) {
    if (IsModelName(rest)) provenance.from = std::string(std::exchange(rest, ""));
  }
  if (provenance.origin != Origin::kUnknown && rest.empty()) return provenance;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown provenance \"", text.substr(0, 96),
                   "\", must be measured, architecture or fitted, each with \"from <model>\" where "
                   "it was taken over"));
}

}  // namespace sinter
