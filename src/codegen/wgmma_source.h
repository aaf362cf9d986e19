// The text of wgmma wrappers: the instruction names every accumulator register, so it is written
// for the N that is used.
#ifndef SINTER_SRC_CODEGEN_WGMMA_SOURCE_H_
#define SINTER_SRC_CODEGEN_WGMMA_SOURCE_H_

#include <string>

#include "src/base/dtype.h"

namespace sinter {

// `template <> struct Wgmma<n, Element, a_transposed, b_transposed>` of the device library. n: a
// multiple of 8 in 8..256; dtype f16 or bf16; transposed: contiguous along M or N instead of K.
std::string WgmmaSource(int n, DType dtype, bool a_transposed, bool b_transposed);

// "BFloat16" or "Float16".
const char* ElementName(DType dtype);

}  // namespace sinter

#endif  // SINTER_SRC_CODEGEN_WGMMA_SOURCE_H_
