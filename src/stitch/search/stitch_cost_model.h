// The cost of a stitched kernel: its load, counted from its program, and the time that takes.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_COST_MODEL_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_COST_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/model/search.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/sectors.h"
#include "src/stitch/shared_reads.h"
#include "src/stitch/spec.h"

namespace sinter {

// StitchLoad: the bytes and instructions of one stitched kernel, counted from its program.

// SectorLoad: bytes that a stitched kernel moves between L2 and its SMs, and from HBM, because
// memory comes in sectors (src/stitch/sectors.h).

using LoopEvaluations = std::map<const StitchLoop*, Evaluations>;

// Bytes of the sectors of `input` that the loops read; none where ids say which.
std::optional<double> SectorBytesRead(const StitchProgram& program, const LoopEvaluations& times,
                                      ValueId input, int64_t m);

// What accesses cost that do not lie side by side.
struct StrewnLoad {
  double bytes = 0;          // of sectors on their way between L2 and the SMs
  double cycles = 0;         // of L1s, one for each line that an access of a warp touches
  double shared_cycles = 0;  // of warps that write and read staged inputs
};

// Body, program and model must outlive it. Not thread-safe.
class SectorLoad {
 public:
  // `times`: of the loops of `program`.
  SectorLoad(const Chain& body, const StitchProgram& program, const LoopEvaluations& times,
             int64_t m, const DeviceModel& model);

  // What a block reads again soon is in L1.
  StrewnLoad Of(const StitchSchedule& schedule);

 private:
  // A loop's accesses that do not lie side by side.
  struct Strewn {
    const StitchLoop* loop;
    bool units;
    std::vector<MemoryTouch> touches, again;  // again: also in an earlier loop of a unit
  };

  // The load of a staged input's one read of memory, and of its ways through shared memory.
  StrewnLoad OfStaged(const StagedPlace& place, const StitchSchedule& schedule) const;
  StrewnLoad OfLoop(const Strewn& strewn, const std::vector<MemoryTouch>& touches,
                    const StitchSchedule& schedule) const;

  const Chain& body_;
  const int64_t m_, units_;
  const DeviceModel& model_;
  const StitchProgram& program_;
  std::vector<Strewn> strewn_;
  std::map<ValueId, std::pair<MemoryTouch, int>> staged_;  // with the loops that read it
  // By threads of a block and of a unit, vector, chunks, split, blocks of an SM, kept and staged
  // inputs.
  std::map<std::tuple<int, int, int, int, int, int, bool, bool>, StrewnLoad> known_;
};

// HandLoad: how hand-overs through shared memory change a kernel's load.

struct StitchBudget;

// Barriers of a unit's threads for hand-overs, of a warp or of a block, and what waits as long. Row
// reductions of several warps are barriers too.
int MeetingsOf(const Chain& body, const StitchProgram& program, int unit_threads);
// Those for a step of its row.
int MeetingsOfStep(const Chain& body, const Op& step, int unit_threads);
// Instructions of a thread for what the steps of a unit join or compare, besides those of its
// elements.
double InstructionsOfSteps(const Chain& body, const StitchSchedule& schedule);

// Sets of values worth handing over, by the computation saved: the two best single values, and the
// best with the one that is then best. Empty: no value that several readers compute costs more than
// its hand-over, or `budget` (may be null) is spent.
std::vector<std::vector<ValueId>> HandChoices(const Chain& body, const StitchProgram& base,
                                              const DeviceModel& model,
                                              StitchBudget* budget = nullptr);

// Instructions of generated code that costs are counted with. They follow from the source that code
// generation writes (src/stitch/code, src/device) and were counted in its machine code, so they are
// equal on every chip. The device model says what an instruction costs.

// One load or store of device memory with its address; a vector is one access.
constexpr int kMemoryInstructions = 8;
// A division by a constant that is not a power of two in an address: of a place in a unit, which
// has 32 bits; of one among all elements, which has 64.
constexpr int kDivisionInstructions = 8;
constexpr int kLongDivisionInstructions = 40;
// An element of a staged input, from its pack to shared memory.
constexpr int kStagingInstructions = 4;
// One shared memory access of a hand-over, and one of a pack's elements.
constexpr int kHandInstructions = 3;
constexpr int kPackInstructions = 1;
// Adding an element to its column's moments; and the unit count of a vector.
constexpr int kMomentInstructions = 5;
constexpr int kMomentTurnInstructions = 30;
// A lane's part in joining an element by shuffles.
constexpr int kShuffleInstructions = 8;

// Turns whose reads are in flight together, in a pass that keeps nothing.
constexpr int kTurnsAtOnce = 4;

// A loop over the kernel's elements, which may be too few for all blocks.
struct FlatLoop {
  int64_t elements = 0;
  int vector = 1;
  double instructions = 0, special = 0;  // of an element
};

struct StitchLoad {
  double input_bytes = 0, output_bytes = 0;  // each tensor once
  double again_bytes = 0;  // read again by later passes, because they are not kept
  double strewn_bytes = 0, line_cycles = 0;  // of accesses that do not lie side by side
  double crossing_bytes = 0;  // the part of again_bytes that crosses phases and is not held
  int64_t crossing_element_bytes = 0;   // the same for one element of a unit
  double instructions = 0;              // of all threads, counted by thread
  double special = 0;                   // the part of instructions on the special function unit
  std::vector<FlatLoop> flat;           // flat loops, which blocks run in their first turns
  int64_t unit_bytes = 0;               // inputs that each unit reads for itself
  int64_t kept_words = 0;               // most registers of a thread for kept values
  int64_t loop_inputs = 0;              // tensors read by the loop with the most of them
  int64_t branch_inputs = 0;            // the same, but of each concat only the inputs of one
                                        // operand
  int64_t alike = 0;                    // tensors that all units read alike
  bool late = false;                    // some of those are read after a row reduction, not before
  bool repeats = false;                 // several passes of a unit compute an expensive op
  int levels = 0;                       // row reductions that follow one another
  int column_joins = 0;                 // phases after which columns are joined
  bool ends_in_columns = false;         // nothing is read after the last join
  double column_words = 0;              // all column reductions in one part
  double serial_steps = 0;              // of a thread's serial reductions, one after another
  double serial_elements = 0;           // elements whose serial reductions lanes may share
  double serial_issue = 0;              // instructions of a thread's serial reductions
  int serial_depth = 0;                 // serial reductions that wait for one another
  double shared_cycles = 0;             // of all warps, for hand-overs through shared memory
  int meetings = 0;                     // barriers of a unit's threads for hand-overs
  double own_steps = 0, own_issue = 0;  // serial_steps, serial_issue where lanes may not share
};

// The loads of one program's schedules at `m` rows. Schedules that differ only in threads share
// most of their load, which is counted once. Body, program, model and `pace` must outlive it. Not
// thread-safe.
class LoadTable {
 public:
  LoadTable(const Chain& body, const StitchProgram& program, int64_t m, const DeviceModel& model,
            Pace* pace = nullptr);
  StitchLoad Of(const StitchSchedule& schedule);

 private:
  // The times and sectors of schedules that make several results of windows at once.
  struct Slid {
    LoopEvaluations times;
    SectorLoad sectors;
  };

  // Changes `load` of the base to that of the program (hand_load.cc).
  void AddHands(const StitchSchedule& schedule, StitchLoad& load);
  Slid& SlidBy(int pixels);

  const Chain& body_;
  const StitchProgram& program_;
  const StitchProgram base_;  // without hand-overs
  const int64_t m_;
  const DeviceModel& model_;
  const StitchConstants& costs_;
  Pace* const pace_;
  LoopEvaluations times_;         // of the base's loops
  LoopEvaluations handed_times_;  // of the program's, with hand-overs
  SectorLoad sectors_;
  std::map<int, Slid> slid_;  // by the results that a schedule makes at once
  std::map<std::tuple<int, int, bool, bool, bool, bool>, StitchLoad>
      counted_;                  // by what LoadOfProgram depends on
  std::map<int, int> meetings_;  // by the threads of a unit
  const int serial_depth_;
};

// At `m` rows.
StitchLoad LoadOf(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
                  int64_t m, const DeviceModel& model);

// Shared memory of a block that holds one round of units for later phases; 0: nothing to hold.
int64_t HoldRoundBytes(const Chain& body, const StitchProgram& program,
                       const StitchSchedule& schedule, const StitchLoad& load);

// The load of a program, counted loop by loop from the roots (program_load.cc), to which that of a
// kernel adds the effects of threads and shared memory.

// How often each loop computes its values; valid as long as `program`. `pace` may be null.
LoopEvaluations EvaluationsOfLoops(const Chain& body, const StitchProgram& program, Pace* pace,
                                   int pixels = 1);

// At `m` rows. Depends on the schedule's vector and on what it keeps; `times`: EvaluationsOfLoops.
StitchLoad LoadOfProgram(const Chain& body, const StitchProgram& program,
                         const StitchSchedule& schedule, int64_t m, const LoopEvaluations& times,
                         const StitchConstants& costs);

// Serial reductions on the longest path to a sub-root, each reading the one before.
int SerialDepthOf(const Chain& body, const StitchProgram& program);

// Extents of a stitched kernel's work that follow from its program: units, elements, vectors.

constexpr int kWarpLanes = 32;
constexpr int kWordBytes = 4;  // of a reduced element: f32

// Whether all `units` read the same part of an input: it is as large as a unit's `elements`.
bool IsAlike(const Op& input, int64_t elements, int64_t units);

// Units of work at `m` rows; without an owner, elements of the largest flat loop.
int64_t WorkItems(const StitchProgram& program, int64_t m);

// The same without an owner for a schedule, whose last tile of a row of windows may be partly
// empty.
int64_t FlatItems(const StitchProgram& program, const StitchSchedule& schedule, int64_t m);

// The widest vector that any access can use: 16 bytes of the narrowest floating-point operand.
int WidestVector(const Chain& body);

// Elements of the loop that moves the most bytes.
int64_t MainElements(const StitchProgram& program);

// The cost model of the stitch family: FusionStitching's latency-evaluator on this chip's levels:
// bytes over bandwidth, instructions, turns of resident blocks, barriers.

// The parts of a stitched kernel's time that overlap; Prediction::fixed_us does not.
struct StitchOverlap {
  double moved_us = 0;     // bytes: hbm and l2, one after the other
  double issue_us = 0;     // instructions of all SMs with work
  double latency_us = 0;   // waiting, turn after turn: first reads, joins, barriers
  double together_us = 0;  // all three: their 4-norm, and the loss of persistent blocks
};

// The terms of a kernel's prediction.
struct StitchTimes {
  Prediction alone;  // alone.total_us == alone.fixed_us + overlap.together_us
  StitchOverlap overlap;
  double issue_sm_us = 0;  // of all instructions on one SM
  double turn_us = 0;      // of one block, in the mean
  double first_us = 0;     // of the block with the most work
  double blocks = 0;       // needed for the work
};

// `load`: LoadOf the same schedule. Deterministic and thread-safe, like all functions here.
StitchTimes TimesOfStitch(const Chain& body, const StitchProgram& program,
                          const StitchSchedule& schedule, const StitchLoad& load, int64_t bucket,
                          const DeviceModel& model);

// FAILED_PRECONDITION when the body cannot be computed with the schedule's owner;
// RESOURCE_EXHAUSTED once `budget` (may be null) is spent.
absl::StatusOr<StitchTimes> TimesOfStitch(const Chain& body, const StitchSchedule& schedule,
                                          int64_t bucket, const DeviceModel& model,
                                          StitchBudget* budget = nullptr);

// Independent kernels with equal threads a block, packed into one launch of `blocks_per_sm`: one
// launch, the bytes and instructions of all, blocks one after another. `overlap` may be null.
Prediction PredictTogether(const std::vector<StitchTimes>& parts, int blocks_per_sm,
                           const DeviceModel& model, StitchOverlap* overlap = nullptr);

// The prediction of a spec, packed or not, and its overlapping parts, recomputed. `overlap` may be
// null.
// FAILED_PRECONDITION as above.
absl::StatusOr<Prediction> AccountOf(const StitchSpec& spec, int64_t bucket,
                                     const DeviceModel& model, StitchOverlap* overlap);

// The cost of a stitched kernel's column reductions after their units: write parts, barrier, join
// parts.

// All phases together, in microseconds; 0 without column reductions.
double ColumnJoinsUs(const StitchSchedule& schedule, const StitchLoad& load,
                     const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_COST_MODEL_H_
