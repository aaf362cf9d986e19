#include "src/product/matcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/chain/linear_finder.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status Refuse(const Args&... args) {
  return Invalid(args...);
}

// Kernels add s8 in s32 and go on in f32, as scaled_matmul does.
absl::Status CheckSums(const Subgraph& graph, const FoundProgram& found) {
  if (found.main.codes >= 0 || graph.op(found.main.x).type.dtype != DType::kS8) {
    return absl::OkStatus();
  }
  return Refuse(
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
  return Refuse(name, " is ", ToString(scale), ", of ", ToString(type),
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
  return Refuse("gate's scales are ", ToString(p->weights.scales), ", up's ", ToString(up));
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
      return Refuse("op ", spec.scale, " (", NameOf(graph.op(spec.scale)),
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
      if (out_.size() == kMaxProducts) return Refuse("more than ", kMaxProducts, " products");
      SINTER_ASSIGN_OR_RETURN(const ValueId x, AddAt(value, rounds));
      out_.rows = finder_.InputAt(x);
      if (out_.rows >= 0) break;
      if (out_.sequence.products.back().HasTransposedRows()) {
        return Refuse("op ", x, " (", NameOf(graph_.op(x)),
                      ") is transposed, so it must lie in memory");
      }
      value = SkipRounding(x, &rounds);
    }
    std::vector<MatrixProduct>& products = out_.sequence.products;
    std::reverse(products.begin(), products.end());
    std::reverse(out_.inputs.begin(), out_.inputs.end());
    for (size_t i = 1; i < products.size(); ++i) {
      if (products[i].rows.source == Source::kWindow) {
        return Refuse("product ", i + 1, " takes windows of what the one before writes");
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

  // Of what the product that was found last multiplies.
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
      return Refuse("w", i + 1, " is ", NameOf(layout), ", w1 ", NameOf(first),
                    ": all weights must be alike");
    }
    return absl::OkStatus();
  }

  const Subgraph& graph_;
  const LinearFinder finder_;
  MatchedSequence& out_;
};

// Checks types and strides, and fills in the fields that follow from the inputs.
class Describer {
 public:
  Describer(const Subgraph& graph, MatchedSequence* out) : graph_(graph), out_(*out) {}

  absl::Status Run() {
    const TensorType& a = graph_.operand(out_.rows).type;
    if (a.rank() < 2) return Refuse("a is ", ToString(a), ", its rank must be at least 2");
    const MatrixProduct& first = out_.sequence.front();
    if (first.HasTransposedRows()) return RunTransposed(a);
    if (a.dims.back().symbolic) {
      return Refuse(
          "k is M, of rows that are contiguous along it: kernels sum over M where both "
          "operands have it first, [M, rows] and [M, n]");
    }
    const Operand& rows = first.rows;
    const bool window = rows.source == Source::kWindow;
    SINTER_ASSIGN_OR_RETURN(out_.sequence.rows_per_m, RowsPerM(a));
    if (window) out_.sequence.rows_per_m = rows.window.RowsPerM();
    out_.m = a.dims[0];
    return RunFrom(a, window ? rows.window.Columns() : a.dims.back().value);
  }

 private:
  // Of rows that lie as columns, [k, rows]: as many times a number as a sequence has.
  absl::Status RunTransposed(const TensorType& a) {
    if (a.dims[1].symbolic) {
      return Refuse("rows are M and transposed, must be contiguous along k");
    }
    const int64_t rows = a.dims[1].value;
    int64_t m = std::min(rows, kLargestBucket);
    while (rows % m != 0) --m;
    out_.sequence.rows_per_m = rows / m;
    out_.m = Dim::Constant(m);
    out_.sequence.products.front().k_is_m = a.dims[0].symbolic;
    return RunFrom(a, a.dims[0].symbolic ? 0 : a.dims[0].value);
  }

  absl::Status RunFrom(const TensorType& a, int64_t k) {
    element_ = a.dtype;
    result_ = ResultType(element_, graph_.result_type().dtype);
    for (int i = 0; i < out_.size(); ++i) {
      MatrixProduct& p = out_.sequence[i];
      p.k = k;
      SINTER_ASSIGN_OR_RETURN(p.n, OutFeatures(i));
      k = p.n;
      FillElements(out_.InputsOf(i), i + 1 == out_.size(), &p);
    }
    if (graph_.result_type().dtype != result_) {
      return Refuse("the output is ", NameOf(graph_.result_type().dtype), ", the inputs are ",
                    NameOf(element_), ": cast it to ", NameOf(element_), " or f32");
    }
    return Operands();
  }

  // Rows at each index of the first axis.
  static absl::StatusOr<int64_t> RowsPerM(const TensorType& a) {
    int64_t rows = 1;
    for (int i = 1; i + 1 < a.rank(); ++i) {
      const Dim dim = a.dims[static_cast<size_t>(i)];
      if (dim.symbolic) return Refuse("a is ", ToString(a), ", only its first dimension may be M");
      rows *= dim.value;
    }
    return rows;
  }

  // Products hand on what the next one multiplies; the last one's result is the output.
  void FillElements(const ProductInputs& in, bool last, MatrixProduct* p) const {
    p->rows.element = p->weights.element = element_;
    p->result = last || IsCode(element_) ? result_ : element_;
    if (in.scale_weights >= 0) {
      p->weights.scales.element = graph_.operand(in.scale_weights).type.dtype;
    }
  }

  // Fills in where `scales` lie: of rows and, in blocks, of groups of K.
  absl::Status Scale(int input, absl::string_view name, int64_t k, Scales* scales) const {
    if (input < 0) return absl::OkStatus();
    const Op& op = graph_.operand(input);
    if (op.strides == ContiguousStrides(op.type.dims)) return absl::OkStatus();
    if (op.type.rank() == 1) {
      return Refuse("strides of ", name, " are ", ToString(absl::MakeConstSpan(op.strides)),
                    ", kernels read it without gaps");
    }
    const auto fits = [](Stride s) { return s.value >= 1 && s.value <= kLargestScaleStride; };
    const bool blocks = scales->kind == ScaleKind::kBlock;
    const Dim groups = Dim::Constant(blocks ? k / kScaleBlock : 1);
    const bool takes = op.type.rank() == 2 && op.type.dims[1] == groups &&
                       (blocks || scales->kind == ScaleKind::kVector);
    const int power = takes && blocks ? op.strides[1].m_power : 0;
    const bool good = takes && op.strides[0].m_power == 0 && fits(op.strides[0]) &&
                      (!blocks || fits(op.strides[1])) && power <= (name == "scale_a" ? 1 : 0);
    if (!good) {
      return Refuse("strides of ", name, " are ", ToString(absl::MakeConstSpan(op.strides)),
                    ", kernels read strides of 1 to ", kLargestScaleStride,
                    ", of scale_a also [s,M]");
    }
    scales->row_stride = op.strides[0].value;
    if (blocks) scales->group_stride = op.strides[1].value;
    scales->of_m = power == 1;
    return absl::OkStatus();
  }

  absl::Status ScalesOfProduct(const ProductInputs& in, MatrixProduct* p) const {
    SINTER_RETURN_IF_ERROR(ScaleTypes(in));
    Scales up = p->weights.scales;
    SINTER_RETURN_IF_ERROR(Scale(in.scale_rows, "scale_a", p->k, &p->rows.scales));
    SINTER_RETURN_IF_ERROR(Scale(in.scale_weights, "scale_w", p->k, &p->weights.scales));
    SINTER_RETURN_IF_ERROR(Scale(in.scale_up, "scale_w of up", p->k, &up));
    if (in.scale_up < 0 || up == p->weights.scales) return absl::OkStatus();
    return Refuse("gate's scales are ", ToString(p->weights.scales), ", up's ", ToString(up));
  }

  // Of weights: f32, or their own type where they have 16 bits.
  absl::Status ScaleTypes(const ProductInputs& in) const {
    if (in.scale_weights < 0) return absl::OkStatus();
    const DType dtype = graph_.operand(in.scale_weights).type.dtype;
    if (dtype != DType::kF32 && (dtype != element_ || IsCode(element_))) {
      return Refuse("dtype of scale_w is ", NameOf(dtype), ", must be f32",
                    IsCode(element_) ? "" : " or that of a");
    }
    if (in.scale_up < 0) return absl::OkStatus();
    return CheckDType(in.scale_up, "scale_w of up", dtype, "gate's");
  }

  absl::StatusOr<int64_t> OutFeatures(int product) const {
    const std::vector<Dim>& dims = graph_.operand(out_.InputsOf(product).weights).type.dims;
    const bool sums_over_m = out_.sequence[product].k_is_m;
    if (SymbolicAxis(dims) >= (sums_over_m ? 1 : 0)) return Refuse("a weight has dimension M");
    if (IsOhwi(product)) return dims.front().value;
    if (out_.sequence.layout() == Layout::kIO) return dims.back().value;
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i].value;
    return rows;
  }

  // Whether the weights are a filter whose taps and channels are the columns of its matrix.
  bool IsOhwi(int product) const {
    return out_.sequence[product].rows.source == Source::kWindow &&
           out_.sequence.layout() == Layout::kOI;
  }

  // The stride of a filter's outputs.
  absl::Status Filter(int input, absl::string_view name, int64_t* ld) {
    SINTER_RETURN_IF_ERROR(CheckDType(input, name));
    const Op& op = graph_.operand(input);
    const std::vector<Stride>& strides = op.strides;
    int64_t length = 1;
    for (size_t i = strides.size(); i-- > 1;) {
      if (strides[i] != Stride{length, 0} && op.type.dims[i] != Dim::Constant(1)) {
        return Refuse("strides of ", name, " are ", ToString(absl::MakeConstSpan(strides)),
                      ", must be those of taps and channels without gaps");
      }
      length *= op.type.dims[i].value;
    }
    return RowStride(name, {op.type.dims[0], Dim::Constant(length)}, {strides[0], {1, 0}}, ld);
  }

  absl::Status Operands() {
    SINTER_RETURN_IF_ERROR(Matrix(out_.rows, "a", &out_.rows_stride));
    for (int i = 0; i < out_.size(); ++i) {
      SINTER_RETURN_IF_ERROR(OperandsOf(absl::StrCat(i + 1), i));
    }
    for (const Subgraph::Aux& aux : graph_.aux()) {
      if (aux.type.dims == graph_.result_type().dims && IsFloat(aux.type.dtype)) {
        out_.aux_strides.push_back(0);
        SINTER_RETURN_IF_ERROR(
            RowStride("an auxiliary result", aux.type.dims, aux.strides, &out_.aux_strides.back()));
        continue;
      }
      return Refuse("an auxiliary result is ", ToString(aux.type), ", the output is ",
                    ToString(graph_.result_type()));
    }
    return RowStride("the output", graph_.result_type().dims, graph_.result_strides(),
                     &out_.output_stride);
  }

  absl::Status OperandsOf(const std::string& number, int product) {
    ProductInputs* in = &out_.inputs[static_cast<size_t>(product)];
    const std::string weights = absl::StrCat("w", number);
    const std::string of_up = absl::StrCat("_up", product == 0 ? "" : number);
    SINTER_RETURN_IF_ERROR(IsOhwi(product) ? Filter(in->weights, weights, &in->weights_stride)
                                           : Matrix(in->weights, weights, &in->weights_stride));
    SINTER_RETURN_IF_ERROR(
        Matrix(in->weights_up, absl::StrCat("w", of_up), &in->weights_up_stride));
    SINTER_RETURN_IF_ERROR(ScalesOfProduct(*in, &out_.sequence[product]));
    for (const Leaf& leaf : out_.sequence[product].Leaves(product)) {
      SINTER_RETURN_IF_ERROR(
          CheckLeaf(leaf, out_.NumberOf(product, leaf), number, &in->residual_stride));
    }
    for (int input : {in->weights, in->weights_up, in->scale_weights, in->scale_up}) {
      RequireConstant(input);
    }
    return absl::OkStatus();
  }

  void RequireConstant(int input) {
    if (input >= 0 && !graph_.operand(input).constant) out_.weights_constant = false;
  }

  absl::Status CheckLeaf(const Leaf& leaf, int input, const std::string& number,
                         int64_t* matrix_stride) {
    const Role::Kind kind = leaf.role.kind;
    const std::string name =
        kind == Role::kLeaf     ? absl::StrCat("vector ", leaf.role.leaf + 1, " of columns")
        : kind == Role::kBiasUp ? "bias_up"
                                : NameOf({kind, leaf.role.product}, 1) + number;
    if (!IsFloat(leaf.element)) {
      return Refuse("dtype of ", name, " is ", NameOf(leaf.element), ", must be f32, f16 or bf16");
    }
    if (leaf.kind == LeafKind::kMatrix) return Rows(input, name, matrix_stride);
    if (leaf.kind != LeafKind::kRow) RequireConstant(input);
    return graph_.operand(input).type.rank() > 0 ? CheckStride(input, name) : absl::OkStatus();
  }

  absl::Status CheckDType(int input, absl::string_view name) const {
    return CheckDType(input, name, element_, "a");
  }
  absl::Status CheckDType(int input, absl::string_view name, DType like,
                          absl::string_view like_name) const {
    const TensorType& type = graph_.operand(input).type;
    if (type.dtype == like) return absl::OkStatus();
    return Refuse("dtype of ", name, " is ", NameOf(type.dtype), ", of ", like_name, " ",
                  NameOf(like));
  }

  absl::Status Matrix(int input, absl::string_view name, int64_t* ld) {
    if (input < 0) return absl::OkStatus();
    SINTER_RETURN_IF_ERROR(CheckDType(input, name));
    return Rows(input, name, ld);
  }

  absl::Status Rows(int input, absl::string_view name, int64_t* ld) {
    const Op& op = graph_.operand(input);
    return RowStride(name, op.type.dims, op.strides, ld);
  }

  absl::Status CheckStride(int input, absl::string_view name) const {
    const Stride stride = graph_.operand(input).strides[0];
    if (stride == Stride{1, 0}) return absl::OkStatus();
    return Refuse("stride of ", name, " is ", stride.value, ", must be 1");
  }

  // All axes but the last are rows, contiguous at one row stride.
  absl::Status RowStride(absl::string_view name, const std::vector<Dim>& dims,
                         const std::vector<Stride>& strides, int64_t* ld) {
    const int64_t length = dims.back().value;
    bool good = strides.back() == Stride{1, 0};
    int64_t rows = 0;  // rows in one step of the next axis; 0: it has the row stride
    *ld = length;
    for (size_t i = dims.size() - 1; i-- > 0;) {
      if (dims[i] == Dim::Constant(1)) continue;
      if (rows == 0) *ld = strides[i].value;
      good = good && strides[i] == Stride{*ld * std::max<int64_t>(rows, 1), 0};
      rows = std::max<int64_t>(rows, 1) * (dims[i].symbolic ? 1 : dims[i].value);
    }
    if (!good || *ld < length) {
      return Refuse(
          "strides of ", name, " are ", ToString(absl::MakeConstSpan(strides)),
          dims.size() > 2 ? ", must be those of rows one behind the other, each" : ", must be [",
          dims.size() > 2 ? " at least " : "at least ", length, dims.size() > 2 ? " apart" : ",1]");
    }
    out_.contiguous = out_.contiguous && *ld == length;
    return absl::OkStatus();
  }

  const Subgraph& graph_;
  MatchedSequence& out_;
  DType element_ = DType::kBF16;  // of rows and weights
  DType result_ = DType::kBF16;   // of residuals and of the output
};

}  // namespace

absl::StatusOr<MatchedSequence> MatchProducts(const Subgraph& graph) {
  ValueId value = graph.result();
  const Op& op = graph.op(value);
  if (op.type.rank() < 2) {
    return Refuse("the output is ", ToString(op.type), ", its rank must be at least 2");
  }
  if (op.kind == OpKind::kInput) return Refuse("the output is an input");
  const bool rounds = op.kind == OpKind::kCast && op.type.dtype == graph.result_type().dtype;
  if (rounds) value = op.operands[0];
  FoundQuantizer quantizer;
  const bool codes = QuantizerAt(graph, graph.result(), &quantizer);
  if (codes) value = quantizer.x;
  MatchedSequence matched;
  SINTER_RETURN_IF_ERROR(Walker(graph, &matched).Run(value));
  if (codes) SINTER_RETURN_IF_ERROR(TakeQuantizer(graph, quantizer, &matched));
  SINTER_RETURN_IF_ERROR(Describer(graph, &matched).Run());
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
    return Refuse("the chain has ", chain.num_outputs(), " outputs, must have 1");
  }
  SINTER_ASSIGN_OR_RETURN(MatchedSequence matched, MatchProducts(Subgraph(chain)));
  if (chain.outputs()[0].alias_input >= 0) return Refuse("the output aliases an input");
  if (!norms && HasNorm(matched.sequence))
    return Refuse("the norm of its rows is another kernel's");
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
    return absl::InvalidArgumentError("the result is codes whose scales are no output");
  }
  for (int i = 0; i < sequence.size(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckSequence(sequence.Part(i, 1)));
  }
  return matched;
}

}  // namespace sinter
