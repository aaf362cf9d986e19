// Bounds the length of a body's source.
#ifndef SINTER_SRC_FUSION_STITCH_BODY_LENGTH_H_
#define SINTER_SRC_FUSION_STITCH_BODY_LENGTH_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"

namespace sinter {

// FAILED_PRECONDITION when the ops of a body, counted again for each concatenation, would take a
// compiler more than a second or two.
absl::Status CheckBodyLength(const Chain& body);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_BODY_LENGTH_H_
