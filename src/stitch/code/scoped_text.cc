#include "src/stitch/code/scoped_text.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/op_text.h"

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

constexpr int64_t kSerialAtOnce = 16;  // reads of a serial reduction in flight together
constexpr int64_t kMostLines = 256;    // of an unrolled loop

// Unroll factor of a loop around `inside`; a loop around a loop is not unrolled.
int64_t Unrolled(int64_t turns, const std::string& inside) {
  if (inside.find("for (") != std::string::npos) return 1;
  const int64_t lines = 1 + std::count(inside.begin(), inside.end(), '\n');
  return std::max<int64_t>(1, std::min({turns, kSerialAtOnce, kMostLines / lines}));
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

absl::StatusOr<Emitted> SerialText::Operand(ValueId id, const Position& at, IndexVar k) {
  const Op& op = body_.op(id);
  std::vector<Emitted> read;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    SINTER_ASSIGN_OR_RETURN(
        read.emplace_back(),
        emitter_.Pull(op.operands[i], PullReduced(body_, op, i, at, k, emitter_.space())));
  }
  if (op.kind != OpKind::kMatmul) return read[0];
  return emitter_.Declare(WordName(op.type.dtype),
                          absl::StrCat(read[0].Each(), " * ", read[1].Each()),
                          read[0].vector || read[1].vector, std::max(read[0].depth, read[1].depth),
                          read[0].of_unit || read[1].of_unit);
}

void SerialText::OpenLoop(const std::string& counter, int64_t count, int lanes,
                          const std::string& inside) {
  const int64_t turns = (count + lanes - 1) / lanes;
  const std::string turn = lanes == 1 ? counter : absl::StrCat(counter, "t");
  emitter_.Add(absl::StrCat("#pragma unroll ", Unrolled(turns, inside)));
  emitter_.Add(absl::StrCat("for (int ", turn, " = 0; ", turn, " < ", turns, "; ++", turn, ") {"));
  if (lanes == 1) return;
  emitter_.Add(absl::StrCat("  const int ", counter, " = ", turn, " * ", lanes,
                            " + static_cast<int>(threadIdx.x) % ", lanes, ";"));
  if (count % lanes != 0)
    emitter_.Add(absl::StrCat("  if (", counter, " >= ", count, ") continue;"));
}

absl::StatusOr<Emitted> SerialText::Result(ValueId id, const Position& at) {
  int home = kElementDepth;
  for (const Index& index : at) home = std::max(home, emitter_.LoadDepth(index));
  std::vector<ScopedText::Scope> inner = emitter_.SetAside(home);
  const int lanes = home == kElementDepth || !surrounded_ ? lanes_ : 1;
  const bool surrounded = std::exchange(surrounded_, true);
  const absl::StatusOr<Emitted> value = ResultHere(id, at, lanes);
  surrounded_ = surrounded;
  emitter_.Resume(std::move(inner));
  return value;
}

absl::StatusOr<Emitted> SerialText::ResultHere(ValueId id, const Position& at, int lanes) {
  const Op& op = body_.op(id);
  const int64_t count = ReducedElements(body_, op);
  if (count == 0) {
    return FailedPrecondition("op ", id, " (", NameOf(op), "): M elements in one thread");
  }
  const std::string counter = emitter_.NewName("k");
  const IndexVar loop =
      emitter_.space().AddLoop(counter, count, emitter_.innermost() + 1, /*is_int=*/true);
  emitter_.OpenScope();
  const absl::StatusOr<Emitted> value = Operand(id, at, loop);
  const std::string inside = emitter_.CloseScope();
  SINTER_RETURN_IF_ERROR(value.status());
  const char* word = WordName(op.type.dtype);
  const std::string name = emitter_.NewName("v"),
                    join = op.kind == OpKind::kMatmul ? "Sum" : JoinName(op.reduce);
  const std::string each = value->vector ? emitter_.EachText() : "",
                    at_e = value->vector ? "[e]" : "";
  emitter_.Add(absl::StrCat(word, " ", name,
                            value->vector ? absl::StrCat("[", emitter_.width(), "];") : ";"));
  emitter_.Add(absl::StrCat(each, name, at_e, " = ", join, "::empty(", word, "{});"));
  OpenLoop(counter, count, lanes, inside);
  emitter_.Append(inside);
  const bool mean = op.kind == OpKind::kReduce && op.reduce == ReduceKind::kMean;
  emitter_.Add(absl::StrCat("  ", each,
                            TakeText(op, name + at_e, value->Each(), FloatText(MeanShare(count)))));
  emitter_.Add("}");
  if (lanes > 1) {
    emitter_.Add(absl::StrCat(each, name, at_e, " = join_lanes<", join, ", ", lanes, ">(", name,
                              at_e, ");"));
  }
  if (mean && MeanRest(count) != 1) {
    emitter_.Add(absl::StrCat(each, name, at_e, " *= ", FloatText(MeanRest(count)), ";"));
  }
  return Emitted{name, value->vector, emitter_.innermost()};
}

}  // namespace sinter
