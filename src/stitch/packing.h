// Kernel packing: ranges of one kernel's blocks compute independent parts of its body, each part by
// a schedule of its own. Blocks of different parts never wait for one another.
#ifndef SINTER_SRC_STITCH_PACKING_H_
#define SINTER_SRC_STITCH_PACKING_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/chain/chain.h"
#include "src/stitch/schedule.h"

namespace sinter {

struct StitchBudget;  // body_work.h

constexpr int kMostParts = 128;

struct StitchPart {
  std::vector<int> outputs;  // of the body: what the part computes, ascending
  StitchSchedule schedule;   // its grid: the part's own blocks
  bool operator==(const StitchPart& o) const {
    return outputs == o.outputs && schedule == o.schedule;
  }
};

// A part as a body of its own, and where it comes from.
struct PartBody {
  Chain body;
  std::vector<ValueId> ops;  // of the whole, by op of the part
  std::vector<int> inputs;   // of the whole, as the part's
};
absl::StatusOr<PartBody> ExtractPart(const Chain& body, const std::vector<int>& outputs);

// Outputs in groups that nothing computed connects, by their first one. What is computed from a few
// elements of inputs alone connects nothing: each part that needs it computes it. An input whose
// place an output takes belongs to one group.
std::vector<std::vector<int>> IndependentOutputs(const Chain& body);

// The launch of all parts: their threads, the fewest blocks an SM that one of them asks for, the
// sum of their blocks. Precondition: there is a part.
StitchSchedule PackedSchedule(const std::vector<StitchPart>& parts);

// What CheckPart asks of the schedule alone.
absl::Status CheckPartFields(const StitchSchedule& schedule);

// FAILED_PRECONDITION unless the blocks that compute `body` by `schedule` can be a part: one
// program of one phase, no clusters, so that they know nothing of each other; nothing handed over,
// whose slots would be laid out for one part alone.
// `budget` may be null.
absl::Status CheckPart(const Chain& body, const StitchSchedule& schedule,
                       StitchBudget* budget = nullptr);

// FAILED_PRECONDITION unless the parts give every output once, `schedule` is their launch,
// CheckPart takes each of them, and none reads an input whose place another's output takes.
// What is cheap is checked first. `budget` may be null.
absl::Status CheckParts(const Chain& body, const StitchSchedule& schedule,
                        const std::vector<StitchPart>& parts, StitchBudget* budget = nullptr);

// "packing 60 parts: 58 x (vec 4 chunks 2), (unit 32 vec 8 keep)".
std::string PartsText(const std::vector<StitchPart>& parts);

void WriteParts(const std::vector<StitchPart>& parts, ByteWriter& writer);
// DATA_LOSS on damage; CheckParts is the caller's.
absl::StatusOr<std::vector<StitchPart>> ReadParts(ByteReader& reader);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PACKING_H_
