// The buckets of M that plans of a chain are made for, and whether its rows are apart.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/chain/chain.h"

namespace sinter {
namespace {

// Rows of a GEMM for each index of the first axis; 1 if the op does not multiply rows by a matrix.
int64_t RowsPerM(const Chain& chain, const Op& op) {
  const bool matrix =
      op.kind == OpKind::kConv2d || op.kind == OpKind::kGroupedMatmul ||
      (op.kind == OpKind::kMatmul && !op.transpose_a && chain.op(op.operands[1]).type.rank() == 2);
  if (!matrix || (chain.UsesM() && !op.type.dims[0].symbolic)) return 1;
  int64_t rows = 1;
  for (int i = 1; i + 1 < op.type.rank(); ++i) {
    const Dim dim = op.type.dims[static_cast<size_t>(i)];
    rows *= dim.symbolic ? 1 : dim.value;
  }
  return rows;
}

int SymbolicDims(const TensorType& type) {
  return static_cast<int>(std::count_if(type.dims.begin(), type.dims.end(),
                                        [](const Dim& dim) { return dim.symbolic; }));
}

// Elements of the dims in front of M.
int64_t ElementsBeforeM(const TensorType& type) {
  int64_t elements = 1;
  for (int i = 0; i < SymbolicAxis(type.dims); ++i)
    elements *= type.dims[static_cast<size_t>(i)].value;
  return elements;
}

absl::Status Refuse(ValueId id, const Op& op, const std::string& why) {
  return OpRefused(id, " (", NameOf(op), ") ", why);
}

}  // namespace

int64_t LargestBucketOf(const Chain& chain) {
  int64_t rows = 1;
  for (const Op& op : chain.ops()) rows = std::max(rows, RowsPerM(chain, op));
  int64_t largest = kLargestBucket;
  while (largest > 1 && largest * rows > kMostRowsOfPass) largest = BucketBelow(largest);
  return largest;
}

int64_t BucketOf(const Chain& chain, int64_t m) {
  return BucketOf(std::min(m, LargestBucketOf(chain)));
}

bool MixesRowsByIds(const Chain& chain, const Op& op) {
  const auto has_m = [&](ValueId operand) { return SymbolicDims(chain.op(operand).type) > 0; };
  if (op.kind == OpKind::kScatter) {
    return std::any_of(op.operands.begin(), op.operands.end(), has_m);
  }
  return op.kind == OpKind::kGather && op.axis == 0 &&
         chain.op(op.operands[0]).type.dims[0].symbolic;
}

int LeadingRankOf(const Chain& chain, const Op& random) {
  return std::max(chain.op(random.operands[0]).type.rank(),
                  chain.op(random.operands[1]).type.rank());
}

absl::Status CheckRowsApart(const Chain& chain) {
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    const Op& op = chain.op(id);
    if (SymbolicDims(op.type) > 1) {
      return Refuse(id, op, absl::StrCat("has M more than once: ", ToString(op.type)));
    }
    for (const ValueId operand : op.operands) {
      const TensorType& from = chain.op(operand).type;
      if (SymbolicDims(from) == 0) continue;
      if (SymbolicDims(op.type) == 0) {
        return Refuse(id, op,
                      absl::StrCat("takes all rows of ", NameOfValue(chain, operand), ", ",
                                   ToString(from), ", together"));
      }
      if (MixesRowsByIds(chain, op)) {
        return Refuse(
            id, op,
            op.kind == OpKind::kGather
                ? absl::StrCat("takes rows from all of ", ToString(chain.op(op.operands[0]).type))
                : absl::StrCat("writes rows among all of ", ToString(op.type)));
      }
      if (op.kind == OpKind::kReshape && ElementsBeforeM(from) != ElementsBeforeM(op.type)) {
        return Refuse(id, op,
                      absl::StrCat("moves M from ", ToString(from), " to ", ToString(op.type)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace sinter
