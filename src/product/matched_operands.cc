#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/product/matcher.h"

namespace sinter {
namespace {

std::string StridesAre(absl::string_view name, const std::vector<Stride>& strides) {
  return absl::StrCat("strides of ", name, " are ", ToString(absl::MakeConstSpan(strides)));
}

// Checks types and strides, and fills in the fields that follow from the inputs.
class Describer {
 public:
  Describer(const Subgraph& graph, MatchedSequence* out) : graph_(graph), out_(*out) {}

  absl::Status Run() {
    const TensorType& a = graph_.operand(out_.rows).type;
    if (a.rank() < 2) return Invalid("a is ", ToString(a), ", its rank must be at least 2");
    const MatrixProduct& first = out_.sequence.front();
    if (first.HasTransposedRows()) return RunTransposed(a);
    if (a.dims.back().symbolic) {
      return Invalid(
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
  // Reads rows that lie as columns, [k, rows]: their number is a multiple of the sequence's m.
  absl::Status RunTransposed(const TensorType& a) {
    if (a.dims[1].symbolic) {
      return Invalid("rows are M and transposed, must be contiguous along k");
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
      return Invalid("the output is ", NameOf(graph_.result_type().dtype), ", the inputs are ",
                     NameOf(element_), ": cast it to ", NameOf(element_), " or f32");
    }
    return Operands();
  }

  // Rows at each index of the first axis.
  static absl::StatusOr<int64_t> RowsPerM(const TensorType& a) {
    int64_t rows = 1;
    for (int i = 1; i + 1 < a.rank(); ++i) {
      const Dim dim = a.dims[static_cast<size_t>(i)];
      if (dim.symbolic) return Invalid("a is ", ToString(a), ", only its first dimension may be M");
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
      return Invalid(StridesAre(name, op.strides), ", kernels read it without gaps");
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
      return Invalid(StridesAre(name, op.strides), ", kernels read strides of 1 to ",
                     kLargestScaleStride, ", of scale_a also [s,M]");
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
    return Invalid("gate's scales are ", ToString(p->weights.scales), ", up's ", ToString(up));
  }

  // The type of weight scales: f32, or the weights' own type if that has 16 bits.
  absl::Status ScaleTypes(const ProductInputs& in) const {
    if (in.scale_weights < 0) return absl::OkStatus();
    const DType dtype = graph_.operand(in.scale_weights).type.dtype;
    if (dtype != DType::kF32 && (dtype != element_ || IsCode(element_))) {
      return Invalid("dtype of scale_w is ", NameOf(dtype), ", must be f32",
                     IsCode(element_) ? "" : " or that of a");
    }
    if (in.scale_up < 0) return absl::OkStatus();
    return CheckDType(in.scale_up, "scale_w of up", dtype, "gate's");
  }

  absl::StatusOr<int64_t> OutFeatures(int product) const {
    const std::vector<Dim>& dims = graph_.operand(out_.InputsOf(product).weights).type.dims;
    const bool sums_over_m = out_.sequence[product].k_is_m;
    if (SymbolicAxis(dims) >= (sums_over_m ? 1 : 0)) return Invalid("a weight has dimension M");
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
    SINTER_RETURN_IF_ERROR(CheckDType(input, name, element_, "a"));
    const Op& op = graph_.operand(input);
    const std::vector<Stride>& strides = op.strides;
    int64_t length = 1;
    for (size_t i = strides.size(); i-- > 1;) {
      if (strides[i] != Stride{length, 0} && op.type.dims[i] != Dim::Constant(1)) {
        return Invalid(StridesAre(name, strides),
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
      return Invalid("an auxiliary result is ", ToString(aux.type), ", the output is ",
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
      return Invalid("dtype of ", name, " is ", NameOf(leaf.element), ", must be f32, f16 or bf16");
    }
    if (leaf.kind == LeafKind::kMatrix) return Rows(input, name, matrix_stride);
    if (leaf.kind != LeafKind::kRow) RequireConstant(input);
    return graph_.operand(input).type.rank() > 0 ? CheckStride(input, name) : absl::OkStatus();
  }

  absl::Status CheckDType(int input, absl::string_view name, DType like,
                          absl::string_view like_name) const {
    const TensorType& type = graph_.operand(input).type;
    if (type.dtype == like) return absl::OkStatus();
    return Invalid("dtype of ", name, " is ", NameOf(type.dtype), ", of ", like_name, " ",
                   NameOf(like));
  }

  absl::Status Matrix(int input, absl::string_view name, int64_t* ld) {
    if (input < 0) return absl::OkStatus();
    SINTER_RETURN_IF_ERROR(CheckDType(input, name, element_, "a"));
    return Rows(input, name, ld);
  }

  absl::Status Rows(int input, absl::string_view name, int64_t* ld) {
    const Op& op = graph_.operand(input);
    return RowStride(name, op.type.dims, op.strides, ld);
  }

  absl::Status CheckStride(int input, absl::string_view name) const {
    const Stride stride = graph_.operand(input).strides[0];
    if (stride == Stride{1, 0}) return absl::OkStatus();
    return Invalid("stride of ", name, " is ", stride.value, ", must be 1");
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
      return Invalid(
          StridesAre(name, strides),
          dims.size() > 2 ? ", must be those of rows one after the other, each" : ", must be [",
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

absl::Status DescribeOperands(const Subgraph& graph, MatchedSequence* matched) {
  return Describer(graph, matched).Run();
}

}  // namespace sinter
