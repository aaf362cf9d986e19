#include "src/chain/products_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/linear_finder.h"
#include "src/chain/pattern.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status Refuse(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// act(x), or act(x) * y when gated, as a chain with those inputs; built by the composites that
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

// A matrix input that is added to a result, as found.
struct FoundResidual {
  int input = -1;
  bool rounds = false;  // the result is rounded first
};

// One product, or gated pair of them, and what is done to it.
struct FoundStep {
  bool gated = false;
  Activation act = Activation::kIdentity;
  Linear main, up;
};

absl::StatusOr<FoundStep> FindStep(const Chain& chain, const LinearFinder& finder, ValueId value) {
  for (bool gated : {false, true}) {
    for (Activation act : kActivations) {
      SINTER_ASSIGN_OR_RETURN(const Chain pattern, StepPattern(gated, act));
      FoundStep step{gated, act, {}, {}};
      const auto accept = [&](const std::vector<ValueId>& values) {
        if (!finder.LinearAt(values[0], &step.main)) return false;
        if (!gated) return true;
        return finder.LinearAt(values[1], &step.up) &&
               finder.SkipWidening(step.up.x) == finder.SkipWidening(step.main.x);
      };
      if (MatchPattern(chain, value, pattern, accept)) return step;
    }
  }
  return Refuse("op ", value, " (", NameOf(chain.op(value)),
                ") is no activation of a product with a weight, nor a gated pair");
}

absl::StatusOr<ProductStep> StepOf(const FoundStep& found) {
  ProductStep step;
  step.gated = found.gated;
  step.act = found.act;
  step.w = found.main.weight;
  step.b = found.main.bias;
  step.scale = found.main.scale;
  step.factor = found.main.factor;
  if (!found.gated) return step;
  step.w_up = found.up.weight;
  step.b_up = found.up.bias;
  if (found.up.layout != found.main.layout) return Refuse("w_gate and w_up differ in layout");
  if ((step.b_up >= 0) != step.bias()) return Refuse("one of gate and up has a bias");
  if (found.up.factor != step.factor)
    return Refuse("gate and up differ in the factor of their rows");
  if (found.up.scale != step.scale) {
    return Refuse("gate is scaled by ", step.scale, ", up by ", found.up.scale);
  }
  return step;
}

// Walks from the output to `a`, and fills in the steps, their inputs and the layout.
class Walker {
 public:
  Walker(const Chain& chain, ProductsView* view) : chain_(chain), finder_(chain), view_(*view) {}

  absl::Status Run(ValueId value) {
    value = finder_.SkipWidening(value);
    bool rounds = true;  // by the output
    for (;;) {
      if (view_.size() == kMaxProducts) return Refuse("more than ", kMaxProducts, " products");
      FoundResidual residual;
      value = SkipResidual(value, &residual);
      SINTER_ASSIGN_OR_RETURN(const FoundStep found, FindStep(chain_, finder_, value));
      SINTER_RETURN_IF_ERROR(Add(found, residual, rounds));
      view_.a = finder_.InputAt(found.main.x);
      if (view_.a >= 0) break;
      value = SkipRounding(found.main.x, &rounds);
    }
    std::reverse(view_.steps.begin(), view_.steps.end());
    std::reverse(layouts_.begin(), layouts_.end());
    return CheckLayouts();
  }

 private:
  absl::Status Add(const FoundStep& found, const FoundResidual& residual, bool rounds) {
    SINTER_ASSIGN_OR_RETURN(ProductStep step, StepOf(found));
    step.rounds = rounds;
    step.residual = residual.input;
    step.rounds_sum = residual.rounds;
    view_.steps.push_back(step);
    layouts_.push_back(found.main.layout);
    return absl::OkStatus();
  }

  // An intermediate below its casts, and whether one to the chain's dtype rounds it.
  ValueId SkipRounding(ValueId x, bool* rounds) const {
    x = finder_.SkipWidening(x);
    *rounds = chain_.op(x).kind == OpKind::kCast &&
              chain_.op(x).type.dtype == chain_.output_type(0).dtype;
    return *rounds ? finder_.SkipWidening(chain_.op(x).operands[0]) : x;
  }

  // The result that a residual is added to at `value`; `value` itself when there is none.
  ValueId SkipResidual(ValueId value, FoundResidual* residual) const {
    const Op& op = chain_.op(value);
    if (op.kind != OpKind::kBinary || op.binary != BinaryKind::kAdd) return value;
    for (int side : {1, 0}) {
      residual->input = finder_.ResidualAt(op.operands[side], op);
      if (residual->input >= 0) return SkipRounding(op.operands[1 - side], &residual->rounds);
    }
    return value;
  }

  absl::Status CheckLayouts() {
    view_.layout = layouts_[0];
    for (size_t i = 1; i < layouts_.size(); ++i) {
      if (layouts_[i] == view_.layout) continue;
      return Refuse("w", i + 1, " is ", NameOf(layouts_[i]), ", w1 ", NameOf(view_.layout),
                    ": all weights must be alike");
    }
    return absl::OkStatus();
  }

  const Chain& chain_;
  const LinearFinder finder_;
  ProductsView& view_;
  std::vector<Layout> layouts_;  // of the weights, as view_.steps
};

// Checks types and strides, and fills in what follows from the inputs.
class Describer {
 public:
  Describer(const Chain& chain, ProductsView* view) : chain_(chain), view_(*view) {}

  absl::Status Run() {
    const TensorType& a = chain_.input_op(view_.a).type;
    if (a.rank() != 2) return Refuse("a is ", ToString(a), ", its rank must be 2");
    if (a.dims[1].symbolic) return Refuse("k is M, must be constant");
    view_.m = a.dims[0];
    view_.dtype = a.dtype;
    int64_t k = a.dims[1].value;
    for (ProductStep& step : view_.steps) {
      step.k = k;
      SINTER_ASSIGN_OR_RETURN(step.n, OutFeatures(step.w));
      k = step.n;
    }
    if (chain_.output_type(0).dtype != view_.dtype) {
      return Refuse("the output is ", NameOf(chain_.output_type(0).dtype), ", the inputs are ",
                    NameOf(view_.dtype));
    }
    if (chain_.outputs()[0].alias_input >= 0) return Refuse("the output aliases an input");
    return Operands();
  }

 private:
  absl::StatusOr<int64_t> OutFeatures(int weight) const {
    const Dim dim = chain_.input_op(weight).type.dims[view_.layout == Layout::kOI ? 0 : 1];
    if (dim.symbolic) return Refuse("a weight has dimension M");
    return dim.value;
  }

  absl::Status Operands() {
    SINTER_RETURN_IF_ERROR(Matrix(view_.a, "a", &view_.ld_a));
    for (size_t i = 0; i < view_.steps.size(); ++i) {
      SINTER_RETURN_IF_ERROR(OperandsOf(absl::StrCat(i + 1), &view_.steps[i]));
    }
    return RowStride("the output", chain_.output_type(0).dims, chain_.outputs()[0].strides,
                     &view_.ld_out);
  }

  absl::Status OperandsOf(const std::string& number, ProductStep* step) {
    const absl::string_view main = step->gated ? "_gate" : "";
    SINTER_RETURN_IF_ERROR(Matrix(step->w, absl::StrCat("w", main, number), &step->ld_w));
    SINTER_RETURN_IF_ERROR(Matrix(step->w_up, absl::StrCat("w_up", number), &step->ld_w_up));
    SINTER_RETURN_IF_ERROR(Vector(step->b, absl::StrCat("b", main, number)));
    SINTER_RETURN_IF_ERROR(Vector(step->b_up, absl::StrCat("b_up", number)));
    SINTER_RETURN_IF_ERROR(
        Matrix(step->residual, absl::StrCat("residual", number), &step->ld_residual));
    SINTER_RETURN_IF_ERROR(Factor(absl::StrCat("factor", number), step));
    for (int input : {step->w, step->w_up, step->b, step->b_up}) {
      if (input >= 0 && !chain_.input_op(input).constant) view_.weights_constant = false;
    }
    return absl::OkStatus();
  }

  absl::Status CheckDType(int input, absl::string_view name) const {
    const TensorType& type = chain_.input_op(input).type;
    if (type.dtype == view_.dtype) return absl::OkStatus();
    return Refuse("dtype of ", name, " is ", NameOf(type.dtype), ", of a ", NameOf(view_.dtype));
  }

  absl::Status Matrix(int input, absl::string_view name, int64_t* ld) {
    if (input < 0) return absl::OkStatus();
    SINTER_RETURN_IF_ERROR(CheckDType(input, name));
    const Op& op = chain_.input_op(input);
    return RowStride(name, op.type.dims, op.strides, ld);
  }

  absl::Status Vector(int input, absl::string_view name) {
    if (input < 0) return absl::OkStatus();
    SINTER_RETURN_IF_ERROR(CheckDType(input, name));
    const Stride stride = chain_.input_op(input).strides[0];
    if (stride == Stride{1, 0}) return absl::OkStatus();
    return Refuse("stride of ", name, " is ", stride.value, ", must be 1");
  }

  absl::Status Factor(absl::string_view name, ProductStep* step) const {
    if (!step->has_factor()) return absl::OkStatus();
    const Op& op = chain_.input_op(step->factor);
    step->factor_dtype = op.type.dtype;
    if (op.type.dtype != DType::kF32) SINTER_RETURN_IF_ERROR(CheckDType(step->factor, name));
    if (op.strides[0] == Stride{1, 0}) return absl::OkStatus();
    return Refuse("stride of ", name, " is ", op.strides[0].value, ", must be 1");
  }

  absl::Status RowStride(absl::string_view name, const std::vector<Dim>& dims,
                         const std::vector<Stride>& strides, int64_t* ld) {
    const Stride row = strides[0], column = strides[1];
    const int64_t length = dims[1].value;
    if (row.m_power != 0 || row.value < length || column != Stride{1, 0}) {
      return Refuse("strides of ", name, " are ", ToString(absl::MakeConstSpan(strides)),
                    ", must be [at least ", length, ",1]");
    }
    *ld = row.value;
    view_.contiguous = view_.contiguous && row.value == length;
    return absl::OkStatus();
  }

  const Chain& chain_;
  ProductsView& view_;
};

}  // namespace

absl::StatusOr<ProductsView> ViewAsProducts(const Chain& chain) {
  if (chain.num_outputs() != 1) {
    return Refuse("the chain has ", chain.num_outputs(), " outputs, must have 1");
  }
  ValueId value = chain.outputs()[0].value;
  const TensorType& type = chain.op(value).type;
  if (type.rank() != 2) return Refuse("the output is ", ToString(type), ", its rank must be 2");
  if (chain.op(value).kind == OpKind::kCast) {
    value = chain.op(value).operands[0];
  } else if (chain.op(value).kind == OpKind::kInput) {
    return Refuse("the output is an input");
  }
  ProductsView view;
  SINTER_RETURN_IF_ERROR(Walker(chain, &view).Run(value));
  SINTER_RETURN_IF_ERROR(Describer(chain, &view).Run());
  return view;
}

}  // namespace sinter
