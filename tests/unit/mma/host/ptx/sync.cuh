#pragma once
#include "ptx/types.cuh"

namespace sinter {

inline void launch_dependents() {}
inline void wait_for_predecessors() {}

}  // namespace sinter
