// CUDA C++ of a packed kernel: ranges of blocks for its parts. Parts of one text share it: they
// differ in pointers and sizes, which each range of blocks takes for itself.
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
