// CUDA C++ of a packed kernel: a range of blocks for each part. Parts that differ only in pointers
// and sizes share one text; each range of blocks takes its own pointers and sizes.
#ifndef SINTER_SRC_STITCH_CODE_PACKED_SOURCE_H_
#define SINTER_SRC_STITCH_CODE_PACKED_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/stitch/code.h"

namespace sinter {

// Parameters: the body's inputs, its outputs, m. Precondition: CheckParts.
// FAILED_PRECONDITION when a part's vectors cannot express it.
absl::StatusOr<std::string> PackedSource(const StitchCode& code);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_PACKED_SOURCE_H_
