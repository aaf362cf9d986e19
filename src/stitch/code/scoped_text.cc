#include "src/stitch/code/scoped_text.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

std::string VarText(const IndexSpace& space, IndexVar v, IndexVar element, bool each) {
  const IndexSpace::Var& var = space.var(v);
  if (var.kind == IndexSpace::Var::kLoop) {
    return v == element && each ? absl::StrCat("(", var.name, " + e)") : var.name;
  }
  if (var.kind == IndexSpace::Var::kRead) return var.name;
  if (var.kind == IndexSpace::Var::kNearest) {
    return absl::StrCat("nearest_place(", IndexText(space, var.of, element, each), ", ",
                        var.divisor, ")");
  }
  const char* sign = var.kind == IndexSpace::Var::kQuotient ? " / " : " % ";
  return absl::StrCat("(", IndexText(space, var.of, element, each), sign, var.divisor, ")");
}

}  // namespace

void ScopedText::OpenScope(bool branch) {
  scopes_.emplace_back();
  scopes_.back().branch = branch;
}

std::string ScopedText::CloseScope() {
  std::string text = std::move(scopes_.back().text);
  scopes_.pop_back();
  return text;
}

std::vector<ScopedText::Scope> ScopedText::SetAside(int depth) {
  const size_t kept = std::min(scopes_.size(), static_cast<size_t>(depth) + 1);
  std::vector<Scope> inner(std::make_move_iterator(scopes_.begin() + static_cast<int64_t>(kept)),
                           std::make_move_iterator(scopes_.end()));
  scopes_.resize(kept);
  return inner;
}

void ScopedText::Resume(std::vector<Scope> inner) {
  scopes_.insert(scopes_.end(), std::make_move_iterator(inner.begin()),
                 std::make_move_iterator(inner.end()));
}

void ScopedText::Add(int depth, const std::string& line) {
  const std::string indent(2 * static_cast<size_t>(depth) + 2, ' ');
  absl::StrAppend(&scopes_[static_cast<size_t>(depth)].text, indent, line, "\n");
}

void ScopedText::SetVectors(IndexVar element, int width) {
  element_ = element;
  width_ = width;
}

std::string ScopedText::EachText(int width) { return absl::StrCat("SINTER_EACH(", width, ") "); }

std::string ScopedText::NewName(const char* prefix) { return absl::StrCat(prefix, names_++); }

Emitted ScopedText::Declare(const char* word, const std::string& expression, bool vector, int depth,
                            bool of_unit) {
  const std::string name = NewName(vector ? "v" : "s");
  if (vector) {
    Add(depth, absl::StrCat(word, " ", name, "[", width_, "];"));
    Add(depth, absl::StrCat(EachText(), name, "[e] = ", expression, ";"));
  } else {
    Add(depth, absl::StrCat("const ", word, " ", name, " = ", expression, ";"));
  }
  return {name, vector, depth, of_unit};
}

Emitted ScopedText::DeclarePack(const std::string& element_type, const std::string& first,
                                const std::string& where, int depth, bool of_unit) {
  const std::string name = NewName("p");
  Add(depth, absl::StrCat("const auto ", name, " = load_pack<", element_type, ", ", width_, ">(",
                          first, " + ", where, ");"));
  return {name, true, depth, of_unit};
}

const Emitted* ScopedText::Find(const ElementKey& key) const {
  for (const Scope& scope : scopes_) {
    const auto found = scope.known.find(key);
    if (found != scope.known.end()) return &found->second;
  }
  return nullptr;
}

void ScopedText::Remember(const ElementKey& key, const Emitted& value) {
  scopes_[static_cast<size_t>(value.depth)].known[key] = value;
}

int ScopedText::LoadDepth(const Index& index) const {
  int depth = space_.Depth(index);
  for (size_t i = 0; i < scopes_.size(); ++i) {
    if (scopes_[i].branch) depth = std::max(depth, static_cast<int>(i));
  }
  return depth;
}

std::string IndexText(const IndexSpace& space, const Index& index, IndexVar element, bool each) {
  std::string text;
  const bool widens = space.LeavesInt(index);
  for (const auto& [v, factor] : index.terms()) {
    absl::StrAppend(&text, text.empty() ? "" : " + ", VarText(space, v, element, each));
    const bool wide = widens && space.var(v).is_int;
    if (factor != 1 || wide) absl::StrAppend(&text, " * ", factor, wide ? "ll" : "");
  }
  if (text.empty()) return absl::StrCat(index.offset());
  if (index.offset() != 0) absl::StrAppend(&text, " + ", index.offset());
  return absl::StrCat("(", text, ")");
}

}  // namespace sinter
