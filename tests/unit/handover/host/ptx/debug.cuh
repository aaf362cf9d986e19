#pragma once
#include "ptx/types.cuh"

namespace sinter {

inline void jitter() { simulator->Pause(); }

}  // namespace sinter
