// ProductsView: a chain that is a sequence of products, each reading what the one before it wrote.
// What fusion partitions into kernels.
#ifndef SINTER_SRC_CHAIN_PRODUCTS_VIEW_H_
#define SINTER_SRC_CHAIN_PRODUCTS_VIEW_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/activation.h"
#include "src/chain/chain.h"

namespace sinter {

// X' = act(X W + b), or gated X' = act(X Wg + bg) * (X Wu + bu); with a residual, X' = that + R.
// Scaled, each X W is s r (X W) there: a constant s, and a number r of each row.
struct ProductStep {
  bool gated = false;
  Activation act = Activation::kIdentity;
  int64_t n = 0, k = 0;  // columns of X' and of X
  // Canonical input indices; -1 when absent. w and b are gate's when gated.
  int w = -1, w_up = -1, b = -1, b_up = -1;
  int64_t ld_w = 0, ld_w_up = 0;  // row strides in elements as stored; 0 when absent
  bool rounds = false;  // the chain rounds X' to dtype explicitly; without it X' may be rounded at
                        // most once. The last X' is always rounded: it is the output
  int residual = -1;    // R, [m, n]
  int64_t ld_residual = 0;           // its row stride
  bool rounds_sum = false;           // the chain rounds what R is added to, to dtype
  double scale = 1;                  // s: finite and not 0 as f32
  int factor = -1;                   // r, [m] or [m, 1], one number behind the other
  DType factor_dtype = DType::kF32;  // f32, or the view's dtype

  bool bias() const { return b >= 0; }
  bool has_factor() const { return factor >= 0; }
  bool has_residual() const { return residual >= 0; }
};

// Invariants: steps is not empty; steps[i].k == steps[i - 1].n; all weights are of one layout;
// every input but a factor is of dtype, and so is the output.
struct ProductsView {
  Dim m;
  Layout layout = Layout::kOI;
  DType dtype = DType::kBF16;
  std::vector<ProductStep> steps;
  int a = -1;                    // canonical input: the rows that the first product reads
  int output = 0;                // index among the chain's outputs
  int64_t ld_a = 0, ld_out = 0;  // row strides in elements (innermost stride is always 1)
  bool contiguous = true;        // every row stride equals the row length
  bool weights_constant = true;  // weights and biases are all marked constant

  int size() const { return static_cast<int>(steps.size()); }
};

constexpr int kMaxProducts = 64;  // of one chain

// From the primitives, never from names. INVALID_ARGUMENT says why the chain is not of this form.
absl::StatusOr<ProductsView> ViewAsProducts(const Chain& chain);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_PRODUCTS_VIEW_H_
