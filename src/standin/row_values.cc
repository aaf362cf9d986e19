#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/chain/op.h"
#include "src/standin/row_kernel.h"
#include "src/stitch/precision.h"

namespace sinter {
namespace {

class Reader {
 public:
  explicit Reader(const Chain& body) : body_(body), precisions_(PrecisionsOf(body)) {}

  absl::StatusOr<RowValues> Run() {
    SINTER_ASSIGN_OR_RETURN(out_.domain, RowDomainOf(body_));
    for (int i = 0; i < body_.num_outputs(); ++i) SINTER_RETURN_IF_ERROR(ReadOutput(i));
    for (RowResult& result : out_.results) SINTER_RETURN_IF_ERROR(CheckInPlace(&result));
    return std::move(out_);
  }

 private:
  absl::Status Refuse(ValueId v, absl::string_view why) const { return RefuseRows(body_, v, why); }

  absl::Status ReadOutput(int i) {
    const ChainOutput& output = body_.outputs()[static_cast<size_t>(i)];
    const Op& op = body_.op(output.value);
    if (op.kind != OpKind::kConcat) {
      return ReadPart(output.value, i, output.strides, 0, op.type.dtype);
    }
    int64_t base = 0;
    const auto axis = static_cast<size_t>(op.axis);
    for (ValueId part : op.operands) {
      const int64_t skipped = base * output.strides[axis].value;
      SINTER_RETURN_IF_ERROR(ReadPart(part, i, output.strides, skipped, op.type.dtype));
      base += body_.op(part).type.dims[axis].value;
    }
    return absl::OkStatus();
  }

  absl::Status CheckInPlace(RowResult* result) const {
    const ChainOutput& output = body_.outputs()[static_cast<size_t>(result->output)];
    if (output.alias_input < 0) return absl::OkStatus();
    result->in_place = true;
    for (const RowValue& value : out_.values) {
      if (value.kind != RowValue::Kind::kInput || value.input != output.alias_input) continue;
      if (!(value.place == result->place)) {
        return Refuse(output.value, "a result over an input that is read elsewhere");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadPart(ValueId v, int output, const std::vector<Stride>& strides, int64_t base,
                        DType type) {
    if (!IsFloat(type)) return Refuse(v, absl::StrCat("results of ", NameOf(type)));
    RowResult result;
    result.output = output;
    SINTER_ASSIGN_OR_RETURN(const RowPosition at, AxesOf(body_, v, out_.domain, &result.number));
    SINTER_ASSIGN_OR_RETURN(result.value, Read(v, at));
    SINTER_ASSIGN_OR_RETURN(result.place, InMemory(body_, v, at, strides));
    result.place.base += base;
    if (result.number && !out_.values[static_cast<size_t>(result.value)].number) {
      return Refuse(v, "one element of a row");
    }
    out_.results.push_back(result);
    return absl::OkStatus();
  }

  int Add(RowValue value) {
    value.number = value.kind != RowValue::Kind::kInput;
    for (int operand : value.operands) {
      if (operand >= 0) value.number &= out_.values[static_cast<size_t>(operand)].number;
    }
    if (value.kind == RowValue::Kind::kReduce) value.number = true;
    if (value.kind == RowValue::Kind::kInput) {
      value.number = value.place.steps[out_.domain.last()] == 0;
    }
    out_.values.push_back(value);
    return static_cast<int>(out_.values.size()) - 1;
  }

  int AddOp(RowOp op, int a, int b = -1, int c = -1) {
    RowValue value;
    value.op = op;
    value.operands[0] = a, value.operands[1] = b, value.operands[2] = c;
    return Add(value);
  }
  int AddConstant(double constant) {
    RowValue value;
    value.kind = RowValue::Kind::kConstant;
    value.constant = static_cast<float>(constant);
    return Add(value);
  }

  absl::StatusOr<int> Read(ValueId v, const RowPosition& at) {
    const auto key = std::make_pair(v, std::make_pair(at.flat, at.axes));
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    SINTER_ASSIGN_OR_RETURN(const int value, ReadNew(v, at));
    known_[key] = value;
    return value;
  }

  // An operand of an op whose operands are read where its result is.
  absl::StatusOr<int> Operand(const Op& op, size_t i, const RowPosition& at) {
    const ValueId v = op.operands[i];
    return Read(v, body_.op(v).type.dims.empty() ? RowPosition() : at);
  }

  absl::StatusOr<int> ReadNew(ValueId v, const RowPosition& at) {
    const Op& op = body_.op(v);
    switch (op.kind) {
      case OpKind::kInput:
        return ReadInput(v, at);
      case OpKind::kScalar:
        return AddConstant(op.scalar);
      case OpKind::kUnary: {
        if (!RowsHave(op)) return Refuse(v, NameOf(op));
        const Compound compound = CompoundAt(body_, precisions_, v);
        if (compound.function == Compound::kLog1p) {
          const auto& [sum, operand] = compound.path.back();
          SINTER_ASSIGN_OR_RETURN(const int x, Operand(body_.op(sum), operand, at));
          return AddOp(RowOpOf(UnaryKind::kLog1p),
                       compound.minus ? AddOp(RowOpOf(UnaryKind::kNeg), x) : x);
        }
        SINTER_ASSIGN_OR_RETURN(const int a, Operand(op, 0, at));
        return AddOp(RowOpOf(op.unary), a);
      }
      case OpKind::kBinary: {
        if (!RowsHave(op)) return Refuse(v, NameOf(op));
        SINTER_ASSIGN_OR_RETURN(const int a, Operand(op, 0, at));
        SINTER_ASSIGN_OR_RETURN(const int b, Operand(op, 1, at));
        if (op.binary == BinaryKind::kMul && a == b) return AddOp(RowOpOf(UnaryKind::kSquare), a);
        const bool fast = precisions_[static_cast<size_t>(v)] == Precision::kFast;
        return AddOp(op.binary == BinaryKind::kDiv && fast ? kRowFastDiv : RowOpOf(op.binary), a,
                     b);
      }
      case OpKind::kCompare:
        return ReadCompare(op, at);
      case OpKind::kSelect: {
        SINTER_ASSIGN_OR_RETURN(const int a, Operand(op, 0, at));
        SINTER_ASSIGN_OR_RETURN(const int b, Operand(op, 1, at));
        SINTER_ASSIGN_OR_RETURN(const int c, Operand(op, 2, at));
        return AddOp(kRowSelect, a, b, c);
      }
      case OpKind::kCast:
        return ReadCast(v, op, at);
      case OpKind::kReduce:
        return ReadReduce(v, op, at);
      default:
        return ReadMoved(v, op, at);
    }
  }

  absl::StatusOr<int> ReadInput(ValueId v, const RowPosition& at) {
    const Op& op = body_.op(v);
    if (!IsFloat(op.type.dtype)) return Refuse(v, absl::StrCat("with ", NameOf(op.type.dtype)));
    RowValue value;
    value.kind = RowValue::Kind::kInput;
    value.input = op.input;
    value.type = op.type.dtype;
    SINTER_ASSIGN_OR_RETURN(value.place, InMemory(body_, v, at, op.strides));
    return Add(value);
  }

  absl::StatusOr<int> ReadCompare(const Op& op, const RowPosition& at) {
    SINTER_ASSIGN_OR_RETURN(int a, Operand(op, 0, at));
    SINTER_ASSIGN_OR_RETURN(int b, Operand(op, 1, at));
    if (op.compare == CompareKind::kGt || op.compare == CompareKind::kGe) std::swap(a, b);
    const bool equal = op.compare == CompareKind::kLe || op.compare == CompareKind::kGe;
    if (op.compare == CompareKind::kEq) return AddOp(kRowEq, a, b);
    if (op.compare == CompareKind::kNe) return AddOp(kRowNe, a, b);
    return AddOp(equal ? kRowLe : kRowLt, a, b);
  }

  absl::StatusOr<int> ReadCast(ValueId v, const Op& op, const RowPosition& at) {
    if (!IsFloat(op.type.dtype))
      return Refuse(v, absl::StrCat("a cast to ", NameOf(op.type.dtype)));
    SINTER_ASSIGN_OR_RETURN(const int a, Operand(op, 0, at));
    if (op.type.dtype == DType::kF32) return a;
    return AddOp(op.type.dtype == DType::kBF16 ? kRowRoundBFloat16 : kRowRoundFloat16, a);
  }

  absl::StatusOr<int> ReadReduce(ValueId v, const Op& op, const RowPosition& at) {
    const std::vector<Dim>& dims = body_.op(op.operands[0]).type.dims;
    if (at.flat) return Refuse(v, "a reshaped reduction");
    RowPosition from;
    int64_t columns = 1;
    size_t next = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      const bool reduced = std::count(op.axes.begin(), op.axes.end(), static_cast<int>(i)) > 0;
      if (!reduced || op.keepdims) from.axes.push_back(at.axes[next++]);
      if (!reduced) continue;
      if (!op.keepdims) from.axes.emplace_back();
      from.axes.back() = RowPlace();
      columns *= dims[i].symbolic ? 0 : dims[i].value;
    }
    const size_t last = out_.domain.last();
    for (const RowPlace& axis : from.axes) {
      if (axis.steps[last] != 0) return Refuse(v, "a reduction of other rows");
    }
    if (columns != out_.domain.columns()) return Refuse(v, "reductions of different extents");
    SINTER_RETURN_IF_ERROR(WalkColumns(v, op, dims, &from));
    SINTER_ASSIGN_OR_RETURN(const int a, Read(op.operands[0], from));
    RowValue value;
    value.kind = RowValue::Kind::kReduce;
    value.operands[0] = a;
    value.op = op.reduce == ReduceKind::kMax   ? kRowLargest
               : op.reduce == ReduceKind::kMin ? kRowSmallest
                                               : kRowSum;
    const bool mean = op.reduce == ReduceKind::kMean;
    const double share = mean ? MeanShare(columns) : 1;
    value.constant = static_cast<float>(share);
    const int sum = Add(value);
    const double added = share * static_cast<double>(columns);  // shares of an element
    return mean && added != 1 ? AddOp(RowOpOf(BinaryKind::kDiv), sum, AddConstant(added)) : sum;
  }

  // The reduced axes of `from` become the domain's columns.
  absl::Status WalkColumns(ValueId v, const Op& op, const std::vector<Dim>& dims,
                           RowPosition* from) {
    const size_t last = out_.domain.last();
    if (op.axes.size() == 1) {
      from->axes[static_cast<size_t>(op.axes[0])].steps[last] = 1;
      return absl::OkStatus();
    }
    const bool trailing = op.axes.back() == static_cast<int>(dims.size()) - 1 &&
                          op.axes.back() - op.axes.front() == static_cast<int>(op.axes.size()) - 1;
    if (!trailing) return Refuse(v, "a reduction of axes that are apart");
    RowPlace flat = Flattened(dims, *from);
    flat.steps[last] = 1;
    *from = {true, {flat}};
    return absl::OkStatus();
  }

  absl::StatusOr<int> ReadMoved(ValueId v, const Op& op, const RowPosition& at) {
    const ValueId operand = op.operands.empty() ? -1 : op.operands[0];
    if (op.kind == OpKind::kGather) return Refuse(v, "what ids name");
    if (op.kind == OpKind::kWindow) return Refuse(v, "pixels of a window");
    if (!IsView(op)) return Refuse(v, "it");
    const std::vector<Dim>& dims = body_.op(operand).type.dims;
    if (op.kind == OpKind::kReshape) {
      return Read(operand, Unflattened(out_.domain, dims, Flattened(op.type.dims, at)));
    }
    if (at.flat && !(op.kind == OpKind::kBroadcast && dims.empty())) {
      return Refuse(v, "it after a reshape");
    }
    RowPosition from;
    from.axes.resize(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      if (op.kind == OpKind::kTranspose) {
        for (size_t j = 0; j < op.axes.size(); ++j) {
          if (op.axes[j] == static_cast<int>(i)) from.axes[i] = at.axes[j];
        }
      } else if (op.kind == OpKind::kSlice) {
        from.axes[i] = Times(at.axes[i], op.steps[i]);
        from.axes[i].base += op.starts[i];
      } else if (dims[i] != Dim::Constant(1)) {
        from.axes[i] = at.axes[op.type.dims.size() - dims.size() + i];
      }
    }
    return Read(operand, from);
  }

  const Chain& body_;
  const std::vector<Precision>& precisions_;
  RowValues out_;
  std::map<std::pair<ValueId, std::pair<bool, std::vector<RowPlace>>>, int> known_;
};

constexpr int kLong = 8;  // instructions from which on all elements call one function

// $0, $1: the cases of long and of other functions; $2, $4: parameters and arguments; $3: a name.
constexpr char kFunctionSource[] = R"(  // Apart, because their code is long.
  static __device__ __noinline__ float long_$3(int op, $2) {
    switch (op) {
$0      default:
        return x;
    }
  }
  template <class Each>
  static SINTER_DEVICE void $3(int op, Each each) {
    switch (op) {
$1      default:
        return each([op]($2) { return long_$3(op, $4); });
    }
  }
)";

template <typename Kind>
std::string Functions(absl::Span<const Kind> kinds, absl::string_view name,
                      absl::string_view parameters, absl::string_view arguments) {
  std::string far, near;
  for (const Kind kind : kinds) {
    const OpTraits& traits = TraitsOf(kind);
    if (traits.on_rows == nullptr) continue;
    const bool own = *traits.on_rows != 0;
    const std::string text =
        own ? traits.on_rows : absl::StrCat(traits.exact.function, "(", arguments, ")");
    const std::string label = absl::StrCat("      case ", static_cast<int>(kind), ":\n        ");
    if (!own && traits.exact.issue >= kLong) {
      absl::StrAppend(&far, label, "return ", text, ";\n");
    } else {
      absl::StrAppend(&near, label, "return each([](", parameters, ") { return ", text, "; });\n");
    }
  }
  return absl::Substitute(kFunctionSource, far, near, parameters, name, arguments);
}

}  // namespace

absl::StatusOr<RowValues> ReadRows(const Chain& body) { return Reader(body).Run(); }

static_assert(static_cast<int>(kRowUnary) + 100 < kRowFirstTwo,
              "room for the numbers of unary ops");

bool RowsHave(const Op& op) { return TraitsOf(op).on_rows != nullptr; }

std::string RowOpsSource() {
  return absl::StrCat("struct RowOps {\n", Functions(UnaryKinds(), "one", "float x", "x"),
                      Functions(BinaryKinds(), "two", "float x, float y", "x, y"), "};\n");
}

}  // namespace sinter
