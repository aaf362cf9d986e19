// Staging: a block reads inputs that lie along its units, not along a unit's elements, in packs of
// neighbouring units, leaves them in shared memory, and its units read their elements there: a
// transpose through a tile. Where no reduction makes units, parts of rows of the result can be
// units, numbered along another axis (UnitTile).
#ifndef SINTER_SRC_STITCH_STAGING_H_
#define SINTER_SRC_STITCH_STAGING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// The owner that stands for such units in a body of `ops` ops, and back; axis -1: it is another.
ValueId OwnerOfTile(const UnitTile& tile, size_t ops);
UnitTile TileOfOwner(ValueId owner, size_t ops);

// Sets the units of `tile` in `program`. FAILED_PRECONDITION where the body has reductions, ids,
// or outputs of several shapes or in inputs' buffers, INVALID_ARGUMENT where the tile does not
// divide its result.
absl::Status SetTile(const Chain& body, const UnitTile& tile, StitchProgram& program);

// Owners of units for results of which inputs lie along another axis than the last. `flat`: the
// program without units.
std::vector<ValueId> TileOwners(const Chain& body, const StitchProgram& flat);

// Inputs that the units of a program of one phase read at one place each, which lies along the
// units. None where outputs share inputs' buffers, or values are handed over.
std::vector<StagedInput> StagedInputsOf(const Chain& body, const StitchProgram& program,
                                        Pace* pace);

// The place of a staged input in a block's shared memory. Element i of unit q of the block is at q
// * elements + i, with the chunks of each unit in an order that keeps packs of units, and of
// elements, in different banks.
struct StagedPlace {
  ValueId input = -1;
  DType dtype = DType::kF32;
  int64_t elements = 1;  // of a unit
  int wide = 1;          // units in a pack
  int chunk = 1;         // elements side by side
  int mask = 0;          // of a chunk's number: exchanged by the number of the unit's pack
  int64_t offset = 0, bytes = 0;
};
std::vector<StagedPlace> LayOutStaged(const Chain& body, const StitchProgram& program,
                                      const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_STAGING_H_
