// Subgraph: one value of a chain, and the ops that lead to it from operands that lie in memory.
// MatchPattern: whether it computes what a small chain says.
#ifndef SINTER_SRC_CHAIN_SUBGRAPH_H_
#define SINTER_SRC_CHAIN_SUBGRAPH_H_

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "src/chain/chain.h"

namespace sinter {

// The first output of the chain with `value`; -1.
int OutputOf(const Chain& chain, ValueId value);
// How `value` lies where a kernel stores it: an input as the caller has it, an output as the first
// one of it, any other value without gaps.
std::vector<Stride> StridesInMemory(const Chain& chain, ValueId value);

// Reads as a chain of one output whose inputs are the operands, under the numbers of the whole
// chain, which outlives it.
class Subgraph {
 public:
  // What leads to the first output: operand i is canonical input i.
  explicit Subgraph(const Chain& chain);
  // What leads to `result`, which lies in memory as `type` with `strides`. AddOperand says from
  // where on; every input of the chain that is reached must be added.
  Subgraph(const Chain& chain, ValueId result, const TensorType& type, std::vector<Stride> strides);

  // `value` is read as `dtype`, with `strides`. Its number is that of operands added before.
  // Precondition: it is no operand yet.
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
// Compares op kinds, attributes and scalars, not dims and dtypes; add, mul, max and min match with
// their operands swapped too. Patterns are small: the search is exhaustive.
bool MatchPattern(const Subgraph& graph, ValueId value, const Chain& pattern,
                  const std::function<bool(const std::vector<ValueId>& values)>& accept);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_SUBGRAPH_H_
