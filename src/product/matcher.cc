#include "src/product/matcher.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/linear_finder.h"
#include "src/chain/pattern.h"
#include "src/chain/quantizer_finder.h"
#include "src/chain/scaled_matmul.h"
#include "src/product/program_finder.h"
#include "src/product/result_type.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status Refuse(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// act(x), or act(x) * y when gated, as a chain with those inputs. Made by the same composites that
// users call.
absl::StatusOr<Chain> StepPattern(bool gated, Activation act) {
  ChainBuilder b;
  const TensorType type{DType::kF32, {Dim::M(), Dim::Constant(2)}};
  SINTER_ASSIGN_OR_RETURN(ValueId x, b.Input(type));
  SINTER_ASSIGN_OR_RETURN(ValueId result, AddActivation(b, act, x));
  if (gated) {
    SINTER_ASSIGN_OR_RETURN(ValueId y, b.Input(type));
    SINTER_ASSIGN_OR_RETURN(result, b.Binary(BinaryKind::kMul, result, y));
  }
  SINTER_RETURN_IF_ERROR(b.Output(result));
  return b.Finish();
}

struct StepForm {
  bool gated = false;
  Activation act = Activation::kIdentity;
  Chain pattern;
};

absl::StatusOr<std::vector<StepForm>> MakeStepForms() {
  std::vector<StepForm> forms;
  for (bool gated : {false, true}) {
    for (Activation act : kActivations) {
      SINTER_ASSIGN_OR_RETURN(Chain pattern, StepPattern(gated, act));
      forms.push_back({gated, act, std::move(pattern)});
    }
  }
  return forms;
}

// In the order in which they are tried. Made once, and never destroyed: threads of the library may
// outlive static destructors.
const absl::StatusOr<std::vector<StepForm>>& StepForms() {
  static const auto* const forms = new absl::StatusOr<std::vector<StepForm>>(MakeStepForms());
  return *forms;
}

// A matrix input that is added to a result.
struct FoundResidual {
  int input = -1;
  bool rounds = false;                     // the chain rounds the result before the add
  Activation act = Activation::kIdentity;  // of the sum
};

// A program in the place of activation, gate and residual, and the vectors of columns that it
// reads.
struct FoundEpilogue {
  EpilogueProgram program;  // none: the steps that are found say all
  std::vector<int> columns;
  int row = -1;
};

// One product or gated pair, with its epilogue.
struct FoundStep {
  bool gated = false;
  Activation act = Activation::kIdentity;
  Linear main, up;
};

absl::StatusOr<FoundStep> FindStep(const Subgraph& graph, const LinearFinder& finder,
                                   ValueId value) {
  SINTER_RETURN_IF_ERROR(StepForms().status());
  for (const StepForm& form : *StepForms()) {
    FoundStep step{form.gated, form.act, {}, {}};
    const auto accept = [&](const std::vector<ValueId>& values) {
      if (!finder.LinearAt(values[0], &step.main)) return false;
      if (!form.gated) return true;
      return finder.LinearAt(values[1], &step.up) &&
             finder.SkipWidening(step.up.x) == finder.SkipWidening(step.main.x);
    };
    if (MatchPattern(graph, value, form.pattern, accept)) return step;
  }
  return Refuse("op ", value, " (", NameOf(graph.op(value)),
                ") is no activation of a product with a weight, nor a gated pair");
}

absl::Status CheckHalves(const FoundStep& found) {
  const Linear &gate = found.main, &up = found.up;
  if (gate.conv >= 0 || up.conv >= 0) return Refuse("a gated pair of convolutions");
  if (up.layout != gate.layout) return Refuse("gate and up differ in layout");
  if ((up.bias >= 0) != (gate.bias >= 0)) return Refuse("one of gate and up has a bias");
  if (up.factor != gate.factor) return Refuse("gate and up differ in the factor of their rows");
  if (up.scale_x != gate.scale_x) return Refuse("gate and up differ in the scale of their rows");
  if ((up.codes >= 0) != (gate.codes >= 0)) return Refuse("one of gate and up has scales");
  if ((up.columns >= 0) != (gate.columns >= 0)) {
    return Refuse("one of gate and up has a scale of its columns");
  }
  if (up.norm_eps != gate.norm_eps) return Refuse("gate and up differ in the norm of their rows");
  if (up.scale == gate.scale) return absl::OkStatus();
  return Refuse("gate is scaled by ", gate.scale, ", up by ", up.scale);
}

// Kernels add s8 in s32 and go on in f32, as scaled_matmul does.
absl::Status CheckSums(const Subgraph& graph, const FoundStep& found) {
  if (found.main.codes >= 0 || graph.op(found.main.x).type.dtype != DType::kS8) {
    return absl::OkStatus();
  }
  return Refuse(
      "a matmul of s8 gives s32, which no kernel of products stores: kernels multiply s8 "
      "with scales, by scaled_matmul");
}

ProductInputs InputsOf(const FoundStep& found, const FoundResidual& residual,
                       const FoundEpilogue& epilogue, bool rounds) {
  ProductInputs in;
  in.leaves = epilogue.columns;
  in.weights = found.main.weight;
  in.weights_up = found.up.weight;
  in.bias = found.main.bias;
  in.bias_up = found.up.bias;
  in.factor = epilogue.row >= 0 ? epilogue.row : found.main.factor;
  in.scale_rows = found.main.scale_x;
  in.scale_weights = std::max(found.main.scale_w, found.main.columns);
  in.scale_up = std::max(found.up.scale_w, found.up.columns);
  in.residual = residual.input;
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

absl::Status FillScales(const Subgraph& graph, const FoundStep& found, MatrixProduct* p) {
  if (found.main.codes < 0) return absl::OkStatus();
  const Op& main = graph.op(found.main.codes);
  SINTER_ASSIGN_OR_RETURN(p->rows.scales, ScalesOf(graph, main, 0));
  SINTER_ASSIGN_OR_RETURN(p->weights.scales, ScalesOf(graph, main, 1));
  p->accumulate = main.accumulate;
  if (!found.gated) return absl::OkStatus();
  // Fast sums are a permission: a pair takes it where both halves give it.
  p->accumulate = std::min(p->accumulate, graph.op(found.up.codes).accumulate);
  SINTER_ASSIGN_OR_RETURN(const Scales up, ScalesOf(graph, graph.op(found.up.codes), 1));
  if (up == p->weights.scales) return absl::OkStatus();
  return Refuse("gate's scales are ", ToString(p->weights.scales), ", up's ", ToString(up));
}

// The elements are filled in later, from the chain's types.
MatrixProduct ProductOf(const Subgraph& graph, const FoundStep& found,
                        const FoundResidual& residual, const FoundEpilogue& epilogue) {
  MatrixProduct p;
  if (found.main.conv >= 0) {
    p.rows.source = Source::kWindow;
    p.rows.window = WindowOf(graph, graph.op(found.main.conv));
  }
  p.pair = found.gated;
  p.weights.layout = found.main.layout;
  const auto scale = static_cast<float>(found.main.scale);
  if (found.main.columns >= 0) p.weights.scales.kind = ScaleKind::kVector;
  if (found.main.norm_eps >= 0) p.epilogue.Set(NormOf(static_cast<float>(found.main.norm_eps)));
  if (scale != 1) p.epilogue.Set(ScaleBy(scale));
  if (found.main.factor >= 0) p.epilogue.Set(StepOf(EpilogueOp::kFactor));
  if (found.main.bias >= 0) p.epilogue.Set(StepOf(EpilogueOp::kBias));
  if (epilogue.program.present()) {
    p.epilogue.Set(Compute(epilogue.program));
    return p;
  }
  if (found.act != Activation::kIdentity) p.epilogue.Set(Activate(found.act));
  if (found.gated) p.epilogue.Set(StepOf(EpilogueOp::kGate));
  if (residual.rounds) p.epilogue.Set(StepOf(EpilogueOp::kRound));
  if (residual.input >= 0) p.epilogue.Set(StepOf(EpilogueOp::kResidual));
  if (residual.act != Activation::kIdentity) {
    p.epilogue.Set(Activate(residual.act, EpilogueOp::kActivateSum));
  }
  return p;
}

absl::Status TakeQuantizer(const Subgraph& graph, const FoundQuantizer& found,
                           MatchedSequence* out) {
  const QuantizeSpec& spec = found.rule;
  EpilogueStep step = StepOf(EpilogueOp::kQuantize);
  if (spec.granularity == Granularity::kStatic) {
    int& scale = out->inputs.back().given_scale = graph.op(spec.scale).input;
    if (scale < 0)
      return Refuse("op ", spec.scale, " (", NameOf(graph.op(spec.scale)),
                    ") is the scale of codes and lies not in memory");
  } else {
    step.rule = {kScaleBlock, static_cast<float>(spec.eps), static_cast<float>(spec.upper_bound),
                 spec.ue8m0};
    out->limits = found.limits;
  }
  out->sequence.products.back().epilogue.Set(step);
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
      FoundStep found;
      SINTER_RETURN_IF_ERROR(AddAt(value, rounds, &found));
      out_.rows = finder_.InputAt(found.main.x);
      if (out_.rows >= 0) break;
      value = SkipRounding(found.main.x, &rounds);
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
  // The product that ends at `value`: by the steps that kernels have forms of their own for, or
  // else by a program.
  absl::Status AddAt(ValueId value, bool rounds, FoundStep* step) {
    FoundResidual residual;
    const ValueId below = SkipActivatedResidual(value, &residual);
    absl::StatusOr<FoundStep> found = FindStep(graph_, finder_, below);
    const absl::Status by_steps = found.ok() ? Add(*found, residual, {}, rounds) : found.status();
    if (by_steps.ok()) {
      *step = *std::move(found);
      return absl::OkStatus();
    }
    const DType result = out_.size() == 0 ? graph_.result_type().dtype : RowsElement();
    absl::StatusOr<FoundProgram> whole =
        FindProgram(graph_, finder_, value, IsCode(result) ? DType::kF32 : result);
    if (!whole.ok()) return by_steps;
    *step = {whole->pair, Activation::kIdentity, whole->main, whole->up};
    FoundResidual matrix;
    matrix.input = whole->matrix;
    return Add(*step, matrix, {std::move(whole->program), std::move(whole->columns), whole->row},
               rounds);
  }

  // Of what the product that was found last multiplies.
  DType RowsElement() const { return graph_.operand(out_.inputs.back().weights).type.dtype; }

  // Adds nothing where it fails.
  absl::Status Add(const FoundStep& found, const FoundResidual& residual,
                   const FoundEpilogue& epilogue, bool rounds) {
    if (found.gated) SINTER_RETURN_IF_ERROR(CheckHalves(found));
    SINTER_RETURN_IF_ERROR(CheckSums(graph_, found));
    MatrixProduct product = ProductOf(graph_, found, residual, epilogue);
    SINTER_RETURN_IF_ERROR(FillScales(graph_, found, &product));
    out_.sequence.products.push_back(std::move(product));
    out_.inputs.push_back(InputsOf(found, residual, epilogue, rounds));
    return absl::OkStatus();
  }

  // Skips the casts of an intermediate. `rounds`: whether one of them casts to the chain's dtype.
  ValueId SkipRounding(ValueId x, bool* rounds) const {
    x = finder_.SkipWidening(x);
    *rounds =
        graph_.op(x).kind == OpKind::kCast && graph_.op(x).type.dtype == graph_.result_type().dtype;
    return *rounds ? finder_.SkipWidening(graph_.op(x).operands[0]) : x;
  }

  // If `value` adds a residual, records it and returns the result that it is added to; else
  // `value`.
  ValueId SkipResidual(ValueId value, FoundResidual* residual) const {
    const Op& op = graph_.op(value);
    if (op.kind != OpKind::kBinary || op.binary != BinaryKind::kAdd) return value;
    for (int side : {1, 0}) {
      residual->input = finder_.ResidualAt(op.operands[side], op);
      if (residual->input >= 0) return SkipRounding(op.operands[1 - side], &residual->rounds);
    }
    return value;
  }

  // The same for an activation of such a sum too.
  ValueId SkipActivatedResidual(ValueId value, FoundResidual* residual) const {
    if (!StepForms().ok()) return value;
    for (const StepForm& form : *StepForms()) {
      if (form.gated) continue;
      ValueId below = value;
      const auto is_sum = [&](const std::vector<ValueId>& values) {
        const ValueId sum = finder_.SkipWidening(values[0]);
        below = SkipResidual(sum, residual);
        return below != sum;
      };
      if (!MatchPattern(graph_, value, form.pattern, is_sum)) continue;
      residual->act = form.act;
      return below;
    }
    return value;
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
    if (a.dims.back().symbolic) return Refuse("k is M, must be constant");
    const Operand& rows = out_.sequence.front().rows;
    const bool window = rows.source == Source::kWindow;
    SINTER_ASSIGN_OR_RETURN(out_.sequence.rows_per_m, RowsPerM(a));
    if (window) out_.sequence.rows_per_m = rows.window.RowsPerM();
    out_.m = a.dims[0];
    element_ = a.dtype;
    result_ = ResultType(element_, graph_.result_type().dtype);
    int64_t k = window ? rows.window.Columns() : a.dims.back().value;
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

 private:
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
    for (EpilogueStep& step : p->epilogue.steps) {
      if (step.op == EpilogueOp::kRound || step.op == EpilogueOp::kResidual) {
        step.element = p->result;
      }
      if (step.op == EpilogueOp::kBias) step.element = graph_.operand(in.bias).type.dtype;
      if (step.op == EpilogueOp::kFactor) step.element = graph_.operand(in.factor).type.dtype;
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
    if (SymbolicAxis(dims) >= 0) return Refuse("a weight has dimension M");
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
    SINTER_RETURN_IF_ERROR(Vector(in->bias, absl::StrCat("bias", number)));
    SINTER_RETURN_IF_ERROR(Vector(in->bias_up, absl::StrCat("bias", of_up)));
    if (in->bias_up >= 0) {
      const DType gate = graph_.operand(in->bias).type.dtype;
      SINTER_RETURN_IF_ERROR(CheckDType(in->bias_up, "bias_up", gate, "gate's"));
    }
    SINTER_RETURN_IF_ERROR(
        Residual(in->residual, absl::StrCat("residual", number), &in->residual_stride));
    SINTER_RETURN_IF_ERROR(Factor(in->factor, absl::StrCat("factor", number)));
    SINTER_RETURN_IF_ERROR(ScalesOfProduct(*in, &out_.sequence[product]));
    for (size_t i = 0; i < in->leaves.size(); ++i) {
      const std::string name = absl::StrCat("vector ", i + 1, " of columns");
      if (graph_.operand(in->leaves[i]).type.rank() > 0) {
        SINTER_RETURN_IF_ERROR(CheckStride(in->leaves[i], name));
      }
      if (!graph_.operand(in->leaves[i]).constant) out_.weights_constant = false;
    }
    for (int input :
         {in->weights, in->weights_up, in->bias, in->bias_up, in->scale_weights, in->scale_up}) {
      if (input >= 0 && !graph_.operand(input).constant) out_.weights_constant = false;
    }
    return absl::OkStatus();
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

  absl::Status Residual(int input, absl::string_view name, int64_t* ld) {
    if (input < 0) return absl::OkStatus();
    const bool codes = result_ != element_;
    SINTER_RETURN_IF_ERROR(CheckDType(input, name, result_, codes ? "the result" : "a"));
    return Rows(input, name, ld);
  }

  absl::Status Rows(int input, absl::string_view name, int64_t* ld) {
    const Op& op = graph_.operand(input);
    return RowStride(name, op.type.dims, op.strides, ld);
  }

  // A bias has the operands' type or f32; beside codes any type that is added in f32.
  absl::Status Vector(int input, absl::string_view name) {
    if (input < 0) return absl::OkStatus();
    const bool f32 = graph_.operand(input).type.dtype == DType::kF32;
    if (!f32 && !IsCode(element_)) SINTER_RETURN_IF_ERROR(CheckDType(input, name));
    return CheckStride(input, name);
  }

  absl::Status Factor(int input, absl::string_view name) const {
    if (input < 0) return absl::OkStatus();
    const bool f32 = graph_.operand(input).type.dtype == DType::kF32;
    const DType like = IsCode(element_) ? result_ : element_;
    if (!f32) SINTER_RETURN_IF_ERROR(CheckDType(input, name, like, "a"));
    return CheckStride(input, name);
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

absl::StatusOr<MatchedSequence> MatchProducts(const Chain& chain, int64_t m, bool norms) {
  if (chain.num_outputs() != 1) {
    return Refuse("the chain has ", chain.num_outputs(), " outputs, must have 1");
  }
  SINTER_ASSIGN_OR_RETURN(MatchedSequence matched, MatchProducts(Subgraph(chain)));
  if (chain.outputs()[0].alias_input >= 0) return Refuse("the output aliases an input");
  if (!norms && HasNorm(matched.sequence))
    return Refuse("the norm of its rows is another kernel's");
  matched.sequence.m = m;
  return matched;
}

absl::StatusOr<MatchedSequence> MatchWhole(const Chain& chain, int64_t bucket, bool norms) {
  SINTER_ASSIGN_OR_RETURN(MatchedSequence matched,
                          MatchProducts(chain, bucket, norms && chain.UsesM()));
  const ProductSequence& sequence = matched.sequence;
  if (sequence.back().HasGroups()) {
    return absl::InvalidArgumentError("the result is codes whose scales are no output");
  }
  for (int i = 0; i < sequence.size(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckSequence(sequence.Part(i, 1)));
  }
  return matched;
}

}  // namespace sinter
