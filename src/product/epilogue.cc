#include "src/product/epilogue.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/chain/linear_finder.h"
#include "src/chain/op.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status RefuseEpilogue(const Args&... args) {
  return Invalid(args...);
}

absl::Status CheckRule(const QuantizeRule& rule, DType result) {
  if (result != DType::kE4M3) {
    return RefuseEpilogue("quantize is there, the result is ", NameOf(result), ", must be e4m3");
  }
  if (rule.columns == 0 && rule == QuantizeRule{}) return absl::OkStatus();
  if (rule.columns != 128)
    return RefuseEpilogue("quantize columns ", rule.columns, " are not 128, or 0 alone");
  if (!(rule.eps > 0 && rule.eps <= 1))
    return RefuseEpilogue("quantize eps ", rule.eps, " is not in (0, 1]");
  const bool bounded = rule.bound >= rule.eps && std::isfinite(rule.bound);
  if (rule.bound == 0 || bounded) return absl::OkStatus();
  return RefuseEpilogue("quantize bound ", rule.bound, " is not 0, nor finite and at least eps ",
                        rule.eps);
}

TensorType OneElement() { return {DType::kF32, {Dim::Constant(2)}}; }

// act(y), or act(y) * up, made by the same composites that users call.
absl::StatusOr<Chain> ProductOf(Activation activation, bool gate) {
  ChainBuilder b;
  SINTER_ASSIGN_OR_RETURN(ValueId value, b.Input(OneElement()));
  SINTER_ASSIGN_OR_RETURN(value, AddActivation(b, activation, value));
  if (gate) {
    SINTER_ASSIGN_OR_RETURN(const ValueId up, b.Input(OneElement()));
    SINTER_ASSIGN_OR_RETURN(value, b.Binary(BinaryKind::kMul, value, up));
  }
  SINTER_RETURN_IF_ERROR(b.Output(value));
  return b.Finish();
}

// The ops before the matrix: a chain of y, and of up with a gate.
struct Pattern {
  bool gate = false;
  Activation activation = Activation::kIdentity;
  Chain chain;
};

absl::StatusOr<std::vector<Pattern>> MakePatterns() {
  std::vector<Pattern> patterns;
  for (const bool gate : {false, true}) {
    for (const Activation activation : kActivations) {
      SINTER_ASSIGN_OR_RETURN(Chain chain, ProductOf(activation, gate));
      patterns.push_back({gate, activation, std::move(chain)});
    }
  }
  return patterns;
}

// In the order in which they are tried. Never destroyed: threads of the library may outlive static
// destructors.
const std::vector<Pattern>& Patterns() {
  static const auto* const patterns = new std::vector<Pattern>(*MakePatterns());
  return *patterns;
}

class FormFinder {
 public:
  explicit FormFinder(const EpilogueProgram& program)
      : program_(program),
        graph_(*program.body),
        finder_(graph_),
        end_(program.body->op(program.body->outputs()[0].value)) {}

  std::optional<EpilogueForm> Run() const {
    if (end_.kind != OpKind::kCast || !IsFloat(end_.type.dtype)) return std::nullopt;
    const ValueId value = finder_.SkipWidening(end_.operands[0]);
    EpilogueForm form;
    if (ProductAt(value, &form)) return form;
    for (const Pattern& pattern : Patterns()) {
      if (pattern.gate) continue;
      const auto is_sum = [&](const std::vector<ValueId>& x) { return SumAt(x[0], &form); };
      if (!MatchPattern(graph_, value, pattern.chain, is_sum)) continue;
      form.sum_activation = pattern.activation;
      return form;
    }
    return std::nullopt;
  }

 private:
  // An activation of the accumulators, or of gate times up.
  bool ProductAt(ValueId id, EpilogueForm* form) const {
    for (const Pattern& pattern : Patterns()) {
      const auto accept = [&](const std::vector<ValueId>& x) {
        return finder_.SkipWidening(x[0]) == program_.affine.value &&
               (!pattern.gate || finder_.SkipWidening(x[1]) == program_.affine.up);
      };
      if (!MatchPattern(graph_, id, pattern.chain, accept)) continue;
      form->activation = pattern.activation;
      form->gate = pattern.gate;
      return true;
    }
    return false;
  }

  // The same, rounded or not, plus a matrix of the result's element.
  bool SumAt(ValueId id, EpilogueForm* form) const {
    const Op& sum = graph_.op(finder_.SkipWidening(id));
    if (!IsBinary(sum, BinaryKind::kAdd)) return false;
    for (const size_t side : {size_t{1}, size_t{0}}) {
      const int matrix = finder_.InputAt(sum.operands[side]);
      if (matrix < 0 || program_.leaves[static_cast<size_t>(matrix)] != LeafKind::kMatrix) continue;
      if (graph_.operand(matrix).type.dtype != end_.type.dtype) return false;
      if (SizeOf(end_.type.dtype) != 2) return false;  // a matrix of 16 bits
      form->residual = true;
      ValueId below = finder_.SkipWidening(sum.operands[1 - side]);
      const Op& cast = graph_.op(below);
      form->rounds = cast.kind == OpKind::kCast && cast.type.dtype == end_.type.dtype;
      if (form->rounds) below = finder_.SkipWidening(cast.operands[0]);
      return ProductAt(below, form);
    }
    return false;
  }

  const EpilogueProgram& program_;
  const Subgraph graph_;
  const LinearFinder finder_;
  const Op& end_;
};

}  // namespace

std::string ToString(const QuantizeRule& rule) {
  if (rule.columns == 0) return "given";
  std::string text = absl::StrCat(rule.columns, ":eps=", rule.eps);
  if (rule.bound != 0) absl::StrAppend(&text, ":bound=", rule.bound);
  return rule.ue8m0 ? text + ":ue8m0" : text;
}

absl::Status CheckEpilogue(const ProductEpilogue& e, DType rows, DType result, bool pair) {
  if (e.norm.has_value() && !(std::isfinite(*e.norm) && *e.norm >= 0)) {
    return RefuseEpilogue("norm has eps ", *e.norm, ", must be finite and not below 0");
  }
  const DType like = IsCode(rows) ? result : rows;
  const DType factor = e.factor().value_or(like);
  if (factor != like && factor != DType::kF32) {
    return RefuseEpilogue("factor is ", NameOf(factor), ", must be f32 or ", NameOf(like));
  }
  if (e.norm.has_value() && e.factor().has_value()) {
    return RefuseEpilogue("norm and factor are both there");
  }
  SINTER_RETURN_IF_ERROR(CheckProgram(e.program, result, pair));
  if (e.quantize.has_value()) return CheckRule(*e.quantize, result);
  if (!IsCode(result)) return absl::OkStatus();
  return RefuseEpilogue("quantize is missing, the result is ", NameOf(result));
}

// Which programs the device library has forms of.

std::optional<EpilogueForm> FormOfBody(const EpilogueProgram& program) {
  const Chain& body = *program.body;
  if (body.num_outputs() != 1 || body.ops().size() > kMostProgramOps) return {};
  const std::vector<bool> affine = program.InAffine();
  for (int i = 0; i < body.num_inputs(); ++i) {
    const bool matrix = program.leaves[static_cast<size_t>(i)] == LeafKind::kMatrix;
    if (!matrix && !affine[static_cast<size_t>(body.input(i))]) return {};
  }
  return FormFinder(program).Run();
}

std::vector<FoundActivation> ActivationsIn(const Chain& body) {
  const Subgraph graph(body);
  std::vector<FoundActivation> found(body.ops().size());
  for (size_t id = 0; id < found.size(); ++id) {
    if (!IsBinary(body.ops()[id], BinaryKind::kMul)) continue;  // as all of them end
    for (const Pattern& pattern : Patterns()) {
      const Activation activation = pattern.activation;
      if (pattern.gate || activation == Activation::kIdentity || activation == Activation::kRelu) {
        continue;
      }
      const auto accept = [&](const std::vector<ValueId>& x) {
        found[id] = {activation, x[0]};
        return true;
      };
      if (MatchPattern(graph, static_cast<ValueId>(id), pattern.chain, accept)) break;
    }
  }
  return found;
}

}  // namespace sinter
