#include "src/search/stitch_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/plan/stitch/columns.h"
#include "src/plan/stitch/program.h"
#include "src/plan/stitch/segment.h"
#include "src/plan/stitch/sizes.h"
#include "src/search/column_cost.h"
#include "src/search/hand_load.h"
#include "src/search/stitch_kinds.h"
#include "src/search/stitch_load.h"

namespace sinter {
namespace {

constexpr int kMostThreadsPerSm = 2048;
constexpr int kMostBlocksPerSm = 32;
constexpr int kWarp = 32, kSmallBlock = 256;
constexpr int kMostGroups = 15;            // named barriers of a block, less the block's own
constexpr int64_t kMostSplitTurns = 2;     // of a pass whose elements lanes share
constexpr int64_t kSharedPerSm = 233472;   // bytes, for all blocks
constexpr int64_t kSharedOfSystem = 1024;  // of each block
constexpr int kBaseRegisters = 24, kVectorRegisters = 5;  // of a thread that keeps nothing
constexpr int kTurnRegisters = 3;                         // of an unrolled turn
constexpr int kMostRegisters = 200;
constexpr int kMostKeptWords = 56;  // more would spill
constexpr int64_t kMostTurns = 32;  // that are unrolled
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
constexpr double kMostBehind = 2;   // times the best: an owner whose units may hand something over
constexpr int kTurnsAtOnce = 4;     // of a pass that keeps nothing: reads under way together

int BlocksPerSm(int threads, int registers) {
  const int by_registers = 65536 / (threads * std::min(255, (registers + 7) / 8 * 8));
  return std::clamp(std::min(by_registers, kMostThreadsPerSm / threads), 1, kMostBlocksPerSm);
}

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

StitchTimes TimesOf(const Chain& body, const StitchProgram& program, const StitchSchedule& s,
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
  p.total_us = p.fixed_us + Norm(moved, issue, turns) * (persistent ? 1 + kPersistentLoss : 1);
  const double longest = std::max({moved, issue, turns});
  p.bound = turns == longest ? "latency" : issue == longest ? "issue" : "hbm";
  return times;
}

// Enumerates the schedules of one program.
class Enumerator {
 public:
  Enumerator(const Chain& body, const StitchProgram& program, int64_t bucket,
             const DeviceModel& model, const SearchOptions& options, std::vector<RankedStitch>* out)
      : body_(body),
        program_(program),
        bucket_(bucket),
        model_(model),
        options_(options),
        loads_(body, program, bucket),
        out_(out) {
    for (int i = 0; i < body.num_inputs(); ++i) {
      unit_inputs_ += !IsAlike(body.input_op(i), MainElements(program), WorkItems(program, bucket));
    }
    bool shared = false;
    for (const StitchPhase& phase : program.phases) {
      int columns = 0;
      for (const StitchLoop& loop : phase.loops) {
        for (const StitchRoot& root : loop.roots) {
          if (root.kind == StitchRoot::kColumn) columns += root.mean >= 0 ? 2 : 1;
        }
        shared |= loop.serial;
      }
      for (const StitchLoop& loop : phase.flat) shared |= loop.serial;
      columns_ = std::max(columns_, columns);
    }
    for (size_t id = 0; shared && id < body.ops().size(); ++id) {
      if (program.uses[id] != ReduceUse::kSerial) continue;
      serial_ = std::max(serial_, ReducedElements(body, body.op(static_cast<ValueId>(id))));
    }
  }

  void Run() {
    if (program_.phases.size() > 1 && !options_.allow_cooperative) return;
    const int widest = WidestVector(body_);
    const int narrowest = program_.handed.empty() ? 1 : std::max(1, widest / 2);
    for (int vector = widest; vector >= narrowest; vector /= 2) {
      StitchSchedule s;
      s.owner = program_.owner;
      s.handed = program_.handed;
      s.vector = vector;
      for (int split : {1, 4, 8, 16, 32}) {
        if (split > serial_) break;
        s.split = split;
        if (program_.owner < 0)
          Flat(s);
        else
          Rows(s);
      }
    }
  }

 private:
  static int Registers(const StitchSchedule& s) {
    return kBaseRegisters + kVectorRegisters * s.vector;
  }
  bool Cooperative() const { return program_.phases.size() > 1; }

  void Flat(StitchSchedule s) {
    for (int threads : {128, 256, 512}) {
      for (int chunks : {1, 2, 4, 8}) {
        s.block_threads = s.unit_threads = threads;
        s.chunks = chunks;
        if (s.split > 1 && !FlatSplitFits(s)) continue;
        const int64_t inputs = loads_.Of(s).loop_inputs;
        const int registers = Registers(s) + static_cast<int>(4 * chunks * inputs);
        if (registers > 160) continue;
        s.blocks_per_sm = BlocksPerSm(threads, registers);
        Grids(s, static_cast<int64_t>(threads) * s.vector * chunks / s.split);
      }
    }
  }

  // Groups of several warps meet at named barriers. Small blocks replace one another sooner, but
  // blocks that meet leave fewer parts of column reductions when they are large.
  bool GroupsFit(int unit, int block) const {
    if (unit > kWarp) return block / unit <= kMostGroups;
    return Cooperative() || block <= kSmallBlock;
  }

  // Sharing an element is for lanes that would be idle: as many as there are, or twice as many.
  bool SplitFits(const StitchSchedule& s) const {
    StitchSchedule more = s;
    more.split *= 2;
    bool idle = more.split <= s.unit_threads && s.split < kWarp && more.split <= serial_;
    for (const StitchPhase& phase : program_.phases) {
      for (const StitchLoop& loop : phase.loops) {
        if (!loop.serial) continue;
        if (LoopTurns(body_, s, loop) > kMostSplitTurns) return false;
        idle = idle && LoopTurns(body_, more, loop) <= 1;
      }
    }
    return !idle;
  }

  // Without units, while there are threads to spare.
  bool FlatSplitFits(const StitchSchedule& s) const {
    const int64_t threads = WorkItems(program_, bucket_) / s.vector * s.split;
    return s.chunks == 1 && threads <= int64_t{kMostThreadsPerSm} * model_.sm_count;
  }

  void Rows(StitchSchedule s) {
    for (int cluster : kClusterSizes) {
      if (cluster > 1 && !s.handed.empty()) break;
      for (int unit : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
        if ((cluster > 1 && unit < 256) || unit < s.split) continue;
        s.cluster = cluster;
        s.unit_threads = unit;
        if (s.split > 1 && !SplitFits(s)) continue;
        for (int block : {128, 256, 512, 1024}) {
          if (block < unit || (cluster > 1 && block != unit)) continue;
          if (!GroupsFit(unit, block)) continue;
          s.block_threads = block;
          Keeps(s);
        }
      }
    }
  }

  void Keeps(StitchSchedule s) {
    if (!SegmentsFit(body_, program_, s)) return;
    StitchLoop main;
    main.elements = MainElements(program_);
    const int64_t turns = LoopTurns(body_, s, main);
    const int64_t threads = int64_t{s.unit_threads} * s.cluster;
    // No thread without an element, but in a lone unit of a block.
    if (threads / 2 * LoopVector(body_, s, main) >= Shared(s, main.elements) &&
        s.unit_threads > 1) {
      return;
    }
    struct Kept {
      bool inputs, values, alike;
    };
    constexpr Kept kKept[] = {
        {true, false, false}, {true, true, false}, {true, false, true}, {true, true, true}};
    bool any = false;
    for (const Kept& kept : kKept) {
      s.keep_inputs = kept.inputs;
      s.keep_values = kept.values;
      s.keep_alike = kept.alike;
      any |= Keep(s, turns);
    }
    s.keep_inputs = s.keep_values = s.keep_alike = false;
    if (!any) Keep(s, turns);
  }

  // Elements of the main loop, or of one whose elements lanes share out: hand-overs leave such
  // loops in units that have fewer of them.
  int64_t Shared(const StitchSchedule& s, int64_t main) const {
    if (s.handed.empty()) return main;
    for (const StitchPhase& phase : program_.phases) {
      for (const StitchLoop& loop : phase.loops) {
        main = std::max(main, loop.elements * LoopSplit(s, loop));
      }
    }
    return main;
  }

  // False when a thread has no registers for it.
  bool Keep(StitchSchedule s, int64_t turns) {
    const bool unrolled = s.keep_inputs || columns_ > 0;
    if (unrolled && turns > kMostTurns) return false;
    const StitchLoad load = loads_.Of(s);
    if (load.kept_words > kMostKeptWords || (s.keep_values && !load.repeats)) return false;
    // What all units read alike is read early too, where a pass is unrolled.
    const int64_t alike = s.keep_alike ? 0 : load.alike * turns * s.vector / 8;
    const int registers = Registers(s) + static_cast<int>(load.kept_words + alike) +
                          RegistersOfTurns(s, unrolled ? static_cast<int>(turns) : kTurnsAtOnce);
    if (registers > 65536 / s.block_threads || registers > kMostRegisters) return false;
    const int needed = kBaseRegisters + s.vector + static_cast<int>(load.kept_words + alike);
    const int room = RoomForHandOvers(s);
    const int fewest = std::min(room, BlocksPerSm(s.block_threads, registers));
    const int most =
        options_.tight_registers ? std::min(room, BlocksPerSm(s.block_threads, needed)) : fewest;
    for (s.blocks_per_sm = fewest; s.blocks_per_sm <= most; ++s.blocks_per_sm) {
      if (s.blocks_per_sm > 0) Launches(s);
    }
    s.blocks_per_sm = 1;  // fewer blocks leave fewer parts of columns
    if (Cooperative() && fewest > 1) Launches(s);
    return true;
  }

  // Blocks that an SM's shared memory has room for beside what they hand over.
  int RoomForHandOvers(const StitchSchedule& s) const {
    if (s.handed.empty()) return kMostBlocksPerSm;
    const int64_t shared = StitchSharedBytes(body_, program_, s) + kSharedOfSystem;
    return static_cast<int>(kSharedPerSm / shared);
  }

  void Launches(const StitchSchedule& s) {
    if (Cooperative())
      Joins(s);
    else
      Grids(s, s.UnitsPerBlock());
  }

  // The ways in which blocks join their parts of columns.
  void Joins(StitchSchedule s) {
    struct Join {
      int cluster;
      bool all;
    };
    constexpr Join kJoins[] = {{1, false}, {8, false}, {1, true}, {2, true}, {8, true}};
    for (const Join& join : kJoins) {
      if (join.cluster > 1 && s.cluster > 1) continue;
      s.column_cluster = join.cluster;
      s.join_all = join.all;
      Grids(s, s.UnitsPerBlock());
    }
  }

  // Addresses and conditions of unrolled turns, column results, and reads under way together.
  int RegistersOfTurns(const StitchSchedule& s, int turns) const {
    int at_once = 1;
    for (const StitchPhase& phase : program_.phases) {
      if (!phase.loops.empty()) at_once = std::max(at_once, UnitsAtOnce(body_, s, phase));
    }
    const int vectors = (at_once - 1) * unit_inputs_ * s.vector / 2;
    return turns * (kTurnRegisters + s.vector * columns_ + vectors);
  }

  // As many blocks as there is work for, or as many as fit at once.
  void Grids(StitchSchedule s, int64_t items_per_block) {
    const int64_t items = std::max<int64_t>(1, WorkItems(program_, bucket_));
    const int64_t wanted = (items + items_per_block - 1) / items_per_block * s.cluster;
    const int64_t fits = int64_t{model_.ResidentBlocks(s.LaunchCluster())} * s.blocks_per_sm;
    if (fits == 0) return;
    for (int64_t grid : {std::min<int64_t>(wanted, 1 << 19), std::min(wanted, fits)}) {
      grid = grid / s.LaunchCluster() * s.LaunchCluster();
      if (grid < s.LaunchCluster() || (Cooperative() && grid > fits)) continue;
      s.grid = static_cast<int>(grid);
      if (!AddHolding(s)) Add(s);
      if (wanted <= fits) return;
    }
  }

  // With as much shared memory as the inputs of later phases can use; false when there is none.
  bool AddHolding(StitchSchedule s) {
    if (!Cooperative() || !s.keep_inputs) return false;
    const StitchLoad load = loads_.Of(s);
    if (load.crossing_element_bytes == 0) return false;
    const int64_t own = StitchSharedBytes(body_, program_, s);
    const int64_t room =
        std::min(kSharedPerSm / s.blocks_per_sm - kSharedOfSystem, model_.shared_bytes_per_block) -
        own;
    const int64_t round = HoldRoundBytes(body_, program_, s, load);
    const int64_t rounds = std::min(room / round, UnitRounds(program_, s, bucket_));
    if (rounds < 1) return false;
    s.hold_bytes = static_cast<int>(rounds * round);
    Add(s);
    return true;
  }

  void Add(const StitchSchedule& s) {
    const int64_t shared = StitchSharedBytes(body_, program_, s);
    if (shared > model_.shared_bytes_per_block) return;
    // Blocks that wait for one another are all resident.
    if (Cooperative() && (shared + kSharedOfSystem) * s.blocks_per_sm > kSharedPerSm) return;
    if (!CheckStitchFields(s).ok()) return;
    const uint64_t scratch =
        Cooperative() ? LayOutColumns(body_, program_, s).scratch_bytes : uint64_t{0};
    out_->push_back(
        {s, TimesOf(body_, program_, s, loads_.Of(s), bucket_, model_).alone, {}, scratch});
  }

  const Chain& body_;
  const StitchProgram& program_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const SearchOptions& options_;
  LoadTable loads_;
  std::vector<RankedStitch>* const out_;
  int columns_ = 0;      // words that column reductions of one phase have for a thread's element
  int unit_inputs_ = 0;  // that differ from unit to unit
  int64_t serial_ = 1;   // elements of the longest reduction that lanes may share
};

// A program without hand-overs, and its best schedule.
struct Owned {
  StitchProgram program;
  Prediction best;
};

// The programs that hand something over: of owners that are not far from the best, where something
// else than memory is waited for.
std::vector<StitchProgram> HandingOver(const Chain& body, const std::vector<Owned>& owned) {
  double best_us = std::numeric_limits<double>::infinity();
  for (const Owned& one : owned) best_us = std::min(best_us, one.best.total_us);
  std::vector<StitchProgram> programs;
  for (const Owned& one : owned) {
    if (one.program.owner < 0 || one.best.bound == "hbm") continue;
    if (one.best.total_us > kMostBehind * best_us) continue;
    for (const std::vector<ValueId>& handed : HandChoices(body, one.program)) {
      absl::StatusOr<StitchProgram> with = MakeStitchProgram(body, one.program.owner, handed);
      if (with.ok()) programs.push_back(*std::move(with));
    }
  }
  return programs;
}

}  // namespace

absl::StatusOr<StitchTimes> TimesOfStitch(const Chain& body, const StitchSchedule& schedule,
                                          int64_t bucket, const DeviceModel& model) {
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                          MakeStitchProgram(body, schedule.owner, schedule.handed));
  return TimesOf(body, program, schedule, LoadOf(body, program, schedule, bucket), bucket, model);
}

absl::StatusOr<Prediction> PredictStitch(const Chain& body, const StitchSchedule& schedule,
                                         int64_t bucket, const DeviceModel& model) {
  SINTER_ASSIGN_OR_RETURN(const StitchTimes times, TimesOfStitch(body, schedule, bucket, model));
  return times.alone;
}

Prediction PredictTogether(const std::vector<StitchTimes>& parts, int blocks_per_sm,
                           const DeviceModel& model) {
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
  p.total_us = p.fixed_us + Norm(moved, issue / busy, waves);
  const double most = std::max({moved, issue / busy, waves});
  p.bound = waves == most ? "latency" : moved == most ? "hbm" : "issue";
  return p;
}

absl::StatusOr<std::vector<RankedStitch>> SearchStitch(const Chain& body, int64_t bucket,
                                                       const DeviceModel& model,
                                                       const SearchOptions& options) {
  std::vector<RankedStitch> ranked;
  absl::Status first_error;
  std::vector<Owned> owned;
  for (ValueId owner : OwnerCandidates(body)) {
    absl::StatusOr<StitchProgram> program = MakeStitchProgram(body, owner);
    first_error.Update(program.status());
    if (!program.ok()) continue;
    const size_t before = ranked.size();
    Enumerator(body, *program, bucket, model, options, &ranked).Run();
    const auto best = std::min_element(
        ranked.begin() + static_cast<std::ptrdiff_t>(before), ranked.end(),
        [](const auto& x, const auto& y) { return x.prediction.total_us < y.prediction.total_us; });
    if (best != ranked.end()) owned.push_back({*std::move(program), best->prediction});
  }
  for (const StitchProgram& program : HandingOver(body, owned)) {
    Enumerator(body, program, bucket, model, options, &ranked).Run();
  }
  if (ranked.empty()) {
    if (!first_error.ok()) return first_error;
    return absl::FailedPreconditionError("no schedule of the stitch family is legal");
  }
  std::sort(ranked.begin(), ranked.end(), [](const RankedStitch& a, const RankedStitch& b) {
    if (a.prediction.total_us != b.prediction.total_us) {
      return a.prediction.total_us < b.prediction.total_us;
    }
    return a.schedule.Canonical() < b.schedule.Canonical();
  });
  if (options.kinds_first) PutKindsFirst(&ranked);
  const size_t kept = std::min<size_t>(ranked.size(), static_cast<size_t>(options.top_k));
  ranked.resize(kept);
  return ranked;
}

}  // namespace sinter
