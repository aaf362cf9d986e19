#include "src/stitch/code/serial_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/op_text.h"

namespace sinter {
namespace {

constexpr int64_t kSerialAtOnce = 16;  // reads of a serial reduction in flight together
constexpr int64_t kMostLines = 256;    // of an unrolled loop

// Unroll factor of a loop around `inside`; a loop around a loop is not unrolled.
int64_t Unrolled(int64_t turns, const std::string& inside) {
  if (inside.find("for (") != std::string::npos) return 1;
  const int64_t lines = 1 + std::count(inside.begin(), inside.end(), '\n');
  return std::max<int64_t>(1, std::min({turns, kSerialAtOnce, kMostLines / lines}));
}

}  // namespace

absl::StatusOr<Emitted> SerialText::Product(ValueId id, const Position& at, const Index& k) {
  const Op& op = body_.op(id);
  Emitted factors[2];
  for (size_t i = 0; i < 2; ++i) {
    SINTER_ASSIGN_OR_RETURN(factors[i],
                            emitter_.Pull(op.operands[i], PullFactor(body_, op, i, at, k)));
  }
  const bool vector = factors[0].vector || factors[1].vector;
  return emitter_.Declare(
      WordName(op.type.dtype), absl::StrCat(factors[0].Each(), " * ", factors[1].Each()), vector,
      std::max(factors[0].depth, factors[1].depth), factors[0].of_unit || factors[1].of_unit);
}

absl::StatusOr<Emitted> SerialText::Operand(ValueId id, const Position& at, IndexVar k) {
  const Op& op = body_.op(id);
  if (op.kind == OpKind::kMatmul) return Product(id, at, Index::Of(k));
  return emitter_.Pull(op.operands[0], PullReduced(body_, op, at, k, emitter_.space()));
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
    return absl::FailedPreconditionError(
        absl::StrCat("op ", id, " (", NameOf(op), "): M elements in one thread"));
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
  emitter_.Add(mean ? absl::Substitute("  $0$1$2 = fmaf($3, $4, $1$2);", each, name, at_e,
                                       value->Each(), FloatText(MeanShare(count)))
                    : absl::Substitute("  $0$1$2 = $3::join<$4>($1$2, $5);", each, name, at_e, join,
                                       word, value->Each()));
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
