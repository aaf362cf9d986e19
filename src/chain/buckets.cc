#include "src/chain/buckets.h"

#include <algorithm>

namespace sinter {
namespace {

// Rows of a product for each index of the first axis; 1 of what is no product of rows by a matrix.
int64_t RowsPerM(const Chain& chain, const Op& op) {
  const bool matrix =
      op.kind == OpKind::kConv2d ||
      (op.kind == OpKind::kMatmul && !op.transpose_a && chain.op(op.operands[1]).type.rank() == 2);
  if (!matrix || (chain.UsesM() && !op.type.dims[0].symbolic)) return 1;
  int64_t rows = 1;
  for (int i = 1; i + 1 < op.type.rank(); ++i) {
    const Dim dim = op.type.dims[static_cast<size_t>(i)];
    rows *= dim.symbolic ? 1 : dim.value;
  }
  return rows;
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

}  // namespace sinter
