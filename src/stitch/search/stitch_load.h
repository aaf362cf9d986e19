// StitchLoad: what one stitched kernel moves and computes, counted from its program.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_LOAD_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_LOAD_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "src/base/device_model.h"
#include "src/stitch/evaluations.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/hand_load.h"

namespace sinter {

// Turns of a pass that keeps nothing whose reads are under way together.
constexpr int kTurnsAtOnce = 4;

struct StitchLoad {
  double input_bytes = 0, output_bytes = 0;  // each tensor once
  double again_bytes = 0;                    // read again by later passes, because nothing is kept
  double crossing_bytes = 0;                 // of them, from phase to phase: what may be held
  int64_t crossing_element_bytes = 0;        // of a unit's element
  double instructions = 0;                   // of all threads together, in threads' instructions
  double special = 0;                        // of them, turns of the special function unit
  int64_t unit_bytes = 0;                    // of inputs that a unit reads for itself
  int64_t kept_words = 0;                    // registers of a thread that are kept, at most
  int64_t loop_inputs = 0;                   // tensors that the loop with most of them reads
  int64_t alike = 0;                         // tensors that all units read alike
  bool repeats = false;                      // a dear op is computed by several passes of a unit
  int levels = 0;                            // row reductions that follow one another
  int column_joins = 0;                      // phases behind which columns are joined
  bool ends_in_columns = false;              // nothing is read behind the last of them
  double column_words = 0;                   // of a part of all column reductions
  double serial_steps = 0;                   // of a thread's own reductions, one after another
  double serial_elements = 0;                // whose own reductions lanes may share
  double serial_issue = 0;                   // instructions of a thread's own reductions
  int serial_depth = 0;                      // of such reductions that wait for one another
  double shared_cycles = 0;                  // of all warps, in shared memory: what is handed over
  int meetings = 0;                          // of a unit's threads for it
  double own_steps = 0, own_issue = 0;       // the same where lanes may not share them
};

using LoopEvaluations = std::map<const StitchLoop*, Evaluations>;

// The loads of one program's schedules at `m` rows. Schedules that differ in threads alone have
// most in common, which is counted once. Body, program, model and `pace` must outlive it. Not
// thread-safe.
class LoadTable {
 public:
  LoadTable(const Chain& body, const StitchProgram& program, int64_t m, const DeviceModel& model,
            Pace* pace = nullptr);
  StitchLoad Of(const StitchSchedule& schedule);

 private:
  void AddHands(const StitchSchedule& schedule, StitchLoad& load);

  const Chain& body_;
  const StitchProgram& program_;
  const StitchProgram base_;  // that hands nothing over
  const int64_t m_;
  const StitchConstants& costs_;
  Pace* const pace_;
  const LoopEvaluations times_;
  std::map<std::tuple<int, bool, bool, bool>, StitchLoad>
      counted_;  // by what LoadOfProgram looks at
  // Where values are handed over: by vector and kept values, of the base and of the program.
  std::map<std::tuple<int, bool>, std::pair<UnitWork, UnitWork>> works_;
  int meetings_[2] = {};  // rows meet
  const int serial_depth_;
};

// At `m` rows.
StitchLoad LoadOf(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
                  int64_t m, const DeviceModel& model);

// Shared memory of a block that holds one round of units for later phases; 0: nothing to hold.
int64_t HoldRoundBytes(const Chain& body, const StitchProgram& program,
                       const StitchSchedule& schedule, const StitchLoad& load);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_LOAD_H_
