// LinearFinder: which values of a graph are a product with an operand's matrix, and what is done to
// it before an activation.
#ifndef SINTER_SRC_CHAIN_LINEAR_FINDER_H_
#define SINTER_SRC_CHAIN_LINEAR_FINDER_H_

#include <vector>

#include "src/chain/activation.h"
#include "src/chain/subgraph.h"

namespace sinter {

// scale * factor * (x W) * columns + bias, as found: `x` is any value, the others are numbers of
// operands, -1 when absent.
struct Linear {
  ValueId x = -1;
  int weight = -1, bias = -1;
  Layout layout = Layout::kOI;
  bool transposed = false;  // x is [k, rows]
  double scale = 1;
  int factor = -1;   // a number of each row
  int columns = -1;  // a number of each column
  // In the factor's place 1 / sqrt(mean of the squares of a row of x + eps); -1 when absent.
  double norm_eps = -1;
  // A product of codes, and the numbers of what dequantises x and the weight.
  ValueId codes = -1;
  int scale_x = -1, scale_w = -1;
  ValueId conv = -1;  // a convolution with the weight as its filter, in place of the product
};

// 1 / sqrt(mean of the squares of a row of `rows` + eps), as found.
struct RowNorm {
  ValueId rows = -1;
  double eps = 0;
  std::vector<ValueId> values;  // that compute it, each behind those that use it
};

// The graph outlives the finder.
class LinearFinder {
 public:
  explicit LinearFinder(const Subgraph& graph) : graph_(graph) {}

  // Below casts that lose nothing: to f32 from a narrower floating type, and to what a value is.
  // The latter of an input is a copy of it, which stays.
  ValueId SkipWidening(ValueId id) const;

  // Number of the operand at `id`, -1 when it is none.
  int InputAt(ValueId id) const { return graph_.op(SkipWidening(id)).input; }

  // An input of the dims of `sum`, one of whose operands is `id`; -1 otherwise.
  int ResidualAt(ValueId id, const Op& sum) const;

  // Number of the vector operand that `id` spreads over the rows, -1 when it is none. One number
  // spread over all is none.
  int VectorAt(ValueId id) const;

  // The [m, 1] operand of a broadcast that `id` spreads over columns; -1 when it is none.
  ValueId SpreadColumnAt(ValueId id) const;

  // The operand of [m, 1] or [m] that a column is, by number; -1 when it is computed.
  int FactorAt(ValueId column) const;

  // Whether `column` is such a norm.
  bool NormAt(ValueId column, RowNorm* found) const;

  // Whether `id` is a product with a matrix input, scaled or not, with or without bias. A factor
  // counts on either side of the product: (r x) W is r (x W), and nothing is rounded between, or a
  // cast would stand there.
  bool LinearAt(ValueId id, Linear* found) const;

  // What a multiplication by a scalar or by a column spread over columns, or a division by a
  // scalar, multiplies; -1 when `id` is none of these. Of a column `*column` becomes its number.
  ValueId SkipScale(ValueId id, double* scale, ValueId* column) const;

 private:
  bool TakeColumn(ValueId column, Linear* found, RowNorm* norm) const;
  bool ScaledAt(ValueId id, Linear* found) const;
  ValueId SkipScales(ValueId id, Linear* found, RowNorm* norm) const;
  ValueId SkipColumns(ValueId id, Linear* found) const;
  bool ProductAt(const Op& op, Linear* found) const;
  bool ScaledProductAt(ValueId id, Linear* found) const;
  int BelowReshapes(ValueId id) const;
  bool ConvolutionAt(ValueId id, Linear* found) const;
  void TakeFactorOfRows(Linear* found, RowNorm* norm) const;

  const Subgraph& graph_;
};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_LINEAR_FINDER_H_
