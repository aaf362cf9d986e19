// Hand-over of values (block composition): a value of a unit that its threads compute once, leave
// in shared memory and read at any index of the unit, instead of computing it where it is read.
#ifndef SINTER_SRC_STITCH_HAND_OVER_H_
#define SINTER_SRC_STITCH_HAND_OVER_H_

#include <optional>

#include "src/stitch/needs.h"
#include "src/stitch/program.h"

namespace sinter {

// The axes of a value behind those of its unit, and where an element lies along them. None: the
// element is another unit's, or cannot be shown to be of unit `unit`.
std::optional<Position> PlaceInUnit(const StitchProgram& program, const std::vector<Dim>& dims,
                                    const Position& at, IndexVar unit, IndexSpace& space);

enum class HandRead {
  kNone,     // the value is not handed over, or no unit owns the reader
  kOwn,      // at the element where the reader itself stands, which the same thread computes
  kTaken,    // elsewhere in the unit
  kOutside,  // elsewhere
};
HandRead ReadOfHanded(const Chain& body, const StitchProgram& program, ValueId id,
                      const Position& at, const RootLoop& reader, IndexSpace& space);

// What can be handed over in units of `program`: computed element by element or by each thread for
// itself (or read), with as many elements in every unit.
bool MayBeHanded(const Chain& body, const StitchProgram& program, ValueId id);

// Elements of a value in one unit.
int64_t ElementsInUnit(const StitchProgram& program, const std::vector<Dim>& dims);

// How a handed-over value lies in shared memory: as the word that arithmetic is done in, or as it
// is stored where nothing is lost by that.
DType HandedType(const Chain& body, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_HAND_OVER_H_
