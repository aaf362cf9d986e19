// Indices in generated source, and how they move along a vector of elements.
#ifndef SINTER_SRC_CODEGEN_STITCH_INDEX_TEXT_H_
#define SINTER_SRC_CODEGEN_STITCH_INDEX_TEXT_H_

#include <string>

#include "src/plan/stitch/index.h"

namespace sinter {

// Along a vector of `width` elements whose first is at a multiple of `width` of loop variable
// `element`.
enum class Along {
  kUniform,  // the same for all
  kNext,     // one further each, and a multiple of width at the first
  kScattered,
};
Along AlongVector(const IndexSpace& space, const Index& index, IndexVar element, int width);

// A C++ expression. Every variable of `index` is canonical. With `each`, loop variable `element` is
// read as `element + e`. Variables that may pass 2^31 are 64 bits wide.
std::string IndexText(const IndexSpace& space, const Index& index, IndexVar element, bool each);

}  // namespace sinter

#endif  // SINTER_SRC_CODEGEN_STITCH_INDEX_TEXT_H_
