// What errors call a value of a chain.
#ifndef SINTER_SRC_CHAIN_VALUE_NAME_H_
#define SINTER_SRC_CHAIN_VALUE_NAME_H_

#include <string>

#include "src/chain/chain.h"

namespace sinter {

// "'hidden'" where the caller named an input, else "input 2"; "op 3 (matmul)".
std::string NameOfValue(const Chain& chain, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_VALUE_NAME_H_
