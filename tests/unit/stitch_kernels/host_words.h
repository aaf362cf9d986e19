// The vocabulary of device code on the host: CUDA's keywords and types, and each PTX instruction of
// the device library as a function. The generator replaces its asm statement with that function.
#pragma once

#include "src/base/dtype.h"
#include "tests/unit/stitch_kernels/grid_simulator.h"

namespace stitch_host_words {

using sinter::stitch_host::simulator;

struct Triple {
  unsigned x;
};
inline Triple ThreadIndex() { return {static_cast<unsigned>(simulator->thread())}; }
inline Triple BlockIndex() { return {static_cast<unsigned>(simulator->block())}; }
inline Triple GridDim() { return {static_cast<unsigned>(simulator->shape().grid)}; }

template <class To, class From>
To Bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

// Shared addresses: offset in the block's window; with a rank plus one above bit 24, of a peer.
constexpr int kRankShift = 24;

}  // namespace stitch_host_words

#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __builtin_assume(condition) assert(condition)
#define threadIdx (::stitch_host_words::ThreadIndex())
#define blockIdx (::stitch_host_words::BlockIndex())
#define gridDim (::stitch_host_words::GridDim())
#define dynamic_shared (::stitch_host_words::simulator->Shared())

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

inline uint32_t __float_as_uint(float x) { return stitch_host_words::Bits<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return stitch_host_words::Bits<float>(x); }
template <class T>
T __ldcg(const T* p) {
  return *p;
}
inline void __syncthreads() {
  auto* s = stitch_host_words::simulator;
  s->Meet(0, static_cast<uint32_t>(s->shape().block));
}
inline void __syncwarp() { stitch_host_words::simulator->Exchange(0, 0, 0xffffffffu); }
template <class T>
T __shfl_xor_sync(unsigned lanes, T value, int flip) {
  return stitch_host_words::Bits<T>(stitch_host_words::simulator->Exchange(
      stitch_host_words::Bits<uint32_t>(value), static_cast<uint32_t>(flip), lanes));
}
template <class T>
T __shfl_sync(unsigned lanes, T value, int from) {
  return __shfl_xor_sync(lanes, value, static_cast<int>(threadIdx.x % 32) ^ from);
}
inline int __reduce_max_sync(unsigned lanes, int value) {
  for (int level = 1; level < 32; level *= 2) {
    value = std::max(value, __shfl_xor_sync(lanes, value, level));
  }
  return value;
}
inline int __reduce_min_sync(unsigned lanes, int value) {
  for (int level = 1; level < 32; level *= 2) {
    value = std::min(value, __shfl_xor_sync(lanes, value, level));
  }
  return value;
}
// Lanes do not run together: each searches by itself.
inline unsigned __activemask() { return 1u << threadIdx.x % 32; }
template <class T>
unsigned __match_any_sync(unsigned lanes, T) {
  return lanes;
}
// Threads give way only where they meet.
inline int atomicAdd(int* to, int value) {
  const int before = *to;
  *to += value;
  return before;
}
inline int __any_sync(unsigned, int here) { return here; }
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline size_t __cvta_generic_to_shared(const void* p) {
  return static_cast<size_t>(static_cast<const unsigned char*>(p) - dynamic_shared);
}
inline float __logf(float x) { return logf(x); }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline int __float2int_rz(float x) {
  if (std::isnan(x)) return 0;
  if (x >= 2147483648.0f) return std::numeric_limits<int>::max();
  if (x < -2147483648.0f) return std::numeric_limits<int>::min();
  return static_cast<int>(x);
}

// PTX. Outputs come first.
inline void ptx_max_NaN_f32(float& r, float a, float b) {
  r = std::isnan(a) ? a : std::isnan(b) ? b : a > b ? a : b;
}
inline void ptx_min_NaN_f32(float& r, float a, float b) {
  r = std::isnan(a) ? a : std::isnan(b) ? b : a < b ? a : b;
}
inline void ptx_ex2_approx_ftz_f32(float& r, float x) { r = exp2f(x); }
inline void ptx_rcp_approx_ftz_f32(float& r, float x) { r = 1.0f / x; }
inline void ptx_tanh_approx_f32(float& r, float x) { r = tanhf(x); }
inline void ptx_cvt_rn_bf16x2_f32(uint32_t& r, float high, float low) {
  r = sinter::F32ToBF16(low) | static_cast<uint32_t>(sinter::F32ToBF16(high)) << 16;
}
inline void ptx_cvt_rn_f16x2_f32(uint32_t& r, float high, float low) {
  r = sinter::F32ToF16(low) | static_cast<uint32_t>(sinter::F32ToF16(high)) << 16;
}
inline void ptx_cvt_f32_f16(float& r, uint16_t bits) { r = sinter::F16ToF32(bits); }
inline void ptx_cvt_rn_satfinite_e4m3x2_f32(uint16_t& r, float high, float low) {
  r = static_cast<uint16_t>(sinter::F32ToE4M3(low) | sinter::F32ToE4M3(high) << 8);
}
inline void ptx_cvt_rni_sat_s8_f32(int& r, float x) {
  r = std::isnan(x) ? 0
                    : static_cast<int>(std::nearbyint(std::fmin(std::fmax(x, -128.0f), 127.0f)));
}
inline void ptx_cvt_rn_f16x2_e4m3x2(uint32_t& r, uint16_t bits) {
  const auto half = [](int code) {
    return sinter::F32ToF16(sinter::E4M3ToF32(static_cast<unsigned char>(code)));
  };
  r = half(bits & 0xff) | static_cast<uint32_t>(half(bits >> 8)) << 16;
}
inline void ptx_bar_sync(uint32_t id, uint32_t threads) {
  if (id > 15) stitch_host_words::simulator->Fail("no such barrier");
  stitch_host_words::simulator->Meet(id, threads);
}
inline void ptx_barrier_cluster_arrive_release() { stitch_host_words::simulator->ClusterArrive(); }
inline void ptx_barrier_cluster_arrive_relaxed() { stitch_host_words::simulator->ClusterArrive(); }
inline void ptx_barrier_cluster_wait_acquire() { stitch_host_words::simulator->ClusterWait(); }
inline void ptx_mov_cluster_ctarank(uint32_t& r) {
  const auto* s = stitch_host_words::simulator;
  r = static_cast<uint32_t>(s->block() % s->shape().cluster);
}
inline void ptx_mapa_shared__cluster_u32(uint32_t& r, uint32_t address, uint32_t rank) {
  r = address | (rank + 1) << stitch_host_words::kRankShift;
}
inline void* PeerAddress(uint32_t address) {
  constexpr uint32_t kOffset = (1u << stitch_host_words::kRankShift) - 1;
  return stitch_host_words::simulator->PeerWord(address & kOffset,
                                                (address >> stitch_host_words::kRankShift) - 1);
}
inline void ptx_st_global_v4_b32(unsigned char* to, uint32_t x, uint32_t y, uint32_t z,
                                 uint32_t w) {
  const uint32_t words[] = {x, y, z, w};
  if (reinterpret_cast<uintptr_t>(to) % sizeof(words) != 0) {
    stitch_host_words::simulator->Fail("a store of 16 bytes that is not aligned");
  }
  std::memcpy(to, words, sizeof(words));
}
inline void ptx_st_global_v2_b32(unsigned char* to, uint32_t x, uint32_t y) {
  const uint32_t words[] = {x, y};
  if (reinterpret_cast<uintptr_t>(to) % sizeof(words) != 0) {
    stitch_host_words::simulator->Fail("a store of 8 bytes that is not aligned");
  }
  std::memcpy(to, words, sizeof(words));
}
inline void ptx_st_shared__cluster_u32(uint32_t address, uint32_t value) {
  std::memcpy(PeerAddress(address), &value, sizeof(value));
}
inline void ptx_ld_shared__cluster_u32(uint32_t& value, uint32_t address) {
  std::memcpy(&value, PeerAddress(address), sizeof(value));
}
inline void ptx_griddepcontrol_launch_dependents() {}
inline void ptx_griddepcontrol_wait() {}
inline void ptx_atom_add_acq_rel_gpu_global_u32(unsigned& old, unsigned* counter, unsigned more) {
  old = *counter;
  *counter = old + more;
}
inline void ptx_ld_relaxed_gpu_global_u32(unsigned& seen, const unsigned* word) { seen = *word; }
inline void ptx_ld_acquire_gpu_global_u32(unsigned& seen, const unsigned* word) {
  stitch_host_words::simulator->Spin();
  seen = *word;
}
inline void ptx_st_release_gpu_global_u32(unsigned* word, unsigned value) { *word = value; }
