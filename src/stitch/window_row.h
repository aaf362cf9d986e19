// WindowRow: reductions over the taps of windows, several neighbouring results of a row at once.
// What the taps of one result read those of the next read too, and all of them read one row of a
// filter: a thread reads each pixel and each factor once for all of its results.
#ifndef SINTER_SRC_STITCH_WINDOW_ROW_H_
#define SINTER_SRC_STITCH_WINDOW_ROW_H_

#include <cstdint>

#include "absl/status/status.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// Those of a program: without units, of one loop whose roots read the reductions at their own
// elements; none where outputs share inputs' buffers.
WindowRow WindowRowOf(const Chain& body, const StitchProgram& program);

// OK, or why a thread may not make `pixels` results at once, 2 or more: there is no row, it has
// fewer, source would have more branches than kMostBranches, or what else the row reads needs a
// number that divides it.
absl::Status CheckPixels(const Chain& body, const WindowRow& row, int pixels);
// Columns of x that `pixels` results of a row read in one row of taps.
int64_t ColumnsRead(const WindowRow& row, int64_t pixels);
// Tiles of `pixels` results and `vector` channels in all, not counting M.
int64_t WindowTiles(const WindowRow& row, int64_t pixels, int64_t vector);
// Vectors of channels that lie beside each other in a block of `threads`, a divisor of all: threads
// behind them have the rows below, whose windows overlap.
int64_t WindowRun(const WindowRow& row, int64_t vector, int threads);
// How often blocks read a pixel of x in the mean: the rows and columns at a block's border are read
// by its neighbours too.
double WindowReads(const Chain& body, const WindowRow& row, const StitchSchedule& schedule);
// Channels that a thread takes at once: `vector`, or the largest power of two below it that divides
// all channels.
int WindowVector(const WindowRow& row, int vector);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_WINDOW_ROW_H_
