// Dimensions, short: tests write many shapes.
#ifndef SINTER_TESTS_SUPPORT_CONSTANT_DIM_H_
#define SINTER_TESTS_SUPPORT_CONSTANT_DIM_H_

#include <cstdint>

#include "src/chain/tensor_type.h"

namespace sinter {

inline Dim C(int64_t v) { return Dim::Constant(v); }
inline const Dim kM = Dim::M();

}  // namespace sinter

#endif  // SINTER_TESTS_SUPPORT_CONSTANT_DIM_H_
