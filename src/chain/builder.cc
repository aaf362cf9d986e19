#include "src/chain/builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/infer.h"

namespace sinter {
namespace {

constexpr int kMaxOps = 1 << 16;
constexpr size_t kMaxConcat = 64;
constexpr size_t kMaxOutputs = 1024;
constexpr size_t kMaxBuffers = 4096;  // inputs and outputs, as launch recipes number them

Op MakeOp(OpKind kind, std::vector<ValueId> operands) {
  Op op;
  op.kind = kind;
  op.operands = std::move(operands);
  return op;
}

template <typename Kind>
absl::Status CheckEnum(Kind kind) {
  if (IsValid(kind)) return absl::OkStatus();
  return Invalid("kind is ", static_cast<int32_t>(kind), ", which does not exist");
}

// Whether every result pixel of a convolution is the pixel at its place times the filter.
bool IsProduct(const Conv2d& conv, const TensorType& w) {
  const int taps = conv.height_axis();
  return w.dims[taps] == Dim::Constant(1) && w.dims[taps + 1] == Dim::Constant(1) &&
         conv.strides == Conv2d().strides && conv.pads == Conv2d().pads && conv.groups == 1;
}

// Whether a chain with so many of them may have one more.
absl::Status CheckOneMore(size_t inputs, size_t outputs) {
  if (inputs + outputs < kMaxBuffers) return absl::OkStatus();
  return Invalid("a chain has at most ", kMaxBuffers,
                 " inputs and outputs: give slices of one input, or several chains");
}

bool IsGoodName(absl::string_view name) {
  return name.size() <= 128 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

absl::Status ChainBuilder::Error(absl::string_view kind, absl::string_view message) const {
  return Error(kind, Invalid(message));
}

absl::Status ChainBuilder::Error(absl::string_view kind, const absl::Status& why) const {
  return OfOp(size(), kind, why);
}

absl::Status ChainBuilder::CheckOperand(absl::string_view kind, absl::string_view field,
                                        ValueId id) const {
  if (Contains(id)) return absl::OkStatus();
  const std::string bound = ops_.empty() ? "" : absl::StrCat("in [0, ", size() - 1, "]");
  const std::string what = ops_.empty() ? "none exists yet" : absl::StrCat("must be ", bound);
  return Error(kind, WithField(Invalid(field, " is value ", id, ", ", what), field, id, bound));
}

absl::Status ChainBuilder::CheckOperands(
    absl::string_view kind, std::initializer_list<std::pair<const char*, ValueId>> ids) const {
  for (const auto& [field, id] : ids) SINTER_RETURN_IF_ERROR(CheckOperand(kind, field, id));
  return absl::OkStatus();
}

// s64 is what ids, seeds and offsets may be that a caller has, and nothing else.
constexpr const char* kMayBeS64 =
    "which only ids of a gather or scatter and the seed and offset of a random may be";

absl::Status ChainBuilder::CheckIds(absl::string_view kind, const Op& op,
                                    const absl::StatusOr<TensorType>& type) const {
  constexpr const char* kWayOut = ", as an input or a view of one: use s32";
  if (IsView(op)) return absl::OkStatus();
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (TypeOf(op.operands[i]).dtype != DType::kS64) continue;
    if ((op.kind == OpKind::kGather || op.kind == OpKind::kScatter) && i == 1) continue;
    if (op.kind == OpKind::kRandom) continue;
    return Error(kind, absl::StrCat("dtype of operand ", i, " is s64, ", kMayBeS64, kWayOut));
  }
  if (op.kind == OpKind::kInput || !type.ok() || type->dtype != DType::kS64) {
    return absl::OkStatus();
  }
  return Error(kind, absl::StrCat("dtype is s64, ", kMayBeS64, kWayOut));
}

absl::StatusOr<ValueId> ChainBuilder::Add(absl::string_view kind, Op op,
                                          absl::StatusOr<TensorType> type) {
  SINTER_RETURN_IF_ERROR(CheckIds(kind, op, type));
  if (!type.ok()) return Error(kind, type.status());
  if (size() >= kMaxOps) return Error(kind, absl::StrCat("a chain has at most ", kMaxOps, " ops"));
  op.type = *std::move(type);
  ops_.push_back(std::move(op));
  return size() - 1;
}

absl::StatusOr<ValueId> ChainBuilder::Input(const TensorType& type, const InputOptions& options) {
  if (absl::Status status = CheckType(type); !status.ok()) return Error("input", status);
  absl::StatusOr<std::vector<Stride>> strides =
      ResolveStrides(type.dims, options.strides, StrideUse::kInput);
  if (!strides.ok()) return Error("input", strides.status());
  if (!IsGoodName(options.name)) {
    return Error("input", "name must have at most 128 characters, all of printable ASCII");
  }
  const absl::Status more = CheckOneMore(input_names_.size(), outputs_.size());
  if (!more.ok()) return Error("input", more);
  Op op = MakeOp(OpKind::kInput, {});
  op.strides = *std::move(strides);
  op.constant = options.constant;
  op.input = static_cast<int32_t>(input_names_.size());
  SINTER_ASSIGN_OR_RETURN(ValueId id, Add("input", std::move(op), type));
  input_names_.push_back(options.name);
  return id;
}

absl::StatusOr<ValueId> ChainBuilder::Scalar(double value, DType dtype) {
  absl::StatusOr<double> rounded = RoundScalar(value, dtype);
  if (!rounded.ok()) return Error("scalar", rounded.status());
  Op op = MakeOp(OpKind::kScalar, {});
  op.scalar = *rounded;
  return Add("scalar", std::move(op), TensorType{dtype, {}});
}

absl::StatusOr<ValueId> ChainBuilder::Iota(const std::vector<Dim>& dims, int axis, DType dtype) {
  Op op = MakeOp(OpKind::kIota, {});
  op.axis = axis;
  return Add("iota", std::move(op), InferIota({dtype, dims}, axis));
}

absl::StatusOr<ValueId> ChainBuilder::Matmul(ValueId a, ValueId b, bool transpose_a,
                                             bool transpose_b) {
  SINTER_RETURN_IF_ERROR(CheckOperands("matmul", {{"a", a}, {"b", b}}));
  Op op = MakeOp(OpKind::kMatmul, {a, b});
  op.transpose_a = transpose_a;
  op.transpose_b = transpose_b;
  return Add("matmul", std::move(op), InferMatmul(TypeOf(a), TypeOf(b), transpose_a, transpose_b));
}

absl::StatusOr<ValueId> ChainBuilder::ScaledMatmul(ValueId a, ValueId w, ValueId scale_a,
                                                   ValueId scale_w, Accumulate accumulate) {
  constexpr const char* kKind = "scaled_matmul";
  SINTER_RETURN_IF_ERROR(
      CheckOperands(kKind, {{"a", a}, {"w", w}, {"scale_a", scale_a}, {"scale_w", scale_w}}));
  Op op = MakeOp(OpKind::kScaledMatmul, {a, w, scale_a, scale_w});
  absl::StatusOr<TensorType> type =
      InferScaledMatmul(TypeOf(a), TypeOf(w), TypeOf(scale_a), TypeOf(scale_w), accumulate);
  // One spelling of sums that end before they are promoted.
  if (type.ok() && TypeOf(a).dims[1].value > kScaleBlock) op.accumulate = accumulate;
  return Add(kKind, std::move(op), std::move(type));
}

absl::StatusOr<ValueId> ChainBuilder::GroupedMatmul(ValueId a, ValueId w, ValueId ids,
                                                    bool transpose_b) {
  return AddGrouped(a, w, ids, false, transpose_b);
}

absl::StatusOr<ValueId> ChainBuilder::GroupedMatmulByEnds(ValueId a, ValueId w, ValueId ends,
                                                          bool transpose_b) {
  return AddGrouped(a, w, ends, true, transpose_b);
}

absl::StatusOr<ValueId> ChainBuilder::AddGrouped(ValueId a, ValueId w, ValueId groups, bool by_ends,
                                                 bool transpose_b) {
  constexpr const char* kKind = "grouped_matmul";
  const char* const field = by_ends ? "ends" : "ids";
  SINTER_RETURN_IF_ERROR(CheckOperands(kKind, {{"a", a}, {"w", w}, {field, groups}}));
  if (OpOf(groups).constant) {
    return Error(kKind, InvalidField(field, "a constant",
                                     "an input that is not a constant, or a value of the chain",
                                     ": groups change with each launch"));
  }
  Op op = MakeOp(OpKind::kGroupedMatmul, {a, w, groups});
  op.transpose_b = transpose_b;
  const auto infer = by_ends ? InferGroupedMatmulByEnds : InferGroupedMatmul;
  return Add(kKind, std::move(op), infer(TypeOf(a), TypeOf(w), TypeOf(groups), transpose_b));
}

absl::StatusOr<ValueId> ChainBuilder::ScaledGroupedMatmul(ValueId a, ValueId w, ValueId ids,
                                                          ValueId scale_a, ValueId scale_w) {
  constexpr const char* kKind = "scaled_grouped_matmul";
  SINTER_RETURN_IF_ERROR(CheckOperands(
      kKind, {{"a", a}, {"w", w}, {"ids", ids}, {"scale_a", scale_a}, {"scale_w", scale_w}}));
  if (OpOf(ids).constant) {
    return Error(kKind, InvalidField("ids", "a constant", "an input or a value of the chain"));
  }
  Op op = MakeOp(OpKind::kGroupedMatmul, {a, w, ids, scale_a, scale_w});
  op.transpose_b = true;
  return Add(kKind, std::move(op),
             InferScaledGroupedMatmul(TypeOf(a), TypeOf(w), TypeOf(ids), TypeOf(scale_a),
                                      TypeOf(scale_w)));
}

absl::StatusOr<ValueId> ChainBuilder::AllReduce(ValueId x, int32_t ranks) {
  SINTER_RETURN_IF_ERROR(CheckOperand("all_reduce", "x", x));
  return AddCollective(OpKind::kAllReduce, x, -1, ranks, InferAllReduce(TypeOf(x), ranks));
}

absl::StatusOr<ValueId> ChainBuilder::AllGather(ValueId x, int axis, int32_t ranks) {
  SINTER_RETURN_IF_ERROR(CheckOperand("all_gather", "x", x));
  return AddCollective(OpKind::kAllGather, x, axis, ranks, InferAllGather(TypeOf(x), axis, ranks));
}

absl::StatusOr<ValueId> ChainBuilder::ReduceScatter(ValueId x, int axis, int32_t ranks) {
  SINTER_RETURN_IF_ERROR(CheckOperand("reduce_scatter", "x", x));
  return AddCollective(OpKind::kReduceScatter, x, axis, ranks,
                       InferReduceScatter(TypeOf(x), axis, ranks));
}

absl::StatusOr<ValueId> ChainBuilder::AddCollective(OpKind kind, ValueId x, int axis, int32_t ranks,
                                                    absl::StatusOr<TensorType> type) {
  const absl::string_view name = NameOf(kind);
  if (ranks == 1) {  // one spelling of a chain on one GPU
    return Add(name, MakeOp(OpKind::kCast, {x}), std::move(type));
  }
  for (ValueId id = size(); type.ok() && id-- > 0;) {
    if (!IsCollective(OpOf(id))) continue;
    if (OpOf(id).ranks == ranks) break;
    return Error(name, absl::StrCat("ranks is ", ranks, ", of op ", id, " (", NameOf(OpOf(id)),
                                    ") ", OpOf(id).ranks, ": a chain is split over one group"));
  }
  Op op = MakeOp(kind, {x});
  op.axis = axis;
  op.ranks = ranks;
  return Add(name, std::move(op), std::move(type));
}

absl::StatusOr<ValueId> ChainBuilder::Convolve(ValueId x, ValueId w, const Conv2d& conv) {
  SINTER_RETURN_IF_ERROR(CheckOperands("conv2d", {{"x", x}, {"w", w}}));
  Op op = MakeOp(OpKind::kConv2d, {x, w});
  op.conv = conv;
  absl::StatusOr<TensorType> type = InferConv2d(TypeOf(x), TypeOf(w), conv);
  for (int axis = 0; type.ok() && axis < 2; ++axis) {
    const int64_t taps = TypeOf(w).dims[conv.height_axis() + axis].value;
    if (taps == 1) op.conv.dilations[axis] = 1;  // one spelling of one tap
  }
  return Add("conv2d", std::move(op), std::move(type));
}

absl::StatusOr<ValueId> ChainBuilder::Window(ValueId x, ValueId fill,
                                             const std::array<int64_t, 2>& taps,
                                             const Conv2d& conv) {
  SINTER_RETURN_IF_ERROR(CheckOperands("window", {{"x", x}, {"fill", fill}}));
  Op op = MakeOp(OpKind::kWindow, {x, fill});
  op.conv = conv;
  op.conv.filter = Conv2d().filter;
  op.conv.groups = 1;
  op.taps = taps;
  absl::StatusOr<TensorType> type = InferWindow(TypeOf(x), TypeOf(fill), taps, op.conv);
  for (int axis = 0; axis < 2; ++axis) {
    if (taps[axis] == 1) op.conv.dilations[axis] = 1;  // one spelling of one tap
  }
  return Add("window", std::move(op), std::move(type));
}

absl::StatusOr<ValueId> ChainBuilder::Unary(UnaryKind kind, ValueId a) {
  if (absl::Status s = CheckEnum(kind); !s.ok()) return Error("unary", s);
  SINTER_RETURN_IF_ERROR(CheckOperand(NameOf(kind), "a", a));
  Op op = MakeOp(OpKind::kUnary, {a});
  op.unary = kind;
  return Add(NameOf(kind), std::move(op), InferUnary(kind, TypeOf(a)));
}

absl::StatusOr<ValueId> ChainBuilder::Binary(BinaryKind kind, ValueId a, ValueId b) {
  if (absl::Status s = CheckEnum(kind); !s.ok()) return Error("binary", s);
  SINTER_RETURN_IF_ERROR(CheckOperands(NameOf(kind), {{"a", a}, {"b", b}}));
  Op op = MakeOp(OpKind::kBinary, {a, b});
  op.binary = kind;
  return Add(NameOf(kind), std::move(op), InferBinary(kind, TypeOf(a), TypeOf(b)));
}

absl::StatusOr<ValueId> ChainBuilder::Compare(CompareKind kind, ValueId a, ValueId b) {
  if (absl::Status s = CheckEnum(kind); !s.ok()) return Error("compare", s);
  SINTER_RETURN_IF_ERROR(CheckOperands(NameOf(kind), {{"a", a}, {"b", b}}));
  Op op = MakeOp(OpKind::kCompare, {a, b});
  op.compare = kind;
  return Add(NameOf(kind), std::move(op), InferCompare(kind, TypeOf(a), TypeOf(b)));
}

absl::StatusOr<ValueId> ChainBuilder::Select(ValueId condition, ValueId a, ValueId b) {
  SINTER_RETURN_IF_ERROR(CheckOperands("select", {{"condition", condition}, {"a", a}, {"b", b}}));
  return Add("select", MakeOp(OpKind::kSelect, {condition, a, b}),
             InferSelect(TypeOf(condition), TypeOf(a), TypeOf(b)));
}

absl::StatusOr<ValueId> ChainBuilder::Cast(ValueId a, DType dtype) {
  SINTER_RETURN_IF_ERROR(CheckOperand("cast", "a", a));
  return Add("cast", MakeOp(OpKind::kCast, {a}), InferCast(TypeOf(a), dtype));
}

absl::StatusOr<ValueId> ChainBuilder::Broadcast(ValueId a, const std::vector<Dim>& dims) {
  SINTER_RETURN_IF_ERROR(CheckOperand("broadcast", "a", a));
  return Add("broadcast", MakeOp(OpKind::kBroadcast, {a}), InferBroadcast(TypeOf(a), dims));
}

absl::StatusOr<ValueId> ChainBuilder::Transpose(ValueId a,
                                                const std::vector<int32_t>& permutation) {
  SINTER_RETURN_IF_ERROR(CheckOperand("transpose", "a", a));
  Op op = MakeOp(OpKind::kTranspose, {a});
  op.axes = permutation;
  return Add("transpose", std::move(op), InferTranspose(TypeOf(a), permutation));
}

absl::StatusOr<ValueId> ChainBuilder::Reshape(ValueId a, const std::vector<Dim>& dims) {
  SINTER_RETURN_IF_ERROR(CheckOperand("reshape", "a", a));
  return Add("reshape", MakeOp(OpKind::kReshape, {a}), InferReshape(TypeOf(a), dims));
}

absl::StatusOr<ValueId> ChainBuilder::Slice(ValueId a, const std::vector<int64_t>& starts,
                                            const std::vector<Dim>& limits,
                                            const std::vector<int64_t>& steps) {
  SINTER_RETURN_IF_ERROR(CheckOperand("slice", "a", a));
  Op op = MakeOp(OpKind::kSlice, {a});
  op.starts = starts;
  op.steps = steps.empty() ? std::vector<int64_t>(starts.size(), 1) : steps;
  absl::StatusOr<TensorType> type = InferSlice(TypeOf(a), starts, limits, op.steps);
  for (size_t i = 0; type.ok() && i < op.steps.size(); ++i) {
    if (type->dims[i] == Dim::Constant(1)) op.steps[i] = 1;  // one spelling of one element
  }
  return Add("slice", std::move(op), std::move(type));
}

absl::StatusOr<ValueId> ChainBuilder::Concat(absl::Span<const ValueId> operands, int axis) {
  if (operands.empty() || operands.size() > kMaxConcat) {
    return Error("concat", InvalidFields("operands", operands.size(),
                                         absl::StrCat("in [1, ", kMaxConcat, "]")));
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i < operands.size(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckOperand("concat", absl::StrCat("operand ", i), operands[i]));
    types.push_back(TypeOf(operands[i]));
  }
  Op op = MakeOp(OpKind::kConcat, {operands.begin(), operands.end()});
  op.axis = axis;
  return Add("concat", std::move(op), InferConcat(types, axis));
}

absl::StatusOr<ValueId> ChainBuilder::Gather(ValueId x, ValueId ids, int axis) {
  SINTER_RETURN_IF_ERROR(CheckOperands("gather", {{"x", x}, {"ids", ids}}));
  Op op = MakeOp(OpKind::kGather, {x, ids});
  op.axis = axis == -1 ? std::max(0, TypeOf(x).rank() - 1) : axis;
  absl::StatusOr<TensorType> type = InferGather(TypeOf(x), TypeOf(ids), op.axis);
  return Add("gather", std::move(op), std::move(type));
}

absl::StatusOr<ValueId> ChainBuilder::Scatter(ValueId x, ValueId ids, ValueId rows) {
  SINTER_RETURN_IF_ERROR(CheckOperands("scatter", {{"x", x}, {"ids", ids}, {"rows", rows}}));
  return Add("scatter", MakeOp(OpKind::kScatter, {x, ids, rows}),
             InferScatter(TypeOf(x), TypeOf(ids), TypeOf(rows)));
}

absl::StatusOr<ValueId> ChainBuilder::TopK(ValueId x, int64_t count) {
  SINTER_RETURN_IF_ERROR(CheckOperand("top_k", "x", x));
  return Add("top_k", MakeOp(OpKind::kTopK, {x}), InferTopK(TypeOf(x), count));
}

absl::StatusOr<ValueId> ChainBuilder::Scan(ReduceKind kind, ValueId x) {
  if (absl::Status s = CheckEnum(kind); !s.ok()) return Error("scan", s);
  SINTER_RETURN_IF_ERROR(CheckOperand("scan", "x", x));
  Op op = MakeOp(OpKind::kScan, {x});
  op.reduce = kind;
  return Add("scan", std::move(op), InferScan(kind, TypeOf(x)));
}

absl::StatusOr<ValueId> ChainBuilder::Random(const std::vector<Dim>& dims, ValueId seed,
                                             ValueId offset) {
  SINTER_RETURN_IF_ERROR(CheckOperands("random", {{"seed", seed}, {"offset", offset}}));
  return Add("random", MakeOp(OpKind::kRandom, {seed, offset}),
             InferRandom(dims, TypeOf(seed), TypeOf(offset)));
}

absl::StatusOr<ValueId> ChainBuilder::Reduce(ReduceKind kind, ValueId a,
                                             const std::vector<int32_t>& axes, bool keepdims) {
  if (absl::Status s = CheckEnum(kind); !s.ok()) return Error("reduce", s);
  SINTER_RETURN_IF_ERROR(CheckOperand("reduce", "a", a));
  Op op = MakeOp(OpKind::kReduce, {a});
  op.reduce = kind;
  op.keepdims = keepdims;
  op.axes = axes;
  std::sort(op.axes.begin(), op.axes.end());
  absl::StatusOr<TensorType> type = InferReduce(kind, TypeOf(a), op.axes, keepdims);
  return Add("reduce", std::move(op), std::move(type));
}

// Replaces convolutions of one tap by products with the filter as a matrix.
absl::Status ChainBuilder::MakeProducts() {
  const ValueId count = size();
  for (ValueId id = 0; id < count; ++id) {
    Op& op = ops_[id];
    if (op.kind != OpKind::kConv2d || !IsProduct(op.conv, TypeOf(op.operands[1]))) continue;
    const TensorType& w = TypeOf(op.operands[1]);
    const bool ohwi = op.conv.filter == FilterLayout::kOHWI;
    Op matrix = MakeOp(OpKind::kReshape, {op.operands[1]});
    op.kind = OpKind::kMatmul;
    op.operands[1] = size();
    op.transpose_b = ohwi;
    op.conv = {};
    const std::vector<Dim> dims{w.dims[ohwi ? 0 : 2], w.dims[3]};
    SINTER_RETURN_IF_ERROR(Add("reshape", std::move(matrix), TensorType{w.dtype, dims}).status());
  }
  return absl::OkStatus();
}

absl::Status ChainBuilder::CheckAlias(absl::string_view where, const ChainOutput& out,
                                      ValueId alias) const {
  const auto bad = [&](const auto&... args) { return Invalid(where, ": alias ", args...); };
  if (!Contains(alias) || OpOf(alias).kind != OpKind::kInput) {
    return bad("is value ", alias, ", must be an input");
  }
  const Op& input = OpOf(alias);
  if (input.constant) return bad("is value ", alias, ", a constant input, which is never written");
  if (input.type != TypeOf(out.value) || input.strides != out.strides) {
    return bad("is ", ToString(input.type), " with strides ",
               ToString(absl::MakeConstSpan(input.strides)), ", the output ",
               ToString(TypeOf(out.value)), " with strides ",
               ToString(absl::MakeConstSpan(out.strides)), ": must be equal");
  }
  for (const ChainOutput& other : outputs_) {
    if (other.alias_input == input.input) return bad("is value ", alias, ", taken already");
  }
  return absl::OkStatus();
}

absl::Status ChainBuilder::Output(ValueId value, const OutputOptions& options) {
  const std::string where = absl::StrCat("output ", outputs_.size());
  if (outputs_.size() >= kMaxOutputs) {
    return Invalid(where, ": a chain has at most ", kMaxOutputs, " outputs");
  }
  const absl::Status more = CheckOneMore(input_names_.size(), outputs_.size());
  if (!more.ok()) return Annotate(more, where);
  if (!Contains(value)) {
    return InvalidField(absl::StrCat(where, ": value"), value,
                        absl::StrCat("one of the ", size(), " added"));
  }
  if (TypeOf(value).dtype == DType::kS64) {
    return Invalid(where, ": value ", value, " is s64, ", kMayBeS64);
  }
  ChainOutput out;
  out.value = value;
  absl::StatusOr<std::vector<Stride>> strides =
      ResolveStrides(TypeOf(value).dims, options.strides, StrideUse::kOutput);
  if (!strides.ok()) return Annotate(strides.status(), where);
  out.strides = *std::move(strides);
  if (options.alias != -1) {
    SINTER_RETURN_IF_ERROR(CheckAlias(where, out, options.alias));
    out.alias_input = OpOf(options.alias).input;
  }
  outputs_.push_back(std::move(out));
  return absl::OkStatus();
}

BuilderTransaction::BuilderTransaction(ChainBuilder& builder)
    : builder_(builder),
      ops_(builder.ops_.size()),
      outputs_(builder.outputs_.size()),
      names_(builder.input_names_.size()) {}

BuilderTransaction::~BuilderTransaction() {
  if (committed_) return;
  builder_.ops_.resize(ops_);
  builder_.outputs_.resize(outputs_);
  builder_.input_names_.resize(names_);
}

}  // namespace sinter
