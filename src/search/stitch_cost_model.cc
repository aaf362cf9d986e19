#include "src/search/stitch_cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/status.h"
#include "src/plan/stitch/sizes.h"
#include "src/search/column_cost.h"
#include "src/search/stitch_extents.h"

namespace sinter {
namespace {

// What measurements of about 650 schedules of 29 graphs say beside the device model; README.md.
constexpr double kCopyShare = 0.85;    // of the read rate, when a stream is also written
constexpr double kIssueShare = 1.2;    // of issue slots: two of the counted ones often become one
constexpr double kSpecialShare = 1.0;  // of the special function units' slots
constexpr double kReadUs = 0.5;        // a first read from memory
constexpr double kHeldUs = 0.03;       // from shared memory
constexpr double kReadAgainUs = 0.1;   // from L1 or L2
constexpr double kAlikeUs = 0.4;       // to keep what all units read alike, before the first unit
constexpr double kWarpJoinUs = 0.02, kBlockJoinUs = 0.23;  // a row reduction by a warp, by a block
constexpr double kWarpShareUs = 0.01, kBlockShareUs = 0.04;  // a meeting for what is handed over
constexpr double kClusterUs = 0.5, kClusterBlockUs = 0.12;   // to start clusters, and each block
constexpr double kStepUs = 0.02, kLongStepUs = 0.13;         // of a thread's own chain of reads
constexpr double kShortSteps = 8;                            // that are under way together
constexpr double kSplitJoinUs = 0.45;  // the third chain that lanes share, behind the others' joins
constexpr double kChainShare = 0.5;    // of a warp's issue slots, in a chain of its own
constexpr double kHiddenChain = 2000;  // instructions of such chains that other warps hide
constexpr double kIssueWarps = 8;      // that fill an SM's issue slots
constexpr double kPersistentLoss =
    0.05;  // blocks that take turns, against blocks that replace others
constexpr double kFewSms =
    1.3;  // of their share of the bandwidth; where all wait for the last: none
constexpr double kPhaseUs = 1.5;  // until reads are under way again behind a grid's barrier
constexpr double kMostApart = 2,
                 kGroupsApart = 4;  // of a block whose groups hide one another's work
constexpr double kPackUs = 0.1;     // until a block knows what it works for

// The blocks of a launch and how the work falls on them.
struct Spread {
  double turns = 0;     // of blocks (or clusters) together: each does `items` of work
  double items = 0;     // units of a turn; without units, elements
  double busy = 0;      // SMs with work
  double resident = 0;  // blocks at once
  double rounds = 0;    // that the resident blocks make
};

Spread SpreadOf(const StitchProgram& program, const StitchSchedule& s, int64_t bucket,
                const DeviceModel& model) {
  Spread spread;
  const double items = static_cast<double>(WorkItems(program, bucket));
  spread.items = program.owner >= 0 ? s.UnitsPerBlock()
                                    : double{1} * s.block_threads * s.vector * s.chunks / s.split;
  spread.turns = std::ceil(items / spread.items);
  const double groups = spread.turns * s.cluster;
  const double blocks = std::min(groups, static_cast<double>(s.grid));
  const int sms = s.column_cluster > 1 ? model.ResidentBlocks(s.column_cluster) : model.sm_count;
  spread.busy = std::min<double>(sms, blocks);
  spread.resident = std::min(s.blocks_per_sm * spread.busy, blocks);
  const double rounds = groups / spread.resident;
  // Blocks that replace others start when there is room; those of one launch wait for the slowest.
  spread.rounds = blocks < groups || rounds < 2 ? std::ceil(rounds) : rounds + 0.5;
  return spread;
}

// What a turn waits for its first reads, in the mean of all phases: where nothing waits inside a
// unit, the reads of several are under way together; what is held on chip is there.
double FirstReadUs(const Chain& body, const StitchProgram& program, const StitchSchedule& s) {
  double us = 0;
  for (size_t i = 0; i < program.phases.size(); ++i) {
    const bool held = i > 0 && s.hold_bytes > 0;
    const int units = program.owner < 0 ? 1 : UnitsAtOnce(body, s, program.phases[i]);
    us += (held ? kHeldUs : kReadUs) / units;
  }
  return us / static_cast<double>(program.phases.size());
}

// What one turn of a block takes when nothing else runs on its SM: its reads, then its
// instructions, then its row reductions.
double TurnUs(const Chain& body, const StitchProgram& program, const StitchSchedule& s,
              const StitchLoad& load, const Spread& spread, int64_t passes_turns,
              const DeviceModel& model) {
  const double phases = static_cast<double>(program.phases.size());
  const double share = 1 / (spread.turns * phases);
  const double filled =
      std::min<double>(s.cluster, s.block_threads / 32.0 * s.cluster / kIssueWarps);
  const double slots = model.clock_mhz * filled;
  const double issue = std::max({load.instructions * share / (128 * slots * kIssueShare),
                                 load.special * share / (16 * slots * kSpecialShare),
                                 load.shared_cycles * share / model.clock_mhz});
  const double bytes = (load.input_bytes + load.output_bytes + load.again_bytes) * share;
  const double moved = bytes / (model.sm_intake_bytes_per_us * s.cluster);
  // Blocks that stay are alone on their SM, and their groups do not wait for one another.
  const double apart = phases > 1 ? std::min(kMostApart, s.UnitsPerBlock() / kGroupsApart) : 1;
  const double join = (s.unit_threads > 32 ? kBlockJoinUs : kWarpJoinUs) +
                      (s.cluster > 1 ? model.cluster_barrier_us : 0);
  const double joins = std::max(0, load.levels - 1) * join +
                       load.meetings * (s.unit_threads > 32 ? kBlockShareUs : kWarpShareUs);
  const double again =
      s.keep_inputs || program.owner < 0
          ? 0
          : std::ceil(static_cast<double>(passes_turns) / kTurnsAtOnce) * load.levels - 1;
  return FirstReadUs(body, program, s) + again * kReadAgainUs + joins +
         (issue + moved) / std::max(1.0, apart);
}

// The 4-norm, of operations that round alike everywhere: plans are compared across machines.
double Norm(double a, double b, double c) {
  const double sum = a * a * a * a + b * b * b * b + c * c * c * c;
  return std::sqrt(std::sqrt(sum));
}

// Of a launch that keeps `share` of the SMs busy.
double HbmUs(double bytes, double share, const DeviceModel& model) {
  return bytes / (model.hbm_bytes_per_us * kCopyShare * std::min(1.0, kFewSms * share));
}

double StepsUs(double steps) {
  return steps * kStepUs + std::max(0.0, steps - kShortSteps) * kLongStepUs;
}

// Turns of lanes over elements, in kernels whose phases wait for the slowest block.
double IdleLanes(const Chain& body, const StitchProgram& program, const StitchSchedule& s) {
  if (program.phases.size() == 1 || program.owner < 0) return 1;
  StitchLoop main;
  main.elements = MainElements(program);
  const double lanes = static_cast<double>(LoopTurns(body, s, main) * s.unit_threads * s.cluster *
                                           LoopVector(body, s, main));
  return std::max(1.0, lanes / static_cast<double>(main.elements));
}

}  // namespace

StitchTimes TimesOfStitch(const Chain& body, const StitchProgram& program, const StitchSchedule& s,
                          const StitchLoad& load, int64_t bucket, const DeviceModel& model) {
  const Spread spread = SpreadOf(program, s, bucket, model);
  StitchLoop main;
  main.elements = MainElements(program);
  const int64_t passes_turns = program.owner < 0 ? 1 : LoopTurns(body, s, main);
  const double share = spread.busy / model.sm_count;
  StitchTimes times;
  Prediction& p = times.alone;
  p.hbm_bytes = load.input_bytes + load.output_bytes;
  p.l2_bytes = load.again_bytes;
  p.hbm_us = HbmUs(p.hbm_bytes, program.phases.size() > 1 ? share / kFewSms : share, model);
  p.l2_us = p.l2_bytes / (model.l2_bytes_per_us * share);
  times.issue_sm_us = std::max(std::max(load.instructions / (128 * model.clock_mhz * kIssueShare),
                                        load.special / (16 * model.clock_mhz * kSpecialShare)) *
                                   IdleLanes(body, program, s),
                               load.shared_cycles / model.clock_mhz);
  const double issue = times.issue_sm_us / spread.busy;
  const double phases = static_cast<double>(program.phases.size());
  times.turn_us = phases * TurnUs(body, program, s, load, spread, passes_turns, model);
  times.blocks = spread.turns * s.cluster;
  const double turns = spread.rounds * times.turn_us;
  const double clusters = s.cluster > 1 ? kClusterUs + kClusterBlockUs * s.cluster : 0;
  p.fixed_us = model.launch_us + clusters + ColumnJoinsUs(s, load, model) +
               kPhaseUs * (phases - 1) + StepsUs(std::max(load.serial_steps, load.own_steps)) +
               (s.split > 1 ? std::max(0, load.serial_depth - 2) * kSplitJoinUs : 0) +
               std::max(0.0, std::max(load.serial_issue, load.own_issue) - kHiddenChain) /
                   (kChainShare * model.clock_mhz) +
               (s.keep_alike && load.alike > 0 ? kAlikeUs : 0);
  const double moved = p.hbm_us + p.l2_us;
  const bool persistent = s.grid < spread.turns * s.cluster;
  const double together = Norm(moved, issue, turns) * (persistent ? 1 + kPersistentLoss : 1);
  p.total_us = p.fixed_us + together;
  times.overlap = {moved, issue, turns, together};
  const double longest = std::max({moved, issue, turns});
  p.bound = turns == longest ? "latency" : issue == longest ? "issue" : "hbm";
  return times;
}

absl::StatusOr<StitchTimes> TimesOfStitch(const Chain& body, const StitchSchedule& schedule,
                                          int64_t bucket, const DeviceModel& model,
                                          StitchBudget* budget) {
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                          MakeStitchProgram(body, schedule.owner, schedule.handed, budget));
  return TimesOfStitch(body, program, schedule, LoadOf(body, program, schedule, bucket), bucket,
                       model);
}

absl::StatusOr<Prediction> PredictStitch(const Chain& body, const StitchSchedule& schedule,
                                         int64_t bucket, const DeviceModel& model) {
  SINTER_ASSIGN_OR_RETURN(const StitchTimes times, TimesOfStitch(body, schedule, bucket, model));
  return times.alone;
}

Prediction PredictTogether(const std::vector<StitchTimes>& parts, int blocks_per_sm,
                           const DeviceModel& model, StitchOverlap* overlap) {
  Prediction p;
  double blocks = 0, issue = 0, turns = 0, longest = 0, beside = 0, l2_bytes = 0;
  for (const StitchTimes& part : parts) {
    p.hbm_bytes += part.alone.hbm_bytes;
    l2_bytes += part.alone.l2_bytes;
    beside = std::max(beside, part.alone.fixed_us - model.launch_us);
    blocks += part.blocks;
    issue += part.issue_sm_us;
    turns += part.turn_us * part.blocks;
    longest = std::max(longest, part.turn_us);
  }
  const double busy = std::min<double>(model.sm_count, blocks), resident = blocks_per_sm * busy;
  p.l2_bytes = l2_bytes;
  p.hbm_us = HbmUs(p.hbm_bytes, busy / model.sm_count, model);
  p.l2_us = l2_bytes / (model.l2_bytes_per_us * busy / model.sm_count);
  p.fixed_us = model.launch_us + beside + kPackUs;
  // The last blocks begin when there is room.
  const double waves = blocks <= resident ? longest : turns / resident + longest;
  const double moved = p.hbm_us + p.l2_us;
  const double together = Norm(moved, issue / busy, waves);
  p.total_us = p.fixed_us + together;
  if (overlap != nullptr) *overlap = {moved, issue / busy, waves, together};
  const double most = std::max({moved, issue / busy, waves});
  p.bound = waves == most ? "latency" : moved == most ? "hbm" : "issue";
  return p;
}

absl::StatusOr<Prediction> AccountOf(const StitchSpec& spec, int64_t bucket,
                                     const DeviceModel& model, StitchOverlap* overlap) {
  if (spec.parts.empty()) {
    SINTER_ASSIGN_OR_RETURN(const StitchTimes times,
                            TimesOfStitch(spec.body, spec.schedule, bucket, model));
    *overlap = times.overlap;
    return times.alone;
  }
  std::vector<StitchTimes> parts;
  for (const StitchPart& part : spec.parts) {
    SINTER_ASSIGN_OR_RETURN(const PartBody own, ExtractPart(spec.body, part.outputs));
    SINTER_ASSIGN_OR_RETURN(StitchTimes times,
                            TimesOfStitch(own.body, part.schedule, bucket, model));
    parts.push_back(std::move(times));
  }
  return PredictTogether(parts, spec.schedule.blocks_per_sm, model, overlap);
}

}  // namespace sinter
