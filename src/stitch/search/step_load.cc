// What the steps of rows cost besides their elements: src/device/stitch/row_steps.cuh.
#include "src/base/numbers.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

// Instructions of a thread: to join the lanes of a unit's only warp, or of one of several, to read
// the result of another warp, to compare two words of a top_k, and to add its candidates.
constexpr int kInstructionsOfWarpJoin = 3, kInstructionsOfJoin = 12, kInstructionsOfWarp = 3,
              kInstructionsOfComparison = 4, kInstructionsOfCandidates = 100;
// Meetings that take as long as a join, which waits for its lanes' exchanges.
constexpr int kMeetingsOfJoin = 4;
// A quarter is the time in which a thread compares so many words, or takes one of its keys: that of
// a meeting of a warp. A block's takes four. Others are what candidates wait for, and what each
// warp adds to the meetings of a top_k.
constexpr int kQuarters = 4, kComparedOfQuarter = 4, kQuartersOfCandidates = 30;

// A top_k compares the words of groups, then those of candidates, which are seldom more. A row of
// no more keys than groups has candidates only.
struct Comparisons {
  int rounds = 0;
  int64_t words = 0;  // of a round, of which each is compared with all
  int meetings = 0;
};

Comparisons ComparisonsOf(const Chain& body, const Op& top_k) {
  const int64_t keys = body.op(top_k.operands[0]).type.dims.back().value;
  const int64_t groups = GroupsOfRow(top_k);
  return keys <= groups ? Comparisons{1, keys, 3} : Comparisons{2, groups, 5};
}

bool ComparesWords(const Op& step) {
  return step.kind == OpKind::kTopK && step.type.dims.back().value > 1;
}

// How often a unit's threads join what they have, for a step that does not compare words.
int JoinsOf(const Chain& body, const Op& step) {
  if (step.kind == OpKind::kTopK) return 2;
  const int64_t tiles =
      CeilDiv(body.op(step.operands[0]).type.dims.back().value, int64_t{kWarpLanes});
  return tiles > 1 ? 2 * static_cast<int>(CeilDiv(tiles, int64_t{kWarpLanes})) : 0;
}

}  // namespace

int MeetingsOfStep(const Chain& body, const Op& step, int unit_threads) {
  if (!ComparesWords(step)) return 2 + kMeetingsOfJoin * JoinsOf(body, step);
  const auto [rounds, words, meetings] = ComparisonsOf(body, step);
  const int64_t keys = body.op(step.operands[0]).type.dims.back().value;
  const int64_t quarters = rounds * CeilDiv(words, int64_t{kComparedOfQuarter}) +
                           CeilDiv(keys, int64_t{unit_threads}) + unit_threads / kWarpLanes +
                           (rounds - 1) * kQuartersOfCandidates;
  const int of_meeting = unit_threads > kWarpLanes ? kQuarters : 1;
  return meetings + static_cast<int>(CeilDiv(quarters, int64_t{of_meeting}));
}

double InstructionsOfSteps(const Chain& body, const StitchSchedule& schedule) {
  const int warps = schedule.unit_threads / kWarpLanes;
  const int of_join =
      warps == 1 ? kInstructionsOfWarpJoin : kInstructionsOfJoin + kInstructionsOfWarp * warps;
  double instructions = 0;
  for (const Op& op : body.ops()) {
    if (op.kind != OpKind::kTopK) continue;
    if (!ComparesWords(op)) {
      instructions += JoinsOf(body, op) * of_join;
      continue;
    }
    const auto [rounds, words, meetings] = ComparisonsOf(body, op);
    instructions += static_cast<double>(kInstructionsOfComparison * rounds * words * words) /
                        schedule.unit_threads +
                    (rounds - 1) * kInstructionsOfCandidates;
  }
  return instructions;
}

}  // namespace sinter
