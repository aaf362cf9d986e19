#include "src/reference/rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/chain/buckets.h"

namespace sinter::reference {
namespace {

constexpr int64_t kElementsPerPass = int64_t{8} << 20;
constexpr int64_t kLeastRows = 64;

int CountM(const std::vector<Dim>& dims) {
  return static_cast<int>(
      std::count_if(dims.begin(), dims.end(), [](Dim dim) { return dim.symbolic; }));
}

// Elements behind the M axis in one row-major step of it.
int64_t ElementsBehindM(const std::vector<Dim>& dims) {
  int64_t count = 1;
  for (size_t i = dims.size(); i-- > 0 && !dims[i].symbolic;) count *= dims[i].value;
  return count;
}

bool Mixes(const Chain& chain, const Op& op) {
  if (CountM(op.type.dims) > 1) return true;
  if (op.operands.empty()) return false;
  const std::vector<Dim>& in = chain.op(op.operands[0]).type.dims;
  switch (op.kind) {
    case OpKind::kMatmul:
      return in[in.size() - (op.transpose_a ? 2 : 1)].symbolic;
    case OpKind::kReduce:
      return std::any_of(op.axes.begin(), op.axes.end(),
                         [&](int32_t axis) { return in[axis].symbolic; });
    case OpKind::kReshape:
      return CountM(in) == 1 && ElementsBehindM(in) != ElementsBehindM(op.type.dims);
    case OpKind::kGather:
    case OpKind::kScatter:
      return MixesRowsByIds(chain, op);
    default:
      return false;
  }
}

}  // namespace

std::string WhyRowsMix(const Chain& chain) {
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    const Op& op = chain.ops()[id];
    if (Mixes(chain, op)) {
      return absl::StrCat("op ", id, " (", NameOf(op), ") : ", ToString(op.type),
                          " mixes rows of M");
    }
  }
  return "";
}

int64_t RowsPerPass(const Chain& chain, int64_t rows) {
  int64_t widest = 1;
  for (const Op& op : chain.ops()) {
    if (CountM(op.type.dims) == 0 || op.kind == OpKind::kInput) continue;
    int64_t elements = 1;
    for (Dim dim : op.type.dims) elements *= dim.symbolic ? 1 : dim.value;
    widest = std::max(widest, elements);
  }
  return std::min(std::max<int64_t>(rows, 1), std::max(kLeastRows, kElementsPerPass / widest));
}

}  // namespace sinter::reference
