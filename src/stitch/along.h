// Along a vector: how addresses move from one element to the next, and what reading them takes.
#ifndef SINTER_SRC_STITCH_ALONG_H_
#define SINTER_SRC_STITCH_ALONG_H_

#include <vector>

#include "src/chain/op.h"
#include "src/stitch/index.h"
#include "src/stitch/pull.h"

namespace sinter {

// Along a vector of `width` elements whose first is at a multiple of `width` of loop variable
// `element`.
enum class Along {
  kUniform,  // the same for all
  kNext,     // one further each, and a multiple of width at the first
  kScattered,
};
Along AlongVector(const IndexSpace& space, const Index& index, IndexVar element, int width);

// Accesses of memory for a vector: one, or where the addresses are scattered one for each that
// differs, as far as its first vector shows.
int AccessesOfVector(const IndexSpace& space, const Index& address, IndexVar element, int width);

// Where in memory a tensor of these strides has the element; canonical.
Index AddressOf(const Position& at, const std::vector<Stride>& strides, IndexSpace& space);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_ALONG_H_
