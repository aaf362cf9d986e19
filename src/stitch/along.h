// Along a vector: how addresses move from one element to the next, and how many accesses reading
// them takes.
#ifndef SINTER_SRC_STITCH_ALONG_H_
#define SINTER_SRC_STITCH_ALONG_H_

#include <vector>

#include "src/chain/op.h"
#include "src/stitch/index.h"
#include "src/stitch/pull.h"

namespace sinter {

// How an index moves along a vector of `width` elements, the first at a multiple of `width` of loop
// variable `element`.
enum class Along {
  kUniform,  // the same for all elements
  kNext,     // one more for each element, and a multiple of width at the first
  kScattered,
};
Along AlongVector(const IndexSpace& space, const Index& index, IndexVar element, int width);

// Memory accesses for a vector: one, or where the addresses are scattered one for each different
// address, judged by the loop's first vector.
int AccessesOfVector(const IndexSpace& space, const Index& address, IndexVar element, int width);

// The address of an element in a tensor with these strides; canonical.
Index AddressOf(const Position& at, const std::vector<Stride>& strides, IndexSpace& space);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_ALONG_H_
