// HandLoad: how hand-overs through shared memory change a kernel's load.
#ifndef SINTER_SRC_STITCH_SEARCH_HAND_LOAD_H_
#define SINTER_SRC_STITCH_SEARCH_HAND_LOAD_H_

#include <cstdint>
#include <vector>

#include "src/base/device_model.h"
#include "src/base/keep_going.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

struct StitchBudget;
struct StitchLoad;

// The work of a unit's threads together, counted element by element.
struct UnitWork {
  double issue = 0, special = 0;
  double serial_issue = 0;   // of a thread's vector, in its serial reductions
  double shared_cycles = 0;  // of warps
};
// Depends only on the schedule's vector and on whether it keeps values.
UnitWork WorkOf(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
                Pace* pace);

// Changes `load` from the program without hand-overs, whose units do `before`, to one whose units
// do `after`. `units`: their number.
void AddHandOver(const UnitWork& before, const UnitWork& after, double units, StitchLoad& load);

// Barriers of a unit's threads for hand-overs. `rows_meet`: row reductions are barriers too.
int MeetingsOf(const StitchProgram& program, bool rows_meet);

// Sets of values worth handing over, by the computation saved: the two best alone, and the best
// with the one that is then best. Empty: no value that several readers compute costs more than its
// hand-over, or `budget` (may be null) is spent.
std::vector<std::vector<ValueId>> HandChoices(const Chain& body, const StitchProgram& base,
                                              const DeviceModel& model,
                                              StitchBudget* budget = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_HAND_LOAD_H_
