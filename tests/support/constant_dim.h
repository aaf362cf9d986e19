// Dimensions, short: tests write many shapes.
#pragma once

#include <cstdint>

#include "src/chain/tensor_type.h"

namespace sinter {

inline Dim C(int64_t v) { return Dim::Constant(v); }
inline const Dim kM = Dim::M();

}  // namespace sinter
