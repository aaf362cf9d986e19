// How long a body may be written out.
#ifndef SINTER_SRC_FUSION_STITCH_BODY_LENGTH_H_
#define SINTER_SRC_FUSION_STITCH_BODY_LENGTH_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"

namespace sinter {

// Ops of a body, written again for each concatenation, are no more than what a compiler takes in a
// second or two; else FAILED_PRECONDITION.
absl::Status CheckBodyLength(const Chain& body);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_BODY_LENGTH_H_
