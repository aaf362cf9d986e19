#pragma once
#include "ptx/memory.cuh"

namespace sinter {

inline void bulk_push(u32 remote, u32 source, u32 bytes, u32 barrier) {
  simulator->Copy(remote, source, bytes, barrier);
}
inline void bulk_add(float* to, u32 source, u32 bytes) { simulator->AddBulk(to, source, bytes); }
inline void bulk_add_wait() { simulator->WaitForBulkSums(); }
inline void add_relaxed_gpu(float* to, Float4 v) {
  simulator->Pause();
  to[0] += v.x, to[1] += v.y, to[2] += v.z, to[3] += v.w;
}
inline Float4 load_relaxed_gpu(const float* from) {
  simulator->Pause();
  return {from[0], from[1], from[2], from[3]};
}
inline void store_relaxed_gpu(float* to, Float4 v) {
  simulator->Pause();
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
inline u32 fetch_add_gpu(u32* counter, u32 by) {
  simulator->Pause();
  const u32 before = *counter;
  *counter += by;
  return before;
}
inline bool named_barrier_any(u32 id, u32 threads, bool vote) {
  return simulator->MeetAny(id, threads, vote);
}

}  // namespace sinter
