// Needs: what a root reads of other sub-roots, found by following it to the inputs through
// everything that is recomputed.
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
  std::set<ValueId> subs;  // of the same unit: row reductions, segments, values handed over
  std::set<ValueId> own;   // handed over, but read at the root's own element
  int phase = 0;           // the first in which all columns that it reads are there
};

// Loop variables at a root, and the elements of its loop; unit -1: no unit owns the root.
struct RootLoop {
  IndexVar unit = -1, element = -1;
  int64_t elements = 1;
};

// `columns`: the phases of column reductions. FAILED_PRECONDITION naming the op that the root
// cannot reach, or with which `work` passes a bound.
absl::StatusOr<Needs> NeedsOf(const Chain& body, const StitchProgram& program,
                              const StitchRoot& root, const Position& at, const RootLoop& loop,
                              const std::map<ValueId, int>& columns, IndexSpace& space,
                              BodyWork& work);

// FAILED_PRECONDITION: "op 3 (matmul): why".
absl::Status RefuseOp(ValueId id, const Op& op, absl::string_view why);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_NEEDS_H_
