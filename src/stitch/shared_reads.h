// What a thread or a block reads once for several results: rows of windows, staged inputs.
#ifndef SINTER_SRC_STITCH_SHARED_READS_H_
#define SINTER_SRC_STITCH_SHARED_READS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// WindowRow: reductions over the taps of windows, several neighbouring results of a row at once.
// What the taps of one result read those of the next read too, and all of them read one row of a
// filter: a thread reads each pixel and each factor once for all of its results.

// The window row of a program: without units, of one loop whose roots read the reductions at their
// own elements. There is none if outputs share inputs' buffers.
WindowRow WindowRowOf(const Chain& body, const StitchProgram& program);

// OK, or why a thread may not make `pixels` results at once, 2 or more: there is no row, it has
// fewer, source would have more branches than kMostBranches, or what else the row reads needs a
// number that divides it.
absl::Status CheckPixels(const Chain& body, const WindowRow& row, int pixels);
// Columns of x that `pixels` results of a row read in one row of taps.
int64_t ColumnsRead(const WindowRow& row, int64_t pixels);
// Tiles of `pixels` results and `vector` channels in all, not counting M.
int64_t WindowTiles(const WindowRow& row, int64_t pixels, int64_t vector);
// Adjacent vectors of channels in a block of `threads`, a divisor of all: the threads after them
// have the rows below, whose windows overlap.
int64_t WindowRun(const WindowRow& row, int64_t vector, int threads);
// How often blocks read a pixel of x in the mean: the rows and columns at a block's border are read
// by its neighbours too.
double WindowReads(const Chain& body, const WindowRow& row, const StitchSchedule& schedule);
// Channels that a thread takes at once: `vector`, or the largest power of two below it that divides
// all channels.
int WindowVector(const WindowRow& row, int vector);

// Staging: a block reads inputs that lie along its units, not along a unit's elements, in packs of
// neighbouring units, leaves them in shared memory, and its units read their elements there: a
// transpose through a tile. Where no reduction makes units, parts of rows of the result can be
// units, numbered along another axis (UnitTile).

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

#endif  // SINTER_SRC_STITCH_SHARED_READS_H_
