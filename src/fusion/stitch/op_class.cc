#include <algorithm>

#include "src/chain/op.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/stitch/program.h"

namespace sinter {
namespace {

// Elements of the leading axes up to the first for which `differs` is true.
template <typename Differs>
int64_t SharedPrefix(const std::vector<Dim>& dims, int64_t m, const Differs& differs) {
  int64_t units = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t extent = std::max<int64_t>(dims[i].At(m), 1);
    if (extent > 1 && differs(i)) return units;
    units *= extent;
  }
  return units;
}

int64_t BroadcastUnits(const std::vector<Dim>& from, const std::vector<Dim>& to, int64_t m) {
  const size_t missing = to.size() - from.size();
  return SharedPrefix(to, m, [&](size_t i) { return i < missing || from[i - missing] != to[i]; });
}

// Parts of a product that need one part of the operand: its batches, if it has any.
int64_t BatchUnits(const Op& product, const std::vector<Dim>& from, int64_t m) {
  const std::vector<Dim>& dims = product.type.dims;
  if (from.size() < dims.size()) return 1;
  const size_t batches = dims.size() - 2;
  return SharedPrefix(dims, m, [&](size_t i) { return i >= batches; });
}

}  // namespace

OpClass ClassOf(const Chain& chain, ValueId value) {
  const Op& op = chain.op(value);
  switch (op.kind) {
    case OpKind::kInput:
    case OpKind::kScalar:
    case OpKind::kIota:
      return OpClass::kSource;
    case OpKind::kMatmul:
      return IsFineGrained(chain, op) ? OpClass::kReduction : OpClass::kProduct;
    case OpKind::kScaledMatmul:
    case OpKind::kConv2d:
    case OpKind::kGroupedMatmul:
    case OpKind::kAllReduce:
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
      return OpClass::kProduct;
    case OpKind::kReduce:
    case OpKind::kTopK:
    case OpKind::kScan:
      return OpClass::kReduction;
    case OpKind::kRandom:
      return OpClass::kExpensive;
    case OpKind::kBroadcast:
    case OpKind::kTranspose:
    case OpKind::kReshape:
    case OpKind::kSlice:
      return OpClass::kView;
    case OpKind::kCast: {
      const DType from = chain.op(op.operands[0]).type.dtype;
      const bool rounds = IsFloat(from) && IsFloat(op.type.dtype) && op.type.dtype != DType::kF32;
      return SizeOf(from) <= SizeOf(op.type.dtype) && !rounds ? OpClass::kView : OpClass::kLight;
    }
    case OpKind::kUnary:
    case OpKind::kBinary:
      return TraitsOf(op).expensive ? OpClass::kExpensive : OpClass::kLight;
    case OpKind::kCompare:
    case OpKind::kSelect:
    case OpKind::kConcat:
    case OpKind::kGather:
    case OpKind::kScatter:
    case OpKind::kWindow:
      return OpClass::kLight;
  }
  return OpClass::kProduct;
}

int64_t ElementsOf(const Op& op, int64_t m) {
  int64_t count = 1;
  for (Dim dim : op.type.dims) count *= std::max<int64_t>(dim.At(m), 1);
  return count;
}

int64_t LocalUnits(const Chain& chain, const Op& op, size_t slot, int64_t m) {
  const Op& from = chain.op(op.operands[slot]);
  const std::vector<Dim>& dims = op.type.dims;
  switch (op.kind) {
    case OpKind::kBroadcast:
      return BroadcastUnits(from.type.dims, dims, m);
    case OpKind::kTranspose:
      return SharedPrefix(dims, m, [&](size_t i) { return op.axes[i] != static_cast<int32_t>(i); });
    case OpKind::kSlice:
      return SharedPrefix(dims, m, [&](size_t i) { return from.type.dims[i] != dims[i]; });
    case OpKind::kConcat:
      return SharedPrefix(dims, m, [&](size_t i) { return static_cast<int32_t>(i) == op.axis; });
    case OpKind::kMatmul:
      return BatchUnits(op, from.type.dims, m);
    case OpKind::kScaledMatmul:
    case OpKind::kAllGather:  // one part per rank
    case OpKind::kReduceScatter:
      return 1;
    case OpKind::kGroupedMatmul:  // rows are parts, with their scales; any matrix may be named, and
                                  // all rows read ends
      return slot == 1 || slot == 4 || (slot == 2 && IsByEnds(op)) || from.type.rank() == 0 ||
                     from.type.dims[0] != dims[0]
                 ? 1
                 : std::max<int64_t>(dims[0].At(m), 1);
    case OpKind::kGather:  // rows that take their own elements are parts; any row may be named
      return slot == 1 ? ElementsOf(from, m)
             : op.axis > 0
                 ? SharedPrefix(dims, m,
                                [&](size_t i) { return static_cast<int32_t>(i) == op.axis; })
                 : 1;
    case OpKind::kScatter:  // one part per row
      return slot == 0 ? 1 : ElementsOf(from, m);
    case OpKind::kConv2d:
    case OpKind::kWindow:  // each image is a part
      return slot == 0 ? std::max<int64_t>(dims[0].At(m), 1) : 1;
    default:  // elementwise, reshape; a reduction has its operand's parts
      return from.type.rank() == 0 ? 1 : ElementsOf(from, m);
  }
}

int64_t ReducedUnits(const Chain& chain, const Op& op, int64_t m) {
  const std::vector<Dim>& dims = chain.op(op.operands[0]).type.dims;
  if (TakesRow(op)) return SharedPrefix(dims, m, [&](size_t i) { return i + 1 == dims.size(); });
  return SharedPrefix(dims, m, [&](size_t i) {
    return std::find(op.axes.begin(), op.axes.end(), static_cast<int32_t>(i)) != op.axes.end();
  });
}

}  // namespace sinter
