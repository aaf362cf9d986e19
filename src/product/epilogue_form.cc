// Which programs the device library has forms of, and the one spelling of each.
#include <map>
#include <mutex>
#include <utility>

#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/chain/linear_finder.h"
#include "src/chain/op_traits.h"
#include "src/chain/subgraph.h"
#include "src/product/epilogue_program.h"

namespace sinter {
namespace {

TensorType OneElement(DType dtype = DType::kF32) { return {dtype, {Dim::Constant(2)}}; }

// act(y), or act(y) * up, made by the same composites that users call. `leaves`: in the order in
// which inputs are added.
absl::StatusOr<ValueId> AddProduct(ChainBuilder& b, Activation activation, bool gate,
                                   std::vector<LeafKind>* leaves) {
  SINTER_ASSIGN_OR_RETURN(ValueId value, b.Input(OneElement()));
  *leaves = {LeafKind::kValue};
  SINTER_ASSIGN_OR_RETURN(value, AddActivation(b, activation, value));
  if (!gate) return value;
  SINTER_ASSIGN_OR_RETURN(const ValueId up, b.Input(OneElement()));
  leaves->push_back(LeafKind::kUp);
  return b.Binary(BinaryKind::kMul, value, up);
}

// The body of a form's program, whose inputs are those leaves.
absl::StatusOr<Chain> BodyOf(const EpilogueForm& form, DType result,
                             std::vector<LeafKind>* leaves) {
  ChainBuilder b;
  SINTER_ASSIGN_OR_RETURN(ValueId value, AddProduct(b, form.activation, form.gate, leaves));
  if (form.rounds) {
    SINTER_ASSIGN_OR_RETURN(value, b.Cast(value, result));
    SINTER_ASSIGN_OR_RETURN(value, b.Cast(value, DType::kF32));
  }
  if (form.residual) {
    SINTER_ASSIGN_OR_RETURN(ValueId matrix, b.Input(OneElement(result)));
    leaves->push_back(LeafKind::kMatrix);
    SINTER_ASSIGN_OR_RETURN(matrix, b.Cast(matrix, DType::kF32));
    SINTER_ASSIGN_OR_RETURN(value, b.Binary(BinaryKind::kAdd, value, matrix));
    SINTER_ASSIGN_OR_RETURN(value, AddActivation(b, form.sum_activation, value));
  }
  SINTER_ASSIGN_OR_RETURN(value, b.Cast(value, result));
  SINTER_RETURN_IF_ERROR(b.Output(value));
  return b.Finish();
}

// What stands before the matrix: a chain of y, and of up with a gate.
struct Pattern {
  bool gate = false;
  Activation activation = Activation::kIdentity;
  Chain chain;
};

absl::StatusOr<std::vector<Pattern>> MakePatterns() {
  std::vector<Pattern> patterns;
  for (const bool gate : {false, true}) {
    for (const Activation activation : kActivations) {
      ChainBuilder b;
      std::vector<LeafKind> leaves;
      SINTER_ASSIGN_OR_RETURN(const ValueId value, AddProduct(b, activation, gate, &leaves));
      SINTER_RETURN_IF_ERROR(b.Output(value));
      SINTER_ASSIGN_OR_RETURN(Chain chain, b.Finish());
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
  FormFinder(const Chain& body, const std::vector<LeafKind>& leaves)
      : leaves_(leaves), graph_(body), finder_(graph_), end_(body.op(body.outputs()[0].value)) {}

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
  bool IsLeaf(ValueId id, LeafKind kind) const {
    const int input = finder_.InputAt(id);
    return input >= 0 && leaves_[static_cast<size_t>(input)] == kind;
  }

  // An activation of the accumulators, or of gate times up.
  bool ProductAt(ValueId id, EpilogueForm* form) const {
    for (const Pattern& pattern : Patterns()) {
      const auto accept = [&](const std::vector<ValueId>& x) {
        return IsLeaf(x[0], LeafKind::kValue) && (!pattern.gate || IsLeaf(x[1], LeafKind::kUp));
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
      if (!IsLeaf(sum.operands[side], LeafKind::kMatrix)) continue;
      const int matrix = finder_.InputAt(sum.operands[side]);
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

  const std::vector<LeafKind>& leaves_;
  const Subgraph graph_;
  const LinearFinder finder_;
  const Op& end_;
};

// Of floats no op is refused.
EpilogueProgram MakeProgram(const EpilogueForm& form, DType result) {
  std::vector<LeafKind> leaves;
  EpilogueProgram program;
  program.body = std::make_shared<const Chain>(*BodyOf(form, result, &leaves));
  for (const int32_t input : program.body->InputOrder()) {
    program.leaves.push_back(leaves[static_cast<size_t>(input)]);
  }
  program.form = form;
  return program;
}

}  // namespace

std::optional<EpilogueForm> FormOfBody(const Chain& body, const std::vector<LeafKind>& leaves) {
  const bool whole = body.num_outputs() == 1 &&
                     leaves.size() == static_cast<size_t>(body.num_inputs()) &&
                     body.ops().size() <= kMostProgramOps;
  for (const LeafKind kind : leaves) {
    if (kind != LeafKind::kValue && kind != LeafKind::kUp && kind != LeafKind::kMatrix) return {};
  }
  return whole ? FormFinder(body, leaves).Run() : std::nullopt;
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

EpilogueProgram ProgramOf(const EpilogueForm& form, DType result) {
  if (form == EpilogueForm{}) return {};
  static std::mutex* const mutex = new std::mutex;
  static auto* const known = new std::map<std::pair<EpilogueForm, DType>, EpilogueProgram>;
  const std::lock_guard<std::mutex> lock(*mutex);
  EpilogueProgram& program = (*known)[{form, result}];
  if (!program.present()) program = MakeProgram(form, result);
  return program;
}

}  // namespace sinter
