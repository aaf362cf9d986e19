#include "src/chain/ffn_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/pattern.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status NotFfn(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("not an ffn: ", args...));
}

// x W + bias, as found: `x` is any value, the others are canonical inputs.
struct Linear {
  ValueId x = -1;
  int weight = -1, bias = -1;
  Layout layout = Layout::kOI;
};

class Finder {
 public:
  explicit Finder(const Chain& chain) : chain_(chain) {}

  // Below casts that lose nothing: to f32 from a narrower floating type.
  ValueId SkipWidening(ValueId id) const {
    while (chain_.op(id).kind == OpKind::kCast && chain_.op(id).type.dtype == DType::kF32 &&
           IsFloat(chain_.op(chain_.op(id).operands[0]).type.dtype)) {
      id = chain_.op(id).operands[0];
    }
    return id;
  }

  // Canonical input at `id`, -1 when it is none.
  int InputAt(ValueId id) const { return chain_.op(SkipWidening(id)).input; }

  // A vector input spread over the rows, -1 otherwise.
  int BiasAt(ValueId id) const {
    id = SkipWidening(id);
    if (chain_.op(id).kind != OpKind::kBroadcast) return -1;
    id = SkipWidening(chain_.op(id).operands[0]);
    return chain_.op(id).type.rank() == 1 ? chain_.op(id).input : -1;
  }

  // Whether `id` is a product with a matrix input, with or without bias.
  bool LinearAt(ValueId id, Linear* found) const {
    id = SkipWidening(id);
    const Op& op = chain_.op(id);
    if (op.kind == OpKind::kMatmul) return ProductAt(op, found);
    if (op.kind != OpKind::kBinary || op.binary != BinaryKind::kAdd) return false;
    for (int side : {0, 1}) {
      const Op& product = chain_.op(SkipWidening(op.operands[side]));
      const int bias = BiasAt(op.operands[1 - side]);
      if (bias < 0 || product.kind != OpKind::kMatmul || !ProductAt(product, found)) continue;
      found->bias = bias;
      return true;
    }
    return false;
  }

 private:
  bool ProductAt(const Op& op, Linear* found) const {
    if (op.transpose_a || op.type.rank() != 2) return false;
    ValueId weight = SkipWidening(op.operands[1]);
    bool transposed = op.transpose_b;
    while (chain_.op(weight).kind == OpKind::kTranspose && chain_.op(weight).type.rank() == 2) {
      transposed ^= chain_.op(weight).axes[0] == 1;
      weight = SkipWidening(chain_.op(weight).operands[0]);
    }
    if (chain_.op(weight).kind != OpKind::kInput || chain_.op(weight).type.rank() != 2) {
      return false;
    }
    *found =
        Linear{op.operands[0], chain_.op(weight).input, -1, transposed ? Layout::kOI : Layout::kIO};
    return true;
  }

  const Chain& chain_;
};

// act(x), or act(x) * y when gated, as a chain with those inputs; built by the composites that
// users call.
absl::StatusOr<Chain> HiddenPattern(bool gated, Activation act) {
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

// The first product, or pair of products, and what is done to it.
struct Hidden {
  bool gated = false;
  Activation act = Activation::kIdentity;
  Linear main, up;
};

absl::StatusOr<Hidden> FindHidden(const Chain& chain, const Finder& finder, ValueId value) {
  for (bool gated : {false, true}) {
    for (Activation act : kActivations) {
      SINTER_ASSIGN_OR_RETURN(Chain pattern, HiddenPattern(gated, act));
      Hidden hidden{gated, act, {}, {}};
      const auto accept = [&](const std::vector<ValueId>& values) {
        if (!finder.LinearAt(values[0], &hidden.main)) return false;
        if (finder.InputAt(hidden.main.x) < 0) return false;
        if (!gated) return true;
        return finder.LinearAt(values[1], &hidden.up) &&
               finder.InputAt(hidden.up.x) == finder.InputAt(hidden.main.x);
      };
      if (MatchPattern(chain, value, pattern, accept)) return hidden;
    }
  }
  return NotFfn("op ", value, " (", NameOf(chain.op(value)),
                ") is no activation of a product of an input with a weight, nor a gated pair");
}

// Checks types and strides, and fills in what follows from the roles.
class Describer {
 public:
  Describer(const Chain& chain, FfnView* view) : chain_(chain), view_(*view) {}

  absl::Status Run() {
    const TensorType& a = chain_.input_op(view_.a).type;
    if (a.rank() != 2) return NotFfn("a is ", ToString(a), ", its rank must be 2");
    if (a.dims[1].symbolic) return NotFfn("k is M, must be constant");
    view_.m = a.dims[0];
    view_.k = a.dims[1].value;
    view_.dtype = a.dtype;
    SINTER_ASSIGN_OR_RETURN(view_.n, OutFeatures(view_.w1));
    if (view_.w2 >= 0) {
      SINTER_ASSIGN_OR_RETURN(view_.l, OutFeatures(view_.w2));
    }
    if (chain_.output_type(0).dtype != view_.dtype) {
      return NotFfn("the output is ", NameOf(chain_.output_type(0).dtype), ", the inputs are ",
                    NameOf(view_.dtype));
    }
    if (chain_.outputs()[0].alias_input >= 0) return NotFfn("the output aliases an input");
    return Operands();
  }

 private:
  absl::StatusOr<int64_t> OutFeatures(int weight) const {
    const Dim dim = chain_.input_op(weight).type.dims[view_.layout == Layout::kOI ? 0 : 1];
    if (dim.symbolic) return NotFfn("a weight has dimension M");
    return dim.value;
  }

  absl::Status Operands() {
    SINTER_RETURN_IF_ERROR(Matrix(view_.a, "a", &view_.ld_a));
    SINTER_RETURN_IF_ERROR(Matrix(view_.w1, view_.gated ? "w_gate" : "w1", &view_.ld_w1));
    SINTER_RETURN_IF_ERROR(Matrix(view_.w_up, "w_up", &view_.ld_w_up));
    SINTER_RETURN_IF_ERROR(Matrix(view_.w2, "w2", &view_.ld_w2));
    SINTER_RETURN_IF_ERROR(Vector(view_.b1, view_.gated ? "b_gate" : "b1"));
    SINTER_RETURN_IF_ERROR(Vector(view_.b_up, "b_up"));
    SINTER_RETURN_IF_ERROR(Vector(view_.b2, "b2"));
    for (int input : {view_.w1, view_.w_up, view_.b1, view_.b_up, view_.w2, view_.b2}) {
      if (input >= 0 && !chain_.input_op(input).constant) view_.weights_constant = false;
    }
    return RowStride("the output", chain_.output_type(0).dims, chain_.outputs()[0].strides,
                     &view_.ld_out);
  }

  absl::Status CheckDType(int input, absl::string_view name) const {
    const TensorType& type = chain_.input_op(input).type;
    if (type.dtype == view_.dtype) return absl::OkStatus();
    return NotFfn("dtype of ", name, " is ", NameOf(type.dtype), ", of a ", NameOf(view_.dtype));
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
    return NotFfn("stride of ", name, " is ", stride.value, ", must be 1");
  }

  absl::Status RowStride(absl::string_view name, const std::vector<Dim>& dims,
                         const std::vector<Stride>& strides, int64_t* ld) {
    const Stride row = strides[0], column = strides[1];
    const int64_t length = dims[1].value;
    if (row.m_power != 0 || row.value < length || column != Stride{1, 0}) {
      return NotFfn("strides of ", name, " are ", ToString(absl::MakeConstSpan(strides)),
                    ", must be [at least ", length, ",1]");
    }
    *ld = row.value;
    view_.contiguous = view_.contiguous && row.value == length;
    return absl::OkStatus();
  }

  const Chain& chain_;
  FfnView& view_;
};

absl::Status TakeHidden(const Hidden& hidden, const Finder& finder, FfnView* view) {
  view->gated = hidden.gated;
  view->act = hidden.act;
  view->layout = hidden.main.layout;
  view->a = finder.InputAt(hidden.main.x);
  view->w1 = hidden.main.weight;
  view->b1 = hidden.main.bias;
  view->bias1 = view->b1 >= 0;
  if (!hidden.gated) return absl::OkStatus();
  view->w_up = hidden.up.weight;
  view->b_up = hidden.up.bias;
  if (hidden.up.layout != view->layout) return NotFfn("w_gate and w_up differ in layout");
  if ((view->b_up >= 0) != view->bias1) return NotFfn("one of gate and up has a bias");
  return absl::OkStatus();
}

// C below the second product, and whether a cast to `dtype` rounds it.
ValueId SkipRounding(const Chain& chain, const Finder& finder, ValueId c, DType dtype,
                     bool* rounds) {
  c = finder.SkipWidening(c);
  *rounds = chain.op(c).kind == OpKind::kCast && chain.op(c).type.dtype == dtype;
  return *rounds ? finder.SkipWidening(chain.op(c).operands[0]) : c;
}

absl::Status FindRoles(const Chain& chain, ValueId value, FfnView* view) {
  const Finder finder(chain);
  Linear last;
  const bool product = finder.LinearAt(value, &last);
  ValueId c = value;
  view->products = product && finder.InputAt(last.x) < 0 ? 2 : 1;
  if (view->products == 2) {
    const DType dtype = chain.output_type(0).dtype;
    c = SkipRounding(chain, finder, last.x, dtype, &view->rounds_c);
    view->w2 = last.weight;
    view->b2 = last.bias;
    view->bias2 = last.bias >= 0;
  }
  SINTER_ASSIGN_OR_RETURN(Hidden hidden, FindHidden(chain, finder, finder.SkipWidening(c)));
  SINTER_RETURN_IF_ERROR(TakeHidden(hidden, finder, view));
  if (view->products == 2 && last.layout != view->layout) {
    return NotFfn("w2 is ", NameOf(last.layout), ", w1 ", NameOf(view->layout),
                  ": all weights must be alike");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FfnView> ViewAsFfn(const Chain& chain) {
  if (chain.num_outputs() != 1) {
    return NotFfn("the chain has ", chain.num_outputs(), " outputs, must have 1");
  }
  ValueId value = chain.outputs()[0].value;
  const TensorType& type = chain.op(value).type;
  if (type.rank() != 2) return NotFfn("the output is ", ToString(type), ", its rank must be 2");
  if (chain.op(value).kind == OpKind::kCast) {
    value = chain.op(value).operands[0];
  } else if (chain.op(value).kind == OpKind::kInput) {
    return NotFfn("the output is an input");
  }
  FfnView view;
  SINTER_RETURN_IF_ERROR(FindRoles(chain, value, &view));
  SINTER_RETURN_IF_ERROR(Describer(chain, &view).Run());
  return view;
}

std::string ToString(const FfnView& v) {
  const absl::string_view kind =
      v.products == 2 ? (v.gated ? "gated_ffn" : "gemm_chain") : (v.gated ? "gate_up" : "matmul");
  std::string text = absl::StrCat(kind, " m=", ToString(v.m), " n=", v.n, " k=", v.k);
  if (v.products == 2) absl::StrAppend(&text, " l=", v.l);
  absl::StrAppend(&text, " act=", NameOf(v.act), " layout=", NameOf(v.layout),
                  " dtype=", NameOf(v.dtype));
  if (v.bias1) absl::StrAppend(&text, " bias1=1");
  if (v.bias2) absl::StrAppend(&text, " bias2=1");
  return text;
}

}  // namespace sinter
