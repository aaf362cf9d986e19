// Text kinds of quantisation and of products of what is quantised.
#ifndef SINTER_SRC_CHAIN_PROBLEM_SCALED_H_
#define SINTER_SRC_CHAIN_PROBLEM_SCALED_H_

#include "src/chain/problem_kinds.h"

namespace sinter {

KindSpec QuantizeKind();
KindSpec RmsNormQuantizeKind();
KindSpec ScaledGatedFfnKind();
KindSpec ScaledGemmChainKind();
KindSpec ScaledMatmulKind();

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_PROBLEM_SCALED_H_
