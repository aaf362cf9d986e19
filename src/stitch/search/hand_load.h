// HandLoad: what it changes of a kernel's load that values are handed over through shared memory.
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

// What a unit's threads do together, counted element by element.
struct UnitWork {
  double issue = 0, special = 0;
  double serial_issue = 0;   // of a thread's vector, in its own reductions
  double shared_cycles = 0;  // of warps
};
// Depends on the schedule's vector and on whether it keeps values.
UnitWork WorkOf(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
                Pace* pace);

// `load` is that of the program that hands nothing over, whose units do `before`, and becomes that
// of one whose units, `units` of them, do `after`.
void AddHandOver(const UnitWork& before, const UnitWork& after, double units, StitchLoad& load);

// Meetings of a unit's threads for what they hand over, where row reductions are meetings or not.
int MeetingsOf(const StitchProgram& program, bool rows_meet);

// Sets of values worth handing over, by what is computed less: the dearest two alone, the dearest
// with what is then the dearest. Empty: nothing is computed for several readers that costs more
// than to leave and take it, or `budget` (may be null) is spent.
std::vector<std::vector<ValueId>> HandChoices(const Chain& body, const StitchProgram& base,
                                              const DeviceModel& model,
                                              StitchBudget* budget = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_HAND_LOAD_H_
