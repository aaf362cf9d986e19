// Indices in generated source.
#ifndef SINTER_SRC_STITCH_CODE_INDEX_TEXT_H_
#define SINTER_SRC_STITCH_CODE_INDEX_TEXT_H_

#include <string>

#include "src/stitch/index.h"

namespace sinter {

// A C++ expression. Every variable of `index` is canonical. With `each`, loop variable `element` is
// read as `element + e`. Variables that may pass 2^31 are 64 bits wide.
std::string IndexText(const IndexSpace& space, const Index& index, IndexVar element, bool each);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_INDEX_TEXT_H_
