// Extents of a stitched kernel's work that follow from its program: units, elements, vectors.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_EXTENTS_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_EXTENTS_H_

#include <cstdint>

#include "src/chain/chain.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

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

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_EXTENTS_H_
