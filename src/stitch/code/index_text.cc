#include "src/stitch/code/index_text.h"

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

std::string VarText(const IndexSpace& space, IndexVar v, IndexVar element, bool each) {
  const IndexSpace::Var& var = space.var(v);
  if (var.kind == IndexSpace::Var::kLoop) {
    return v == element && each ? absl::StrCat("(", var.name, " + e)") : var.name;
  }
  if (var.kind == IndexSpace::Var::kRead) return var.name;
  const char* sign = var.kind == IndexSpace::Var::kQuotient ? " / " : " % ";
  return absl::StrCat("(", IndexText(space, var.of, element, each), sign, var.divisor, ")");
}

}  // namespace

std::string IndexText(const IndexSpace& space, const Index& index, IndexVar element, bool each) {
  std::string text;
  for (const auto& [v, factor] : index.terms()) {
    absl::StrAppend(&text, text.empty() ? "" : " + ", VarText(space, v, element, each));
    if (factor != 1) absl::StrAppend(&text, " * ", factor);
  }
  if (text.empty()) return absl::StrCat(index.offset());
  if (index.offset() != 0) absl::StrAppend(&text, " + ", index.offset());
  return absl::StrCat("(", text, ")");
}

}  // namespace sinter
