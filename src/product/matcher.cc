#include "src/product/matcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/chain/linear_finder.h"

namespace sinter {
namespace {

// Kernels add s8 in s32 and go on in f32, as scaled_matmul does.
absl::Status CheckSums(const Subgraph& graph, const FoundProgram& found) {
  if (found.main.codes >= 0 || graph.op(found.main.x).type.dtype != DType::kS8) {
    return absl::OkStatus();
  }
  return Invalid(
      "a matmul of s8 gives s32, which no kernel of products stores: kernels multiply s8 "
      "with scales, by scaled_matmul");
}

ProductInputs InputsOf(const FoundProgram& found, bool rounds) {
  ProductInputs in;
  in.leaves = found.leaves;
  in.weights = found.main.weight;
  in.weights_up = found.up.weight;
  in.scale_rows = found.main.scale_x;
  in.scale_weights = std::max(found.main.scale_w, found.main.columns);
  in.scale_up = std::max(found.up.scale_w, found.up.columns);
  in.rounds = rounds;
  return in;
}

PixelWindow WindowOf(const Subgraph& graph, const Op& op) {
  const std::vector<Dim>& x = graph.op(op.operands[0]).type.dims;
  const std::vector<Dim>& w = graph.op(op.operands[1]).type.dims;
  PixelWindow window;
  window.height = x[1].value;
  window.width = x[2].value;
  window.channels = x[3].value;
  for (int axis : {0, 1}) window.taps[axis] = w[op.conv.height_axis() + axis].value;
  window.conv = op.conv;
  window.conv.filter = FilterLayout::kOHWI;  // the weights' layout says it
  return window;
}

// What shares a value of the scale of operand `slot` of a product of codes.
absl::StatusOr<Scales> ScalesOf(const Subgraph& graph, const Op& product, size_t slot) {
  const bool weights = slot == 1;
  const TensorType& type = graph.op(product.operands[slot]).type;
  const TensorType& scale = graph.op(product.operands[slot + 2]).type;
  const char* name = weights ? "scale_w" : "scale_a";
  SINTER_ASSIGN_OR_RETURN(const ScaleGrain grain, GrainOf(name, type, scale, weights));
  const bool groups = grain.k > 0 && type.dims[1].value > kScaleBlock;
  if (grain.rows == 0 && !groups) return Scales{ScaleKind::kTensor, 0, 0};
  if (grain.rows == 1 && !groups) return Scales{ScaleKind::kVector, 0, 0};
  // Rows that share a scale of 128 of K. Where there are no more rows, all of them do.
  const int64_t block = weights ? kScaleBlock : 1;
  const Dim rows = type.dims[0];
  if (grain.rows == block || (!rows.symbolic && rows.value <= block && groups)) {
    return Scales{ScaleKind::kBlock, block, kScaleBlock};
  }
  return Invalid(name, " is ", ToString(scale), ", of ", ToString(type),
                 ": kernels read one of the tensor, of a row, or of ",
                 weights ? "128 x 128" : "128 of a row");
}

absl::Status FillScales(const Subgraph& graph, const FoundProgram& found, MatrixProduct* p) {
  if (found.main.codes < 0) return absl::OkStatus();
  const Op& main = graph.op(found.main.codes);
  SINTER_ASSIGN_OR_RETURN(p->rows.scales, ScalesOf(graph, main, 0));
  SINTER_ASSIGN_OR_RETURN(p->weights.scales, ScalesOf(graph, main, 1));
  p->accumulate = main.accumulate;
  if (!found.pair) return absl::OkStatus();
  // Fast sums are a permission: a pair takes it where both halves give it.
  p->accumulate = std::min(p->accumulate, graph.op(found.up.codes).accumulate);
  SINTER_ASSIGN_OR_RETURN(const Scales up, ScalesOf(graph, graph.op(found.up.codes), 1));
  if (up == p->weights.scales) return absl::OkStatus();
  return Invalid("gate's scales are ", ToString(p->weights.scales), ", up's ", ToString(up));
}

// The elements of operands and result are filled in later, from the chain's types.
MatrixProduct ProductOf(const Subgraph& graph, const FoundProgram& found) {
  const Linear& main = found.main;
  MatrixProduct p;
  if (main.conv >= 0) {
    p.rows.source = Source::kWindow;
    p.rows.window = WindowOf(graph, graph.op(main.conv));
  }
  p.pair = found.pair;
  p.weights.layout = main.layout;
  if (main.transposed) p.rows.layout = Layout::kIO;
  if (main.columns >= 0) p.weights.scales.kind = ScaleKind::kVector;
  ProductEpilogue& e = p.epilogue;
  if (main.norm_eps >= 0) e.norm = static_cast<float>(main.norm_eps);
  e.program = found.program;
  return p;
}

absl::Status TakeQuantizer(const Subgraph& graph, const FoundQuantizer& found,
                           MatchedSequence* out) {
  const QuantizeSpec& spec = found.rule;
  QuantizeRule rule;
  if (spec.granularity == Granularity::kStatic) {
    int& scale = out->inputs.back().given_scale = graph.op(spec.scale).input;
    if (scale < 0)
      return Invalid("op ", spec.scale, " (", NameOf(graph.op(spec.scale)),
                     ") is the scale of codes and lies not in memory");
  } else {
    rule = {kScaleBlock, static_cast<float>(spec.eps), static_cast<float>(spec.upper_bound),
            spec.ue8m0};
    out->limits = found.limits;
  }
  out->sequence.products.back().epilogue.quantize = rule;
  return absl::OkStatus();
}

// Walks from the output back to the rows, and fills in the products and their inputs.
class Walker {
 public:
  Walker(const Subgraph& graph, MatchedSequence* out) : graph_(graph), finder_(graph), out_(*out) {}

  absl::Status Run(ValueId value) {
    value = finder_.SkipWidening(value);
    bool rounds = true;  // the output rounds
    for (;;) {
      if (out_.size() == kMaxProducts) return Invalid("more than ", kMaxProducts, " products");
      SINTER_ASSIGN_OR_RETURN(const ValueId x, AddAt(value, rounds));
      out_.rows = finder_.InputAt(x);
      if (out_.rows >= 0) break;
      if (out_.sequence.products.back().HasTransposedRows()) {
        return Invalid("op ", x, " (", NameOf(graph_.op(x)),
                       ") is transposed, so it must lie in memory");
      }
      value = SkipRounding(x, &rounds);
    }
    std::vector<MatrixProduct>& products = out_.sequence.products;
    std::reverse(products.begin(), products.end());
    std::reverse(out_.inputs.begin(), out_.inputs.end());
    for (size_t i = 1; i < products.size(); ++i) {
      if (products[i].rows.source == Source::kWindow) {
        return Invalid("product ", i + 1, " takes windows of what the one before writes");
      }
      products[i].rows.source = Source::kProduct;
    }
    return CheckLayouts();
  }

 private:
  // Adds the product that ends at `value`, and returns its rows.
  absl::StatusOr<ValueId> AddAt(ValueId value, bool rounds) {
    const DType result = out_.size() == 0 ? graph_.result_type().dtype : RowsElement();
    SINTER_ASSIGN_OR_RETURN(const FoundProgram found,
                            FindProgram(graph_, finder_, value,
                                        IsCode(result) ? DType::kF32 : result, out_.size() == 0));
    SINTER_RETURN_IF_ERROR(CheckSums(graph_, found));
    MatrixProduct product = ProductOf(graph_, found);
    SINTER_RETURN_IF_ERROR(FillScales(graph_, found, &product));
    out_.sequence.products.push_back(std::move(product));
    out_.inputs.push_back(InputsOf(found, rounds));
    return found.main.x;
  }

  // The element type of the matrix by which the product that was found last multiplies.
  DType RowsElement() const { return graph_.operand(out_.inputs.back().weights).type.dtype; }

  // Skips the casts of an intermediate. `rounds`: whether one of them casts to the chain's dtype.
  ValueId SkipRounding(ValueId x, bool* rounds) const {
    x = finder_.SkipWidening(x);
    *rounds =
        graph_.op(x).kind == OpKind::kCast && graph_.op(x).type.dtype == graph_.result_type().dtype;
    return *rounds ? finder_.SkipWidening(graph_.op(x).operands[0]) : x;
  }

  absl::Status CheckLayouts() const {
    for (int i = 1; i < out_.size(); ++i) {
      const Layout layout = out_.sequence[i].weights.layout, first = out_.sequence.layout();
      if (layout == first) continue;
      return Invalid("w", i + 1, " is ", NameOf(layout), ", w1 ", NameOf(first),
                     ": all weights must be alike");
    }
    return absl::OkStatus();
  }

  const Subgraph& graph_;
  const LinearFinder finder_;
  MatchedSequence& out_;
};

}  // namespace

absl::StatusOr<MatchedSequence> MatchProducts(const Subgraph& graph) {
  ValueId value = graph.result();
  const Op& op = graph.op(value);
  if (op.type.rank() < 2) {
    return Invalid("the output is ", ToString(op.type), ", its rank must be at least 2");
  }
  if (op.kind == OpKind::kInput) return Invalid("the output is an input");
  const bool rounds = op.kind == OpKind::kCast && op.type.dtype == graph.result_type().dtype;
  if (rounds) value = op.operands[0];
  FoundQuantizer quantizer;
  const bool codes = QuantizerAt(graph, graph.result(), &quantizer);
  if (codes) value = quantizer.x;
  MatchedSequence matched;
  SINTER_RETURN_IF_ERROR(Walker(graph, &matched).Run(value));
  if (codes) SINTER_RETURN_IF_ERROR(TakeQuantizer(graph, quantizer, &matched));
  SINTER_RETURN_IF_ERROR(DescribeOperands(graph, &matched));
  for (size_t i = 0; i < graph.operands().size(); ++i) {
    matched.operands.push_back({graph.operands()[i], graph.operand(static_cast<int>(i)).type});
  }
  return matched;
}

int MatchedSequence::NumberOf(int product, Role::Kind kind) const {
  for (const Leaf& leaf : sequence[product].Leaves()) {
    if (leaf.role.kind == kind) return NumberOf(product, leaf);
  }
  return -1;
}

void MatchedSequence::SetBucket(int64_t bucket) {
  sequence.m = m.At(bucket);
  for (MatrixProduct& product : sequence.products) {
    if (product.k_is_m) product.k = bucket;
  }
}

absl::StatusOr<MatchedSequence> MatchProducts(const Chain& chain, int64_t m, bool norms) {
  if (chain.num_outputs() != 1) {
    return Invalid("the chain has ", chain.num_outputs(), " outputs, must have 1");
  }
  SINTER_ASSIGN_OR_RETURN(MatchedSequence matched, MatchProducts(Subgraph(chain)));
  if (chain.outputs()[0].alias_input >= 0) return Invalid("the output aliases an input");
  if (!norms && HasNorm(matched.sequence))
    return Invalid("the norm of its rows is another kernel's");
  matched.SetBucket(m);
  if (!matched.sequence.front().HasTransposedRows()) matched.sequence.m = m;
  return matched;
}

absl::StatusOr<MatchedSequence> MatchWhole(const Chain& chain, int64_t bucket, bool norms) {
  SINTER_ASSIGN_OR_RETURN(MatchedSequence matched,
                          MatchProducts(chain, bucket, norms && chain.UsesM()));
  const ProductSequence& sequence = matched.sequence;
  if (sequence.front().HasTransposedRows()) {
    return absl::InvalidArgumentError("its rows are transposed");
  }
  if (sequence.back().HasGroups()) {
    return absl::InvalidArgumentError("the result is codes whose scales are not an output");
  }
  for (int i = 0; i < sequence.size(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckSequence(sequence.Part(i, 1)));
  }
  return matched;
}

}  // namespace sinter
