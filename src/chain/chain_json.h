// JSON of any chain, both ways. Schema: docs/chains.md.
#ifndef SINTER_SRC_CHAIN_CHAIN_JSON_H_
#define SINTER_SRC_CHAIN_CHAIN_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/chain/chain.h"

namespace sinter {

constexpr int kChainJsonSchema = 1;

// Two-space indented, one op per line, keys in fixed order, newline at the end. Keeps the caller's
// input order and names.
std::string ChainToJson(const Chain& chain);
// INVALID_ARGUMENT naming the JSON path ("ops[3].transpose_a: must be true or false") or the
// builder's error. Unknown keys are errors. Input is untrusted: nesting is limited, sizes are
// bounded.
absl::StatusOr<Chain> ChainFromJson(absl::string_view json);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_CHAIN_JSON_H_
