// Refusal: what the caller of a chain that cannot be planned is told.
#ifndef SINTER_SRC_FUSION_REFUSAL_H_
#define SINTER_SRC_FUSION_REFUSAL_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/fusion/product_runs.h"

namespace sinter {

// `why`, or in its place what is the matter with the products that no kernel takes: each as "op 4
// (matmul of 'x' and 'w'): 'x' is f32[M,64], .. : cast it to bf16", with the caller's names of the
// inputs, "input 0" for those without one, and the way out. An operand that is computed is told
// with the inputs below it. `products` are those of the chain.
absl::Status Refusal(const Chain& chain, const ProductRuns& products, const absl::Status& why);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_REFUSAL_H_
