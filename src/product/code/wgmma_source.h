// The text of wgmma wrappers. The instruction names every accumulator register, so each N needs a
// wrapper of its own.
#ifndef SINTER_SRC_PRODUCT_CODE_WGMMA_SOURCE_H_
#define SINTER_SRC_PRODUCT_CODE_WGMMA_SOURCE_H_

#include <string>

#include "src/product/element.h"

namespace sinter {

// `template <> struct Wgmma<n, Element, a_transposed, b_transposed>` of the device library. n: a
// multiple of 8 in 8..256; transposed: the operand is contiguous along M or N instead of K.
std::string WgmmaSource(int n, const ElementRow& element, bool a_transposed, bool b_transposed);

// `template <> struct RegisterWgmma<n, Element, b_transposed>`, of 16-bit elements.
std::string RegisterWgmmaSource(int n, const ElementRow& element, bool b_transposed);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_CODE_WGMMA_SOURCE_H_
