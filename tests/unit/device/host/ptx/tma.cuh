#pragma once
#include "ptx/types.cuh"

namespace sinter {

inline void tma_load(u32 destination, const TensorMap* map, int x, int y, u32 barrier) {
  hardware::machine.LoadBox(destination, *map->matrix, x, y, barrier);
}

}  // namespace sinter
