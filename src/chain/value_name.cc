#include "src/chain/value_name.h"

#include "absl/strings/str_cat.h"

namespace sinter {

std::string NameOfValue(const Chain& chain, ValueId id) {
  const Op& op = chain.op(id);
  if (op.kind != OpKind::kInput) return absl::StrCat("op ", id, " (", NameOf(op), ")");
  const int32_t input = chain.InputOrder()[static_cast<size_t>(op.input)];
  const std::string& name = chain.InputName(input);
  return name.empty() ? absl::StrCat("input ", input) : absl::StrCat("'", name, "'");
}

}  // namespace sinter
