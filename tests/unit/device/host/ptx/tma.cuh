#pragma once
#include <cstdlib>

#include "ptx/sync.cuh"
#include "ptx/types.cuh"

namespace sinter {

inline void tma_load(u32 destination, const TensorMap* map, int x, int y, u32 barrier) {
  hardware::machine.LoadBox(destination, *map->matrix, x, y, barrier);
}
inline void tma_load_shared(u32 destination, const TensorMap* map, int x, int y, u32 barrier,
                            u16 blocks) {
  for (u32 rank = 0; rank < 16; ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    hardware::machine.LoadBox(map_to_rank(destination, rank), *map->matrix, x, y,
                              map_to_rank(barrier, rank));
  }
}

// The host has no im2col loads: conv_gpu_test has them on the device.
struct WindowStart {
  int x, y, image;
};
inline void tma_load_window(u32, const TensorMap*, int, WindowStart, u16, u16, u32) {
  std::abort();
}
inline void tma_load_window_shared(u32, const TensorMap*, int, WindowStart, u16, u16, u32, u16) {
  std::abort();
}

}  // namespace sinter
