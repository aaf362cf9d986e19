// The text kinds of convolutions.
#ifndef SINTER_SRC_CHAIN_PROBLEM_CONV_H_
#define SINTER_SRC_CHAIN_PROBLEM_CONV_H_

#include "src/chain/problem_kinds.h"

namespace sinter {

KindSpec ConvKind();       // "conv"
KindSpec ConvChainKind();  // "conv_chain"

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_PROBLEM_CONV_H_
