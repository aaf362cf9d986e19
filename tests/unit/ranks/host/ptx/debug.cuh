#pragma once
#include "ptx/types.cuh"

namespace sinter {

inline u64 global_timer_ns() { return explorer->Now(); }

}  // namespace sinter
