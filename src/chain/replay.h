// Replay: adds an Op that someone wrote down (bytes or JSON) through the builder that validates it.
#ifndef SINTER_SRC_CHAIN_REPLAY_H_
#define SINTER_SRC_CHAIN_REPLAY_H_

#include "absl/status/statusor.h"
#include "src/chain/builder.h"

namespace sinter {

// Uses what `op`'s kind needs of it; op.type matters where it is not inferred (input, scalar, iota,
// cast, broadcast, reshape, slice) and must equal the inferred type elsewhere when `check_type`.
// Wrong operand counts are errors.
absl::StatusOr<ValueId> Replay(ChainBuilder& builder, const Op& op, bool check_type = true);

// The limits of a slice: the least that give its result.
std::vector<Dim> SliceLimits(const Op& op);

// Operands that a kind takes; -1 when any number from 1. A grouped_matmul with scales has two more.
int OperandCount(OpKind kind);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_REPLAY_H_
