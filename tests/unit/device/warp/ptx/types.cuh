// A warp on the host: the names that src/device/kernels/grouped_routing.cuh uses, for 32 threads
// that run at once. Words are exchanged between two barriers.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <mutex>

#define SINTER_DEVICE inline

namespace sinter {

using std::max;
using std::min;
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr int kLanes = 32;
struct ThreadIndex {
  unsigned x = 0;
};
inline thread_local ThreadIndex threadIdx;
inline int exchanged[kLanes];

inline void __syncthreads() {
  static std::mutex mutex;
  static std::condition_variable all_are_there;
  static int there = 0, turn = 0;
  std::unique_lock<std::mutex> lock(mutex);
  const int mine = turn;
  if (++there == kLanes) {
    there = 0;
    ++turn;
    all_are_there.notify_all();
  }
  all_are_there.wait(lock, [&] { return turn != mine; });
}
inline int __shfl_sync(u32, int value, int from) {
  exchanged[threadIdx.x] = value;
  __syncthreads();
  const int result = exchanged[from];
  __syncthreads();
  return result;
}
inline int __shfl_up_sync(u32 mask, int value, int step) {
  const int lane = static_cast<int>(threadIdx.x);
  return __shfl_sync(mask, value, lane < step ? lane : lane - step);
}
inline int atomicAdd(int* at, int value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
inline int __popc(u32 bits) { return __builtin_popcount(bits); }
inline int __ffs(u32 bits) { return __builtin_ffs(static_cast<int>(bits)); }

}  // namespace sinter
