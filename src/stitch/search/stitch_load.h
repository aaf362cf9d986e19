// StitchLoad: the bytes and instructions of one stitched kernel, counted from its program.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_LOAD_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_LOAD_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/device_model.h"
#include "src/stitch/evaluations.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/hand_load.h"
#include "src/stitch/search/sector_load.h"

namespace sinter {

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
  int64_t branch_inputs = 0;            // the same, of each concat those of one operand alone
  int64_t alike = 0;                    // tensors that all units read alike
  bool late = false;                    // some of those are read behind a row reduction, not before
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

  void AddHands(const StitchSchedule& schedule, StitchLoad& load);
  Slid& SlidBy(int pixels);

  const Chain& body_;
  const StitchProgram& program_;
  const StitchProgram base_;  // without hand-overs
  const int64_t m_;
  const DeviceModel& model_;
  const StitchConstants& costs_;
  Pace* const pace_;
  const LoopEvaluations times_;         // of the base's loops
  const LoopEvaluations handed_times_;  // of the program's, with hand-overs
  SectorLoad sectors_;
  std::map<int, Slid> slid_;  // by the results that a schedule makes at once
  std::map<std::tuple<int, int, bool, bool, bool, bool>, StitchLoad>
      counted_;  // by what LoadOfProgram depends on
  // With hand-overs: by vector and kept values, of the base and of the program.
  std::map<std::tuple<int, bool>, std::pair<UnitWork, UnitWork>> works_;
  int meetings_[2] = {};  // index: whether rows meet
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

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_LOAD_H_
