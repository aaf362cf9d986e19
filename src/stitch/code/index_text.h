// Indices in generated source.
#ifndef SINTER_SRC_STITCH_CODE_INDEX_TEXT_H_
#define SINTER_SRC_STITCH_CODE_INDEX_TEXT_H_

#include <string>

#include "src/stitch/index.h"

namespace sinter {

// `index` as a C++ expression. Precondition: its variables are canonical. With `each`, loop
// variable `element` is written as `element + e`. Variables that may exceed 2^31 have 64 bits.
std::string IndexText(const IndexSpace& space, const Index& index, IndexVar element, bool each);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_INDEX_TEXT_H_
