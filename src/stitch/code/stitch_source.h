// CUDA C++ of one kernel of the stitch family.
#ifndef SINTER_SRC_STITCH_CODE_STITCH_SOURCE_H_
#define SINTER_SRC_STITCH_CODE_STITCH_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/stitch/spec.h"

namespace sinter {

constexpr char kStitchEntry[] = "sinter_stitch";
// The device library's headers that the source of a kernel of `body` includes.
std::vector<std::string> StitchHeaders(const Chain& body);

// Parameters: body inputs, body outputs, then with more than one phase the scratch and the
// barrier's counter, then m. FAILED_PRECONDITION when the schedule's vectors cannot express the
// body. Precondition: the code is not packed.
absl::StatusOr<std::string> StitchSource(const StitchCode& code);

// CUDA C++ of a packed kernel: a range of blocks for each part. Parts that differ only in pointers
// and sizes share one text; each range of blocks takes its own pointers and sizes.

// Parameters: the body's inputs, its outputs, m. Precondition: CheckParts.
// FAILED_PRECONDITION when a part's vectors cannot express it.
absl::StatusOr<std::string> PackedSource(const StitchCode& code);

// INVALID_ARGUMENT when operands are missing or misplaced, FAILED_PRECONDITION when the parts of a
// packed kernel do not go together. Precondition: the code's family is kStitch.
absl::StatusOr<LaunchRecipe> StitchRecipe(const StitchCode& code, const StitchBinding& binding);

int64_t RowBytesOf(const TensorType& type, const std::vector<Stride>& strides);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_STITCH_SOURCE_H_
