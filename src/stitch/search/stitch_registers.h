// Registers that a thread of a stitched kernel is expected to take, and the blocks that an SM then
// has room for. Estimates: nothing is compiled, and one that is too low spills.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_REGISTERS_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_REGISTERS_H_

#include <cstdint>

#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_load.h"

namespace sinter {

// Blocks that an SM has registers for.
struct BlocksByRegisters {
  int liked = 0;   // by those that a thread would like; 0: it has not so many
  int needed = 0;  // by those that it needs for what it keeps: as many blocks or more
};

// Of one program's schedules at `m` rows. Body, program and model must outlive it. Immutable; any
// thread may read it.
class StitchRegisters {
 public:
  StitchRegisters(const Chain& body, const StitchProgram& program, int64_t m,
                  const DeviceModel& model);

  // Whether passes through a unit's elements are written out turn by turn.
  bool Unrolls(const StitchSchedule& s) const { return s.keep_inputs || columns_ > 0; }
  // Without units, where a loop reads at most `inputs` tensors; 0: a thread has no room for them.
  int FlatBlocks(const StitchSchedule& s, int64_t inputs) const;
  // With units, of which the main loop makes `turns`.
  BlocksByRegisters UnitBlocks(const StitchSchedule& s, const StitchLoad& load,
                               int64_t turns) const;

 private:
  int BlocksPerSm(int threads, int registers) const;
  int OfTurns(const StitchSchedule& s, int turns) const;

  const Chain& body_;
  const StitchProgram& program_;
  const DeviceModel& model_;
  int columns_ = 0;      // words that column reductions of one phase have for a thread's element
  int unit_inputs_ = 0;  // that differ from unit to unit
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_REGISTERS_H_
