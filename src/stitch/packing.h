// Kernel packing: ranges of a kernel's blocks compute independent parts of its body, each by its
// own schedule. Blocks of different parts never wait for one another.
#ifndef SINTER_SRC_STITCH_PACKING_H_
#define SINTER_SRC_STITCH_PACKING_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/chain/chain.h"
#include "src/stitch/schedule.h"

namespace sinter {

struct StitchBudget;   // body_work.h
struct StitchProgram;  // program.h

constexpr int kMostParts = 128;

struct StitchPart {
  std::vector<int> outputs;  // of the body, computed by the part; ascending
  StitchSchedule schedule;   // grid: the blocks of the part alone
  bool operator==(const StitchPart& o) const {
    return outputs == o.outputs && schedule == o.schedule;
  }
};

// A part as a body, and the ops and inputs of the whole that it has.
struct PartBody {
  Chain body;
  std::vector<ValueId> ops;  // of the whole, by op of the part
  std::vector<int> inputs;   // of the whole, as the part's
};
absl::StatusOr<PartBody> ExtractPart(const Chain& body, const std::vector<int>& outputs);

// Groups of outputs without a computed value in common, ordered by their first output. Values
// computed from a few elements of inputs do not connect outputs: each part computes them itself. An
// input whose buffer an output takes belongs to one group.
std::vector<std::vector<int>> IndependentOutputs(const Chain& body);

// The common launch: the parts' threads, the fewest blocks an SM of any part, the sum of their
// blocks. Precondition: `parts` is not empty.
StitchSchedule PackedSchedule(const std::vector<StitchPart>& parts);

// The checks of CheckPart that need only the schedule.
absl::Status CheckPartFields(const StitchSchedule& schedule);

// FAILED_PRECONDITION unless the blocks that compute `body` by `schedule` can be a part: one phase
// and no clusters, so that parts are independent; no hand-overs, because slots would be laid out
// for one part alone. `budget` may be null; so may `also`, which says what else the part must be.
using PartCheck =
    std::function<absl::Status(const Chain&, const StitchProgram&, const StitchSchedule&)>;
absl::Status CheckPart(const Chain& body, const StitchSchedule& schedule,
                       StitchBudget* budget = nullptr, const PartCheck& also = nullptr);

// FAILED_PRECONDITION unless the parts compute every output once, `schedule` is their common
// launch, CheckPart accepts each of them, and no part reads an input whose buffer another part's
// output takes. Cheap checks come first; each part's program is made once.
absl::Status CheckParts(const Chain& body, const StitchSchedule& schedule,
                        const std::vector<StitchPart>& parts, StitchBudget* budget = nullptr,
                        const PartCheck& also = nullptr);

// "packing 60 parts: 58 x (vec 4 chunks 2), (unit 32 vec 8 keep)".
std::string PartsText(const std::vector<StitchPart>& parts);

void WriteParts(const std::vector<StitchPart>& parts, ByteWriter& writer);
// DATA_LOSS on damage; the caller runs CheckParts.
absl::StatusOr<std::vector<StitchPart>> ReadParts(ByteReader& reader);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PACKING_H_
