// Chains that the explorer's tests fuse, and a stand-in for the latency-evaluator.
#pragma once

#include "src/chain/builder.h"
#include "src/fusion/stitch/evaluators.h"
#include "tests/support/chips.h"
#include "tests/support/common.h"

namespace sinter::testing {

// Adds ops with short names; fails the test on an error.
class Graph {
 public:
  ValueId In(DType dtype, std::vector<int64_t> dims, bool constant = false);
  ValueId Const(double value);
  ValueId Un(UnaryKind kind, ValueId a);
  ValueId Bin(BinaryKind kind, ValueId a, ValueId b);
  ValueId Add(ValueId a, ValueId b) { return Bin(BinaryKind::kAdd, a, b); }
  ValueId Sub(ValueId a, ValueId b) { return Bin(BinaryKind::kSub, a, b); }
  ValueId Mul(ValueId a, ValueId b) { return Bin(BinaryKind::kMul, a, b); }
  ValueId Cast(ValueId a, DType dtype);
  ValueId Spread(ValueId a, ValueId like);
  ValueId Reduce(ReduceKind kind, ValueId a, int axis, bool keepdims = true);
  ValueId Mean(ValueId a, int axis) { return Reduce(ReduceKind::kMean, a, axis); }
  ValueId Matmul(ValueId a, ValueId b, bool transpose_b = true);
  void Out(ValueId a, const OutputOptions& options = {});
  Chain Finish();
  ChainBuilder& builder() { return builder_; }

 private:
  ValueId Take(absl::StatusOr<ValueId> id);
  ChainBuilder builder_;
};

// w, m, v f32 and g bf16 of each size; outputs m', v', w' aliasing their inputs, and w' in bf16.
Chain AdamOver(const std::vector<int64_t>& sizes);

// Random memory-intensive DAG of about `ops` ops over one [rows, cols] space: element-wise ops,
// row and column means spread again. Values stay finite. Operands are among the last `window`
// values: the fewer, the longer the graph. `products`: of 100 ops so many are matmuls (rows =
// cols).
Chain RandomDag(uint32_t seed, int ops, int64_t rows, int64_t cols, int window = 12,
                int products = 0);

// `layers` of pre-norm transformer glue around products that are in the way: about 55 ops each.
Chain TransformerGlue(int layers, int64_t rows, int64_t hidden);

// Bytes in and out at an HBM's pace and a launch; refuses a body for which `refuse` gives a reason.
class SimpleCosts : public StitchCosts {
 public:
  using Refusal = std::function<std::string(const Chain&)>;
  explicit SimpleCosts(Refusal refuse = nullptr) : refuse_(std::move(refuse)) {}
  absl::StatusOr<double> LatencyUs(const Chain& body) override;
  int asked() const { return asked_; }

 private:
  Refusal refuse_;
  int asked_ = 0;
};

}  // namespace sinter::testing
