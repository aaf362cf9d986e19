// Bodies that the stitch family's unit tests share.
#pragma once

#include "tests/support/chips.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter::testing {

inline Chain FromText(const char* line) { return Got(ParseProblem(line)).chain; }

// x - mean(x) down the columns, then row sums of that.
inline Chain ColumnsThenRows(int64_t rows, int64_t columns) {
  return ReadChain(
      "x: f32[$0,$1]; centred = x - spread(mean(x, 0, keep), x); out centred, sum(centred, 1)",
      ExtentText(rows), columns);
}

// The ops of a kind, in their order.
inline std::vector<ValueId> OpsOf(const Chain& chain, OpKind kind) {
  std::vector<ValueId> ops;
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    if (chain.op(static_cast<ValueId>(id)).kind == kind) ops.push_back(static_cast<ValueId>(id));
  }
  return ops;
}

// The reduction of `kind` over `axis` that comes first; -1.
inline ValueId FirstReduction(const Chain& chain, int32_t axis) {
  for (const ValueId id : OpsOf(chain, OpKind::kReduce)) {
    if (chain.op(id).axes == std::vector<int32_t>{axis}) return id;
  }
  return -1;
}

}  // namespace sinter::testing
