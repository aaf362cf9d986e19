#pragma once
#include "ptx/types.cuh"

namespace sinter {

inline void jitter() {}
struct SpinGuard {
  void turn() {}
};

}  // namespace sinter
