// What a product's result is stored as.
#ifndef SINTER_SRC_PRODUCT_RESULT_TYPE_H_
#define SINTER_SRC_PRODUCT_RESULT_TYPE_H_

#include "src/base/dtype.h"

namespace sinter {

// Of rows and weights of `element`: that, or f32 where the chain has f32; of codes the dtype that
// the chain has.
inline DType ResultType(DType element, DType of_chain) {
  return IsCode(element) || of_chain == DType::kF32 ? of_chain : element;
}

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_RESULT_TYPE_H_
