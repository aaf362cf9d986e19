// Matcher: a chain that is a sequence of products, recognised from its primitives.
#ifndef SINTER_SRC_PRODUCT_MATCHER_H_
#define SINTER_SRC_PRODUCT_MATCHER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/product/sequence.h"

namespace sinter {

// Where the operands of one product lie: canonical inputs of the chain, -1 when absent, and row
// strides in elements as stored, 0 when absent. `weights` and `bias` are gate's in a pair.
struct ProductInputs {
  int weights = -1, weights_up = -1, bias = -1, bias_up = -1;
  int factor = -1;    // [m] or [m, 1], one number behind the other
  int residual = -1;  // of the result's dims
  int64_t weights_stride = 0, weights_up_stride = 0, residual_stride = 0;
  bool rounds = false;  // the chain rounds the result explicitly; without it the result may be
                        // rounded at most once. The last one always is: it is the output
};

// Invariants: all weights are of one layout; every operand but a factor is of one element, and so
// is the output.
struct MatchedSequence {
  ProductSequence sequence;                    // its m is the caller's
  Dim m;                                       // of the chain: the first dim of the rows
  std::vector<ProductInputs> inputs;           // by product
  int rows = -1;                               // canonical input: what the first product reads
  int output = 0;                              // index among the chain's outputs
  int64_t rows_stride = 0, output_stride = 0;  // in elements; the innermost stride is always 1
  bool contiguous = true;                      // every row stride equals the row length
  bool weights_constant = true;                // weights and biases are all marked constant

  int size() const { return sequence.size(); }
  const ProductInputs& InputsOf(int product) const { return inputs[static_cast<size_t>(product)]; }
};

// From the primitives, never from names. `m`: what the sequence is for. INVALID_ARGUMENT says why
// the chain is not of this form.
absl::StatusOr<MatchedSequence> MatchProducts(const Chain& chain, int64_t m = 0);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_MATCHER_H_
