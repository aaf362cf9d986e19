// Pull: from an element of an op's result to the elements of its operands (index propagation,
// FusionStitching 4.2: a non-sub-root's schedule follows from its consumer's).
#ifndef SINTER_SRC_STITCH_PULL_H_
#define SINTER_SRC_STITCH_PULL_H_

#include <vector>

#include "src/chain/chain.h"
#include "src/stitch/index.h"

namespace sinter {

using Position = std::vector<Index>;  // one index per axis of a value

// The element of operand `number` that element `at` of `op` is computed from. For all kinds but
// input, scalar, iota, reduce and matmul. For a concat: the element of that operand if `at` lies in
// it. For what a gather takes: the element that its id names, or the first one where it names none.
// For a window: the pixel that a tap meets, or the nearest one where it meets none.
// For a scatter `at` is an element of its rows, for operand 0 of what it writes over.
Position PullPosition(const Chain& body, const Op& op, size_t number, const Position& at,
                      IndexSpace& space);

// The position that an id names, at element `at` of a gather's result or of a scatter's rows, along
// the axis that is taken or written.
IndexVar ReadOfIds(const Chain& body, const Op& op, const Position& at, IndexSpace& space);

// The row and the column of the image that element `at` of a window has, which may lie outside.
struct WindowPixel {
  Index row, column;
};
WindowPixel PixelOf(const Op& window, const Position& at);

// The element of a value with dims `from` that has the row-major place of element `at` of one with
// dims `to`, of equally many elements.
Position ReshapedPosition(const std::vector<Dim>& to, const std::vector<Dim>& from,
                          const Position& at, IndexSpace& space);

// Of a reduction or a product: the element of operand `number` at loop `k`, which counts through
// the reduced axes, the last one fastest, or through the factors.
Position PullReduced(const Chain& body, const Op& op, size_t number, const Position& at, IndexVar k,
                     IndexSpace& space);

// The row-major index of `at` in `dims`; the first extent is not needed and may be symbolic.
Index LinearIndex(const std::vector<Dim>& dims, const Position& at);

// IdBounds: what is known of the numbers that a gather takes as ids. Ids that are computed, as
// those of pixels beside a place between them, are often kept inside by a minimum and a maximum:
// then nobody has to ask whether they name a place.

// Whether every id of `gather` names a place of its axis, whatever the inputs are. False where it
// is not known.
bool NamesAPlace(const Chain& body, const Op& gather);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PULL_H_
