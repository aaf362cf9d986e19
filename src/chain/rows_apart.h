// Whether each row of a chain's results is made of that row of its inputs alone.
#ifndef SINTER_SRC_CHAIN_ROWS_APART_H_
#define SINTER_SRC_CHAIN_ROWS_APART_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"

namespace sinter {

// OK where every op keeps the dimension M of its operands: index i of it in the result is made of
// index i of it in each operand that has it. Else FAILED_PRECONDITION naming the first op that does
// not: one that reduces over M, contracts it, or has M twice.
absl::Status CheckRowsApart(const Chain& chain);

// Whether `op` takes rows by ids from all M of them, or writes M rows or among them.
bool MixesRowsByIds(const Chain& chain, const Op& op);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_ROWS_APART_H_
