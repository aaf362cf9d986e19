// Hand-over (block composition): a unit's threads compute a value once, leave it in shared memory
// and read it at any index of the unit, instead of recomputing it where it is read.
#ifndef SINTER_SRC_STITCH_HAND_OVER_H_
#define SINTER_SRC_STITCH_HAND_OVER_H_

#include <optional>

#include "src/stitch/needs.h"
#include "src/stitch/program.h"

namespace sinter {

// The position of an element along the axes after its unit's. None: the element is of another unit,
// or cannot be shown to be of unit `unit`.
std::optional<Position> PlaceInUnit(const StitchProgram& program, const std::vector<Dim>& dims,
                                    const Position& at, IndexVar unit, IndexSpace& space);

enum class HandRead {
  kNone,     // the value is not handed over, or the reader has no unit
  kOwn,      // at the reader's own element, which the same thread computes
  kTaken,    // elsewhere in the unit
  kOutside,  // outside the unit
};
HandRead ReadOfHanded(const Chain& body, const StitchProgram& program, ValueId id,
                      const Position& at, const RootLoop& reader, IndexSpace& space);

// Whether a value can be handed over in units of `program`: computed element by element or serially
// (or an input), with equally many elements in every unit.
bool MayBeHanded(const Chain& body, const StitchProgram& program, ValueId id);

// Elements of a value in one unit.
int64_t ElementsInUnit(const StitchProgram& program, const std::vector<Dim>& dims);

// The type of a handed-over value in shared memory: its type in arithmetic, or its stored type
// where that loses nothing.
DType HandedType(const Chain& body, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_HAND_OVER_H_
