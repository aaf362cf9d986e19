#include "src/chain/chain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sinter {

std::vector<int32_t> Chain::CallerOrder() const {
  std::vector<int32_t> result(input_order_.size());
  for (size_t i = 0; i < input_order_.size(); ++i) {
    result[input_order_[i]] = static_cast<int32_t>(i);
  }
  return result;
}

bool Chain::Has(OpKind kind) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const Op& op) { return op.kind == kind; });
}

std::vector<int> Chain::UseCounts() const {
  std::vector<int> counts(ops_.size(), 0);
  for (const Op& op : ops_) {
    for (ValueId id : op.operands) ++counts[id];
  }
  for (const ChainOutput& out : outputs_) ++counts[out.value];
  return counts;
}

Dim Chain::FactorsOf(const Op& op) const {
  const std::vector<Dim>& in = ops_[op.operands[0]].type.dims;
  if (op.kind == OpKind::kMatmul) return in[in.size() - (op.transpose_a ? 2 : 1)];
  int64_t factors = in.back().value;
  if (op.kind == OpKind::kScaledMatmul || op.kind == OpKind::kGroupedMatmul) {
    return Dim::Constant(factors);
  }
  const std::vector<Dim>& w = ops_[op.operands[1]].type.dims;
  factors = w[op.conv.in_axis()].value;
  for (int axis : {0, 1}) factors *= w[op.conv.height_axis() + axis].value;
  return Dim::Constant(factors);
}

double Chain::MatmulFlops(int64_t m) const {
  double flops = 0;
  for (const Op& op : ops_) {
    const bool other = op.kind == OpKind::kScaledMatmul || op.kind == OpKind::kGroupedMatmul;
    if (op.kind != OpKind::kMatmul && op.kind != OpKind::kConv2d && !other) continue;
    double product = 2.0 * static_cast<double>(FactorsOf(op).At(m));
    for (Dim dim : op.type.dims) product *= static_cast<double>(dim.At(m));
    flops += product;
  }
  return flops;
}

std::string Chain::ToString() const {
  std::string text;
  for (size_t i = 0; i < ops_.size(); ++i) {
    const Op& op = ops_[i];
    absl::StrAppend(&text, i, " ", NameOf(op));
    if (op.kind == OpKind::kReduce) absl::StrAppend(&text, " ", NameOf(op.reduce));
    if (op.kind == OpKind::kScalar) absl::StrAppend(&text, " ", op.scalar);
    for (ValueId id : op.operands) absl::StrAppend(&text, " ", id);
    if (op.accumulate == Accumulate::kFast) absl::StrAppend(&text, " accumulate=fast");
    if (op.ranks > 1) absl::StrAppend(&text, " ranks=", op.ranks);
    absl::StrAppend(&text, " : ", sinter::ToString(op.type), "\n");
  }
  for (const ChainOutput& out : outputs_) absl::StrAppend(&text, "output ", out.value, "\n");
  return text;
}

std::string NameOfValue(const Chain& chain, ValueId id) {
  const Op& op = chain.op(id);
  if (op.kind != OpKind::kInput) return absl::StrCat("op ", id, " (", NameOf(op), ")");
  const int32_t input = chain.InputOrder()[static_cast<size_t>(op.input)];
  const std::string& name = chain.InputName(input);
  return name.empty() ? absl::StrCat("input ", input) : absl::StrCat("'", name, "'");
}

}  // namespace sinter
