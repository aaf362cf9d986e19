#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/builder.h"

namespace sinter {
namespace {

absl::StatusOr<ValueId> Dispatch(ChainBuilder& b, const Op& op) {
  const std::vector<ValueId>& in = op.operands;
  switch (op.kind) {
    case OpKind::kInput:
      return b.Input(op.type, {op.constant, op.strides, ""});
    case OpKind::kScalar:
      return b.Scalar(op.scalar, op.type.dtype);
    case OpKind::kIota:
      return b.Iota(op.type.dims, op.axis, op.type.dtype);
    case OpKind::kMatmul:
      return b.Matmul(in[0], in[1], op.transpose_a, op.transpose_b);
    case OpKind::kScaledMatmul:
      return b.ScaledMatmul(in[0], in[1], in[2], in[3], op.accumulate);
    case OpKind::kGroupedMatmul:  // ends have one axis, ids two
      if (IsScaledGrouped(op)) return b.ScaledGroupedMatmul(in[0], in[1], in[2], in[3], in[4]);
      return b.Contains(in[2]) && b.TypeOf(in[2]).rank() == 1
                 ? b.GroupedMatmulByEnds(in[0], in[1], in[2], op.transpose_b)
                 : b.GroupedMatmul(in[0], in[1], in[2], op.transpose_b);
    case OpKind::kAllReduce:
      return b.AllReduce(in[0], op.ranks);
    case OpKind::kAllGather:
      return b.AllGather(in[0], op.axis, op.ranks);
    case OpKind::kReduceScatter:
      return b.ReduceScatter(in[0], op.axis, op.ranks);
    case OpKind::kConv2d:
      return b.Convolve(in[0], in[1], op.conv);
    case OpKind::kUnary:
      return b.Unary(op.unary, in[0]);
    case OpKind::kBinary:
      return b.Binary(op.binary, in[0], in[1]);
    case OpKind::kCompare:
      return b.Compare(op.compare, in[0], in[1]);
    case OpKind::kSelect:
      return b.Select(in[0], in[1], in[2]);
    case OpKind::kCast:
      return b.Cast(in[0], op.type.dtype);
    case OpKind::kBroadcast:
      return b.Broadcast(in[0], op.type.dims);
    case OpKind::kTranspose:
      return b.Transpose(in[0], op.axes);
    case OpKind::kReshape:
      return b.Reshape(in[0], op.type.dims);
    case OpKind::kSlice:
      return b.Slice(in[0], op.starts, SliceLimits(op), op.steps);
    case OpKind::kConcat:
      return b.Concat(in, op.axis);
    case OpKind::kGather:
      return b.Gather(in[0], in[1], op.axis);
    case OpKind::kScatter:
      return b.Scatter(in[0], in[1], in[2]);
    case OpKind::kWindow:
      return b.Window(in[0], in[1], op.taps, op.conv);
    case OpKind::kTopK:
      return b.TopK(in[0], op.type.dims.empty() || op.type.dims.back().symbolic
                               ? 0
                               : op.type.dims.back().value);
    case OpKind::kScan:
      return b.Scan(op.reduce, in[0]);
    case OpKind::kRandom:
      return b.Random(op.type.dims, in[0], in[1]);
    case OpKind::kReduce:
      return b.Reduce(op.reduce, in[0], op.axes, op.keepdims);
  }
  return Internal("unreachable");
}

}  // namespace

int OperandCount(OpKind kind) {
  switch (kind) {
    case OpKind::kInput:
    case OpKind::kScalar:
    case OpKind::kIota:
      return 0;
    case OpKind::kMatmul:
    case OpKind::kConv2d:
    case OpKind::kBinary:
    case OpKind::kCompare:
    case OpKind::kGather:
    case OpKind::kWindow:
    case OpKind::kRandom:
      return 2;
    case OpKind::kSelect:
    case OpKind::kScatter:
    case OpKind::kGroupedMatmul:
      return 3;
    case OpKind::kScaledMatmul:
      return 4;
    case OpKind::kConcat:
      return -1;
    default:
      return 1;
  }
}

std::vector<Dim> SliceLimits(const Op& op) {
  std::vector<Dim> limits = op.type.dims;
  const size_t rank = std::min({limits.size(), op.starts.size(), op.steps.size()});
  for (size_t i = 0; i < rank; ++i) {
    if (limits[i].symbolic) continue;
    __int128 limit = op.starts[i] + (__int128{limits[i].value} - 1) * op.steps[i] + 1;
    if (limit < -1 || limit > kMaxExtent) limit = -1;  // refused by Slice
    limits[i] = Dim::Constant(static_cast<int64_t>(limit));
  }
  return limits;
}

absl::StatusOr<ValueId> Replay(ChainBuilder& builder, const Op& op, bool check_type) {
  const auto refuse = [&, at = builder.size()](const absl::Status& why) {
    return OfOp(at, NameOf(op), why);
  };
  if (!IsValid(op.kind)) {
    return refuse(Invalid("kind is ", static_cast<int>(op.kind), ", which does not exist"));
  }
  const int count = OperandCount(op.kind);
  if (count >= 0 && count != static_cast<int>(op.operands.size()) && !IsScaledGrouped(op)) {
    return refuse(InvalidFields(
        "operands", op.operands.size(),
        absl::StrCat(count, op.kind == OpKind::kGroupedMatmul ? ", or 5 with scales" : "")));
  }
  if (IsScaledGrouped(op) && !op.transpose_b) {
    return refuse(
        InvalidField("transpose_b", "false", "true with scales", ": w is [experts, n, k]"));
  }
  SINTER_ASSIGN_OR_RETURN(ValueId id, Dispatch(builder, op));
  if (check_type && builder.TypeOf(id) != op.type) {
    return refuse(InvalidField("type", ToString(op.type), ToString(builder.TypeOf(id))));
  }
  return id;
}

}  // namespace sinter
