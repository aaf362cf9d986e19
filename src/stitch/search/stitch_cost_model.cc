#include "src/stitch/search/stitch_cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/stitch/sectors.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

// The blocks of a launch and their shares of the work.
struct Spread {
  double turns = 0;     // of all blocks (or clusters): each turn does `items` of work
  double items = 0;     // units in a turn; without units, elements
  double busy = 0;      // SMs with work
  double resident = 0;  // blocks that run at once
  double rounds = 0;    // turns of a resident block
};

Spread SpreadOf(const StitchProgram& program, const StitchSchedule& s, int64_t bucket,
                const DeviceModel& model) {
  Spread spread;
  const double items = static_cast<double>(FlatItems(program, s, bucket));
  spread.items = program.owner >= 0 ? s.UnitsPerBlock() : static_cast<double>(s.TurnElements());
  spread.turns = std::ceil(items / spread.items);
  const double groups = spread.turns * s.cluster;
  const double blocks = std::min(groups, static_cast<double>(s.grid));
  spread.busy = std::min<double>(model.sm_count, blocks);
  spread.resident = std::min(s.blocks_per_sm * spread.busy, blocks);
  const double rounds = groups / spread.resident;
  // A block that replaces another starts when there is room; persistent blocks wait for the
  // slowest.
  spread.rounds = blocks < groups || rounds < 2 ? std::ceil(rounds) : rounds + 0.5;
  return spread;
}

// Latency of a turn's first reads, the mean over all phases. Where nothing waits inside a unit, the
// reads of several units overlap; held packs are read from shared memory.
double FirstReadUs(const Chain& body, const StitchProgram& program, const StitchSchedule& s,
                   const StitchConstants& costs) {
  double us = 0;
  for (size_t i = 0; i < program.phases.size(); ++i) {
    const bool held = i > 0 && s.hold_bytes > 0;
    const int units = program.owner < 0 ? 1 : UnitsAtOnce(body, s, program.phases[i]);
    us += (held ? costs.held_read_us : costs.read_us) / units;
  }
  return us / static_cast<double>(program.phases.size());
}

// Latency of the reads that are alike for all units after a row reduction. Where a block has
// several units, each stores under a condition, so such reads follow one another. A single block
// finds them in HBM; of several blocks each finds some that others have brought.
double LateReadsUs(const StitchSchedule& s, const StitchLoad& load, const Spread& spread,
                   int64_t passes_turns, const StitchConstants& costs) {
  if (!load.late || s.UnitsPerBlock() == 1 || spread.turns > 1) return 0;
  return static_cast<double>(passes_turns - 1) * costs.read_us;
}

// The accesses of all threads that L1 and shared memory answer, as if on one SM.
double CachePipeUs(const StitchLoad& load, const DeviceModel& model) {
  const double sectors = load.strewn_bytes / kSectorBytes;
  return std::max(load.shared_cycles + load.line_cycles, sectors * kSectorCycles) / model.clock_mhz;
}

// Instructions of a block's turn, counted by thread.
struct TurnWork {
  double instructions = 0, special = 0;
};

TurnWork WorseOf(const TurnWork& a, const TurnWork& b) {
  return {std::max(a.instructions, b.instructions), std::max(a.special, b.special)};
}

// What a block does in its first turn that takes part in every flat loop, also in those that are
// too short for all blocks: the others wait for it.
TurnWork FirstTurn(const StitchProgram& program, const StitchSchedule& s, const StitchLoad& load,
                   double blocks, const StitchConstants& costs) {
  const double threads = std::min<double>(s.block_threads, costs.issue_warps * kWarpLanes) *
                         s.cluster / static_cast<double>(program.phases.size());
  TurnWork work;
  for (const FlatLoop& loop : load.flat) {
    const int64_t turn = int64_t{s.block_threads} * loop.vector;
    const int64_t turns =
        std::min<int64_t>(CeilDiv(loop.elements, turn), int64_t{s.chunks} * s.pixels);
    const bool by_all =
        static_cast<double>(loop.elements) > static_cast<double>(turns * turn) * blocks;
    if (program.owner >= 0 && by_all) continue;
    const double elements = threads * static_cast<double>(turns * loop.vector);
    work.instructions += elements * loop.instructions;
    work.special += elements * loop.special;
  }
  return work;
}

// One turn of a block that has its SM to itself: its reads, its instructions, its row reductions.
struct Turn {
  double waits = 0;          // before and between its instructions
  double moved = 0;          // its bytes
  double cache = 0;          // what L1 and shared memory take for its accesses
  double lanes = 0;          // that run its instructions, a microsecond
  double special_lanes = 0;  // the same of the special function unit
  double apart = 1;          // groups of units that do not wait for one another

  double Us(const TurnWork& work) const {
    const double issue = std::max({work.instructions / lanes, work.special / special_lanes, cache});
    return waits + (issue + moved) / std::max(1.0, apart);
  }
};

Turn TurnOf(const Chain& body, const StitchProgram& program, const StitchSchedule& s,
            const StitchLoad& load, const Spread& spread, int64_t passes_turns,
            const DeviceModel& model) {
  const StitchConstants& costs = model.stitch;
  const double phases = static_cast<double>(program.phases.size());
  const double share = 1 / (spread.turns * phases);
  const double warps = s.block_threads / double{kWarpLanes};
  const double filled = std::min<double>(s.cluster, warps * s.cluster / costs.issue_warps);
  const double slots = model.clock_mhz * filled;
  Turn turn;
  turn.lanes = model.lanes_per_sm * slots * costs.issue_share;
  turn.special_lanes = model.special_lanes_per_sm * slots;
  turn.cache = CachePipeUs(load, model) * share / s.cluster;
  const double bytes = (load.input_bytes + load.output_bytes + load.again_bytes) * share;
  turn.moved = bytes / (model.sm_intake_bytes_per_us * s.cluster);
  // Persistent blocks have their SM to themselves.
  if (phases > 1) {
    turn.apart = std::min(costs.overlap_limit, s.UnitsPerBlock() / costs.overlap_groups);
  }
  const bool blocks_meet = s.unit_threads > kWarpLanes;
  const double join = (blocks_meet ? costs.block_join_us : costs.warp_join_us) +
                      (s.cluster > 1 ? model.cluster_barrier_us : 0);
  const double joins =
      std::max(0, load.levels - 1) * join +
      load.meetings * (blocks_meet ? costs.block_meeting_us : costs.warp_meeting_us) +
      (s.staged ? 2 * costs.block_meeting_us : 0);
  const double again =
      s.keep_inputs || program.owner < 0
          ? 0
          : std::ceil(static_cast<double>(passes_turns) / kTurnsAtOnce) * load.levels - 1;
  turn.waits = FirstReadUs(body, program, s, costs) + again * costs.read_again_us + joins +
               LateReadsUs(s, load, spread, passes_turns, costs) / phases;
  return turn;
}

// For a launch that keeps `share` of the SMs busy.
double HbmUs(double bytes, double share, const DeviceModel& model) {
  return bytes / (model.hbm_bytes_per_us * model.stitch.copy_share *
                  std::min(1.0, model.stitch.few_sms_gain * share));
}

// The bytes that cross phases, are not held, and that the L2 cache has lost by then. A later phase
// begins where the one before it ends. It finds the data that came last, including data that was
// only read or stored in between.
double LostBytes(const StitchLoad& load, const DeviceModel& model) {
  const double passed = load.input_bytes + load.output_bytes;
  const double kept = model.l2_kept_share * static_cast<double>(model.l2_bytes);
  return load.crossing_bytes * std::max(0.0, 1 - kept / std::max(kept, passed));
}

double StepsUs(double steps, const StitchConstants& costs) {
  return steps * costs.step_us + std::max(0.0, steps - costs.short_steps) * costs.long_step_us;
}

// Time of a launch that does not overlap.
double FixedUs(const StitchProgram& program, const StitchSchedule& s, const StitchLoad& load,
               const DeviceModel& model) {
  const StitchConstants& costs = model.stitch;
  const double clusters =
      s.cluster > 1 ? costs.cluster_start_us + costs.cluster_block_start_us * s.cluster : 0;
  const double phases = static_cast<double>(program.phases.size());
  return model.launch_us + clusters + ColumnJoinsUs(s, load, model) +
         costs.phase_us * (phases - 1) +
         StepsUs(std::max(load.serial_steps, load.own_steps), costs) +
         (s.split > 1 ? std::max(0, load.serial_depth - 2) * costs.split_join_us : 0) +
         std::max(0.0, std::max(load.serial_issue, load.own_issue) - costs.hidden_chain_issue) /
             (costs.chain_issue_share * model.clock_mhz) +
         (s.keep_alike && load.alike > 0 ? costs.keep_alike_us : 0);
}

// The instructions of all threads, as if on one SM.
double IssueUs(const StitchLoad& load, const DeviceModel& model) {
  return std::max(
      load.instructions / (model.lanes_per_sm * model.clock_mhz * model.stitch.issue_share),
      load.special / (model.special_lanes_per_sm * model.clock_mhz));
}

// Lanes of all turns over elements, in kernels whose phases wait for the slowest block.
double IdleLanes(const Chain& body, const StitchProgram& program, const StitchSchedule& s) {
  if (program.phases.size() == 1 || program.owner < 0) return 1;
  StitchLoop main;
  main.elements = MainElements(program);
  const double lanes = static_cast<double>(LoopTurns(body, s, main) * s.unit_threads * s.cluster *
                                           LoopVector(body, s, main));
  return std::max(1.0, lanes / static_cast<double>(main.elements));
}

// parts of a column that a warp reads before it joins them, as in src/device/stitch/columns.cuh
constexpr int kPartsAtOnce = 8;

// The warps of a block read the parts of a column, several at once.
double SharedOutUs(const StitchSchedule& s, double parts, const StitchConstants& costs) {
  const double warps = s.block_threads / double{kWarpLanes};
  return std::ceil(parts / warps / kPartsAtOnce) * costs.column_part_us;
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
  const double lost = LostBytes(load, model);
  p.hbm_bytes = load.input_bytes + load.output_bytes + lost;
  p.l2_bytes = load.again_bytes - lost + load.strewn_bytes;
  p.hbm_us = HbmUs(p.hbm_bytes,
                   program.phases.size() > 1 ? share / model.stitch.few_sms_gain : share, model);
  p.l2_us = (load.again_bytes - lost) / (model.l2_bytes_per_us * share);
  times.issue_sm_us =
      std::max(IssueUs(load, model) * IdleLanes(body, program, s), CachePipeUs(load, model));
  const double issue = times.issue_sm_us / spread.busy;
  const double phases = static_cast<double>(program.phases.size());
  const double turn_share = 1 / (spread.turns * phases);
  const TurnWork mean = {load.instructions * turn_share, load.special * turn_share};
  const double blocks = std::min<double>(s.grid, spread.turns * s.cluster);
  const TurnWork first = FirstTurn(program, s, load, blocks, model.stitch);
  const Turn turn = TurnOf(body, program, s, load, spread, passes_turns, model);
  times.turn_us = phases * turn.Us(mean);
  times.first_us = phases * turn.Us(WorseOf(mean, first));
  times.blocks = spread.turns * s.cluster;
  const double turns = (spread.rounds - 1) * times.turn_us + times.first_us;
  p.fixed_us = FixedUs(program, s, load, model);
  const double moved = p.hbm_us + p.l2_us;
  const bool persistent = s.grid < spread.turns * s.cluster;
  const double together =
      FourNorm({moved, issue, turns}) * (persistent ? 1 + model.stitch.persistent_loss : 1);
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
  const StitchLoad load = LoadOf(body, program, schedule, bucket, model);
  return TimesOfStitch(body, program, schedule, load, bucket, model);
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
    longest = std::max(longest, part.first_us);
  }
  const double busy = std::min<double>(model.sm_count, blocks), resident = blocks_per_sm * busy;
  p.l2_bytes = l2_bytes;
  p.hbm_us = HbmUs(p.hbm_bytes, busy / model.sm_count, model);
  p.l2_us = l2_bytes / (model.l2_bytes_per_us * busy / model.sm_count);
  p.fixed_us = model.launch_us + beside + model.stitch.pack_us;
  // The last blocks start when there is room.
  const double waves = blocks <= resident ? longest : turns / resident + longest;
  const double moved = p.hbm_us + p.l2_us;
  const double together = FourNorm({moved, issue / busy, waves});
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
    if (overlap != nullptr) *overlap = times.overlap;
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

double ColumnJoinsUs(const StitchSchedule& s, const StitchLoad& load, const DeviceModel& model) {
  const StitchConstants& costs = model.stitch;
  const double parts = static_cast<double>(s.grid) / s.cluster;
  const double bytes = load.column_words * kWordBytes * parts;  // all parts of all phases
  const double meet =
      model.grid_barrier_us + costs.column_arrive_us * std::max(0, s.grid - model.sm_count);
  if (s.join_all) {
    const double read =
        s.blocks_per_sm * bytes / (costs.column_read_share * model.sm_intake_bytes_per_us);
    return load.column_joins * (meet + costs.column_join_all_us) + read;
  }
  const int meets = 2 * load.column_joins - (load.ends_in_columns ? 1 : 0);
  const double join = costs.column_join_us + SharedOutUs(s, parts, costs);
  return meets * meet + load.column_joins * join + 2 * bytes / model.l2_bytes_per_us;
}

}  // namespace sinter
