// Needs: the sub-roots that a root reads, found by following it to the inputs through all
// recomputed values.
#ifndef SINTER_SRC_STITCH_NEEDS_H_
#define SINTER_SRC_STITCH_NEEDS_H_

#include <cstdint>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/stitch/body_work.h"
#include "src/stitch/program.h"

namespace sinter {

struct Needs {
  std::set<ValueId> subs;   // of the same unit: row reductions, segments, handed-over values
  std::set<ValueId> own;    // handed-over values that are read at the root's own element
  int phase = 0;            // the first phase in which all columns that it reads are ready
  ValueId made_again = -1;  // a segment that lanes of other elements have joined; -1: none
};

// Loop variables at a root, and its loop's elements; unit -1: the root has no unit.
struct RootLoop {
  IndexVar unit = -1, element = -1;
  int64_t elements = 1;
};

// `columns`: the phase of each column reduction. FAILED_PRECONDITION naming the op that the root
// cannot reach, or at which `work` exceeds a bound.
absl::StatusOr<Needs> NeedsOf(const Chain& body, const StitchProgram& program,
                              const StitchRoot& root, const Position& at, const RootLoop& loop,
                              const std::map<ValueId, int>& columns, IndexSpace& space,
                              BodyWork& work);

// FAILED_PRECONDITION: "op 3 (matmul): why".
absl::Status RefuseOp(ValueId id, const Op& op, absl::string_view why);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_NEEDS_H_
