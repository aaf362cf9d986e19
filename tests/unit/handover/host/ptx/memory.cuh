#pragma once
#include "ptx/debug.cuh"

namespace sinter {

struct alignas(16) Float4 {
  float x, y, z, w;
};
struct alignas(16) Word4 {
  u32 x, y, z, w;
};

inline void store_async(u32 remote, u32 barrier, Word4 v) {
  simulator->Send(remote, barrier, &v, sizeof v);
}
inline void store_async(u32 remote, u32 barrier, u32 v) {
  simulator->Send(remote, barrier, &v, sizeof v);
}
inline void store_async(u32 remote, u32 barrier, float x, float y) {
  const float pair[2] = {x, y};
  simulator->Send(remote, barrier, pair, sizeof pair);
}
inline void store_shared(u32 address, Word4 v) { simulator->Store(address, v); }
inline void store_shared(u32 address, u32 v) { simulator->Store(address, v); }
inline Float4 load_shared(u32 address) { return simulator->Load<Float4>(address); }
inline u32 load_shared_word(u32 address) { return simulator->Load<u32>(address); }
inline void prefetch_l2(const void*) {}
inline void store_relaxed_gpu(float* to, float x, float y) {
  simulator->StoreGlobal(to, x);
  simulator->StoreGlobal(to + 1, y);
}

}  // namespace sinter
