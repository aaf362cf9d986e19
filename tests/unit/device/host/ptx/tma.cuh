#pragma once
#include "ptx/memory.cuh"
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

struct PermutedPlace {
  int x, set;
};
inline void tma_load(u32 destination, const TensorMap* map, PermutedPlace at, u32 barrier) {
  hardware::machine.LoadBox<true>(destination, *map->matrix, at.x, 32 * at.set, barrier);
}
inline void tma_load_shared(u32 destination, const TensorMap* map, PermutedPlace at, u32 barrier,
                            u16 blocks) {
  for (u32 rank = 0; rank < 16; ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    tma_load(map_to_rank(destination, rank), map, at, map_to_rank(barrier, rank));
  }
}

struct TapPlace {
  int x, y, z;
};
inline void tma_load(u32 destination, const TensorMap* map, TapPlace at, u32 barrier) {
  hardware::machine.LoadTaps(destination, *map->taps, at.x, at.y, at.z, barrier);
}
inline void tma_load_shared(u32 destination, const TensorMap* map, TapPlace at, u32 barrier,
                            u16 blocks) {
  for (u32 rank = 0; rank < 16; ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    tma_load(map_to_rank(destination, rank), map, at, map_to_rank(barrier, rank));
  }
}

struct WindowStart {
  int x, y, image;
};
inline void tma_load_window(u32 destination, const TensorMap* map, int channel, WindowStart at,
                            u16 tap_x, u16 tap_y, u32 barrier) {
  hardware::machine.LoadPixels(destination, *map->images, channel, at.x, at.y, at.image,
                               {tap_x, tap_y}, barrier);
}
inline void tma_load_window_shared(u32 destination, const TensorMap* map, int channel,
                                   WindowStart at, u16 tap_x, u16 tap_y, u32 barrier, u16 blocks) {
  for (u32 rank = 0; rank < 16; ++rank) {
    if ((blocks >> rank & 1) == 0) continue;
    tma_load_window(map_to_rank(destination, rank), map, channel, at, tap_x, tap_y,
                    map_to_rank(barrier, rank));
  }
}

inline void bulk_load(u32 destination, const float* from, u32 bytes, u32 barrier) {
  for (u32 i = 0; i < bytes / 4; ++i) hardware::machine.Store(destination + 4 * i, from[i]);
  hardware::machine.Arrive(barrier, bytes);
}

}  // namespace sinter
