// FfnView: one or two products seen as an FFN: what one kernel can take (products_view.h: any
// number of them).
#ifndef SINTER_SRC_CHAIN_FFN_VIEW_H_
#define SINTER_SRC_CHAIN_FFN_VIEW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "src/chain/activation.h"
#include "src/chain/chain.h"
#include "src/chain/products_view.h"

namespace sinter {

// products 2: E = C W2 + b2 with C = act(A W1 + b1), or gated C = act(A Wg + bg) * (A Wu + bu).
// products 1: E = C alone (l is 0; w2, b2 absent). E is cast to dtype. C may carry a cast to dtype:
// `rounds_c`. With a residual R is added to E: the result is E + R. Each product may be scaled by a
// constant and a number of each row, as products_view.h has it.
struct FfnView {
  bool gated = false;
  int products = 0;
  Dim m;
  int64_t n = 0, k = 0, l = 0;
  Activation act = Activation::kIdentity;
  bool bias1 = false, bias2 = false;
  Layout layout = Layout::kOI;
  DType dtype = DType::kBF16;  // of all inputs but factors, and of the output
  bool rounds_c =
      false;  // the chain rounds C to dtype explicitly; without it C may be rounded at most once

  bool rounds_e = false;  // the chain rounds E to dtype before it adds the residual

  // Canonical input indices; -1 when absent. w1 and b1 are gate's when gated.
  int a = -1, w1 = -1, w_up = -1, b1 = -1, b_up = -1, w2 = -1, b2 = -1, residual = -1;
  int factor1 = -1, factor2 = -1;
  DType factor1_dtype = DType::kF32, factor2_dtype = DType::kF32;
  double scale1 = 1, scale2 = 1;
  int output = 0;  // index among the chain's outputs
  // Row strides in elements of the tensors as stored (innermost stride is always 1); 0 when absent.
  int64_t ld_a = 0, ld_w1 = 0, ld_w_up = 0, ld_w2 = 0, ld_residual = 0, ld_out = 0;
  bool contiguous = true;        // every row stride equals the row length
  bool weights_constant = true;  // weights and biases are all marked constant

  int64_t OutputColumns() const { return products == 2 ? l : n; }
};

// From the primitives, never from names. INVALID_ARGUMENT says why the chain is not of this form.
absl::StatusOr<FfnView> ViewAsFfn(const Chain& chain);

// The same chain as a sequence of products. Precondition: ViewAsFfn made `view`.
ProductsView ProductsOf(const FfnView& view);

// "gated_ffn m=M n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16": a line that ParseProblem
// reads back; but for residuals, scales and factors, which have no text kind and are told as
// " + residual", " scale1=0.5", " factor1=1".
std::string ToString(const FfnView& view);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_FFN_VIEW_H_
