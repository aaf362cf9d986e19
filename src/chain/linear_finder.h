// LinearFinder: which values of a graph are a product with an operand's matrix, and the ops applied
// to it before an activation.
#ifndef SINTER_SRC_CHAIN_LINEAR_FINDER_H_
#define SINTER_SRC_CHAIN_LINEAR_FINDER_H_

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "src/chain/chain.h"
#include "src/chain/choices.h"
#include "src/chain/composites.h"

namespace sinter {

// Subgraph: one value of a chain, and the ops that lead to it from operands that lie in memory.
// MatchPattern: whether it computes what a small chain says.

// The first output of the chain with `value`; -1.
int OutputOf(const Chain& chain, ValueId value);
// The other operand of `id`, a binary op of `kind` that has `operand` once; -1 if `id` has another
// form, or is -1 itself.
ValueId OtherOperand(const Chain& chain, ValueId id, BinaryKind kind, ValueId operand);
// Below a cast to f32 of 16 bits.
ValueId BelowWidening(const Chain& chain, ValueId id);
// How `value` lies where a kernel stores it: an input as the caller has it, an output as the first
// one of it, any other value without gaps.
std::vector<Stride> StridesInMemory(const Chain& chain, ValueId value);

// Reads as a chain of one output whose inputs are the operands, under the numbers of the whole
// chain, which outlives it.
class Subgraph {
 public:
  // The ops that lead to the first output: operand i is canonical input i.
  explicit Subgraph(const Chain& chain);
  // The ops that lead to `result`, which lies in memory as `type` with `strides`. AddOperand says
  // from where on; every input of the chain that is reached must be added.
  Subgraph(const Chain& chain, ValueId result, const TensorType& type, std::vector<Stride> strides);

  // `value` is read as `dtype`, with `strides`. Its number is the count of operands added before.
  // Precondition: it is not an operand yet.
  void AddOperand(ValueId value, DType dtype, std::vector<Stride> strides);

  // A value that leads to the result lies in memory too, as `type` with `strides`.
  void AddAux(ValueId value, const TensorType& type, std::vector<Stride> strides) {
    aux_.push_back({value, type, std::move(strides)});
  }

  struct Aux {
    ValueId value = -1;
    TensorType type;
    std::vector<Stride> strides;
  };
  const std::vector<Aux>& aux() const { return aux_; }

  ValueId result() const { return result_; }
  const TensorType& result_type() const { return type_; }
  const std::vector<Stride>& result_strides() const { return strides_; }

  // An op of the chain; of an operand an input, whatever computes it there.
  const Op& op(ValueId id) const {
    const auto own = own_.find(id);
    return own == own_.end() ? chain_.op(id) : own->second;
  }
  const std::vector<ValueId>& operands() const { return operands_; }
  const Op& operand(int i) const { return op(operands_[static_cast<size_t>(i)]); }

 private:
  const Chain& chain_;
  const ValueId result_;
  const TensorType type_;
  const std::vector<Stride> strides_;
  std::vector<Aux> aux_;
  std::vector<ValueId> operands_;
  std::map<ValueId, Op> own_;  // operands that were added, as inputs
};

// Tries every way in which `value` of `graph` is the first output of `pattern`, with pattern's
// canonical input i bound to values[i], until `accept(values)` says yes; returns whether it did.
// Compares op kinds, attributes and scalars, and with `types` dims and dtypes of all but inputs;
// add, mul, max and min match with their operands swapped too. Patterns are small: the search is
// exhaustive.
bool MatchPattern(const Subgraph& graph, ValueId value, const Chain& pattern,
                  const std::function<bool(const std::vector<ValueId>& values)>& accept,
                  bool types = false);

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
  std::vector<ValueId> values;  // that compute it, each after its users
};

// The graph outlives the finder.
class LinearFinder {
 public:
  explicit LinearFinder(const Subgraph& graph) : graph_(graph) {}

  // Below casts that lose nothing: to f32 from a narrower floating type, and to what a value is.
  // The latter of an input is a copy of it, which stays.
  ValueId SkipWidening(ValueId id) const;

  // Number of the operand at `id`, -1 if it is not an operand.
  int InputAt(ValueId id) const { return graph_.op(SkipWidening(id)).input; }

  // An input of the dims of `sum`, one of whose operands is `id`; -1 otherwise.
  int ResidualAt(ValueId id, const Op& sum) const;

  // Number of the vector operand that `id` spreads over the rows; -1 if there is none, or if `id`
  // spreads one number over all.
  int VectorAt(ValueId id) const;

  // The [m, 1] operand of a broadcast that `id` spreads over columns; -1 if there is none.
  ValueId SpreadColumnAt(ValueId id) const;

  // The operand of [m, 1] or [m] that a column is, by number; -1 when it is computed.
  int FactorAt(ValueId column) const;

  // Whether `column` is such a norm.
  bool NormAt(ValueId column, RowNorm* found) const;

  // Whether `id` is a product with a matrix input, scaled or not, with or without bias. A factor
  // counts on either side of the product: (r x) W is r (x W), and nothing is rounded between, or a
  // cast would stand there.
  bool LinearAt(ValueId id, Linear* found) const;

  // The value that is multiplied by a scalar or by a column spread over columns, or divided by a
  // scalar; -1 when `id` does neither. For a column `*column` becomes its number.
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

// QuantizerFinder: which values of a graph are e4m3 codes of another, as AddQuantize makes them.

// A quantiser of groups of 128 columns, or of one given scale.
struct FoundQuantizer {
  ValueId x = -1;       // the quantised value
  QuantizeSpec rule;    // kGroup or kStatic; of kStatic with the value of its scale
  ValueId limits = -1;  // of groups: their largest magnitudes, within the bounds
};

// Whether `codes` is the result of such a quantiser. Reads primitives: any spelling of the same
// ops.
bool QuantizerAt(const Subgraph& graph, ValueId codes, FoundQuantizer* found);

// Whether `value` is the scale of the groups that `quantizer` quantises.
bool IsScaleOfGroups(const Subgraph& graph, const FoundQuantizer& quantizer, ValueId value);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_LINEAR_FINDER_H_
