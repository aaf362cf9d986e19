#pragma once
#include "ptx/debug.cuh"

namespace sinter {

struct alignas(16) Float4 {
  float x, y, z, w;
};
struct alignas(16) Word4 {
  u32 x, y, z, w;
};
struct alignas(8) Float2 {
  float x, y;
};

template <class T>
inline void store_async_bytes(u32 remote, u32 barrier, T value) {
  hardware::machine.Store(remote, value);
  hardware::machine.Arrive(barrier, sizeof(T));
}
inline void store_async(u32 remote, u32 barrier, float x, float y) {
  store_async_bytes(remote, barrier, Float2{x, y});
}
inline void store_async(u32 remote, u32 barrier, Word4 v) { store_async_bytes(remote, barrier, v); }
inline void store_async(u32 remote, u32 barrier, u32 v) { store_async_bytes(remote, barrier, v); }
inline void store_shared(u32 address, Word4 v) { hardware::machine.Store(address, v); }
inline void touch(u32 address, bool store) {
  hardware::Machine& m = hardware::machine;
  if (m.races != nullptr && m.count_bytes) m.races->Touch(threadIdx.x, address, store);
}
inline void store_shared(u32 address, u32 v) {
  touch(address, true);
  hardware::machine.Store(address, v);
}
inline void store_shared(u32 address, float x, float y) {
  hardware::machine.Store(address, Float2{x, y});
}
inline u32 load_shared_word(u32 address) {
  touch(address, false);
  return hardware::machine.Load<u32>(address);
}
inline void prefetch_l2(const void* p) { static_cast<void>(*static_cast<const volatile char*>(p)); }
inline u32 load_relaxed_gpu(const u32* p) { return *p; }
inline u32 load_acquire_gpu(const u32* p) { return *p; }
inline void store_relaxed_gpu(u32* p, u32 v) { *p = v; }
inline void store_relaxed_gpu(float* to, float x, float y) { to[0] = x, to[1] = y; }
inline void store_release_gpu(u32* p, u32 v) { *p = v; }
inline Float4 load_shared(u32 address) { return hardware::machine.Load<Float4>(address); }

}  // namespace sinter
