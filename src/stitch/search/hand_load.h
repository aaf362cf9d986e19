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
int MeetingsOf(const Chain& body, const StitchProgram& program, bool rows_meet);
// How often the threads of a unit join what they have for a step of its row.
int JoinsOfStep(const Chain& body, const Op& step);
// Instructions of a thread for what the steps of a unit join, besides those of its elements.
double InstructionsOfSteps(const Chain& body, const StitchSchedule& schedule);

// Sets of values worth handing over, by the computation saved: the two best alone, and the best
// with the one that is then best. Empty: no value that several readers compute costs more than its
// hand-over, or `budget` (may be null) is spent.
std::vector<std::vector<ValueId>> HandChoices(const Chain& body, const StitchProgram& base,
                                              const DeviceModel& model,
                                              StitchBudget* budget = nullptr);

// Instructions of generated code that costs are counted with. They follow from the source that code
// generation writes (src/stitch/code, src/device) and were counted in its machine code, so they are
// equal on every chip. The device model says what an instruction costs.

// One load or store of device memory with its address; a vector is one access.
constexpr int kMemoryInstructions = 8;
// A division by a constant that is no power of two in an address: of a place in a unit, which has
// 32 bits; of one among all elements, which has 64.
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

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_HAND_LOAD_H_
