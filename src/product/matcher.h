// Matcher: a chain, or a part of one, that is a sequence of products, recognised from its
// primitives.
#ifndef SINTER_SRC_PRODUCT_MATCHER_H_
#define SINTER_SRC_PRODUCT_MATCHER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/chain/subgraph.h"
#include "src/product/sequence.h"

namespace sinter {

// The operands of one product: their numbers, which in a whole chain are those of its canonical
// inputs, -1 when absent; and row strides in elements as stored, 0 when absent. `weights` and
// `bias` are gate's in a pair.
struct ProductInputs {
  int weights = -1, weights_up = -1, bias = -1, bias_up = -1;
  int factor = -1;    // [m] or [m, 1], one number behind the other
  int residual = -1;  // of the result's dims
  int64_t weights_stride = 0, weights_up_stride = 0, residual_stride = 0;
  bool rounds = false;  // the chain rounds the result explicitly; without it the result may be
                        // rounded at most once. The last one always is: it is the output
};

// A value that products read from memory, and as what it lies there.
struct ProductOperand {
  ValueId value = -1;  // of the chain
  TensorType type;
};

// Invariants: all weights are of one layout; every operand but a factor is of one element, and so
// is the output.
struct MatchedSequence {
  ProductSequence sequence;                    // its m is the caller's
  Dim m;                                       // of the chain: the first dim of the rows
  std::vector<ProductOperand> operands;        // by number
  std::vector<ProductInputs> inputs;           // by product
  int rows = -1;                               // number of what the first product reads
  int output = 0;                              // index among the chain's outputs
  int64_t rows_stride = 0, output_stride = 0;  // in elements; the innermost stride is always 1
  bool contiguous = true;                      // every row stride equals the row length
  bool weights_constant = true;                // weights and biases are all marked constant

  int size() const { return sequence.size(); }
  const ProductInputs& InputsOf(int product) const { return inputs[static_cast<size_t>(product)]; }
  const ProductOperand& OperandAt(int number) const {
    return operands[static_cast<size_t>(number)];
  }
  ValueId ValueOf(int number) const { return OperandAt(number).value; }
};

// From the primitives, never from names. INVALID_ARGUMENT says why the graph is not of this form.
absl::StatusOr<MatchedSequence> MatchProducts(const Subgraph& graph);
// Of a whole chain. `m`: what the sequence is for.
absl::StatusOr<MatchedSequence> MatchProducts(const Chain& chain, int64_t m = 0);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_MATCHER_H_
