// Bulk copies between the shared memories of a cluster, and sums in global memory. Bulk copies run
// in the async proxy: what st.shared wrote needs fence_proxy_async_shared() by the writing threads,
// and a barrier, before one thread issues the copy.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"

namespace sinter {

// cp.async.bulk into a peer: `bytes` (a multiple of 16) from `source` here to `remote`, completing
// them on `barrier`; both from map_to_rank() of one rank, not this block's. `source` may be written
// again once the peer has said that it waited.
SINTER_DEVICE void bulk_push(u32 remote, u32 source, u32 bytes, u32 barrier) {
  jitter();
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(remote),
      "r"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

// cp.async.bulk of `bytes` (a multiple of 16) from global memory, 16-byte aligned, completing them
// on this block's `barrier`.
SINTER_DEVICE void bulk_load(u32 destination, const float* from, u32 bytes, u32 barrier) {
  jitter();
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(destination),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Adds `bytes` (a multiple of 16) of f32 at `source` to global memory; each element is one relaxed
// atomic. Subnormals are flushed.
SINTER_DEVICE void bulk_add(float* to, u32 source, u32 bytes) {
  jitter();
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(source), "r"(bytes)
      : "memory");
}
// Until all bulk sums that this thread issued are in memory and visible to it.
SINTER_DEVICE void bulk_add_wait() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Four relaxed atomic sums; 16-byte aligned.
SINTER_DEVICE void add_relaxed_gpu(float* to, Float4 v) {
  jitter();
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}
SINTER_DEVICE Float4 load_relaxed_gpu(const float* from) {
  Float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from)
               : "memory");
  return v;
}
SINTER_DEVICE void store_relaxed_gpu(float* to, Float4 v) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y),
               "f"(v.z), "f"(v.w)
               : "memory");
}

// What the counter held before `by` was added. Releases what this thread has seen so far, acquires
// what earlier ones released.
SINTER_DEVICE u32 fetch_add_gpu(u32* counter, u32 by) {
  u32 before;
  jitter();
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(by)
               : "memory");
  return before;
}

// named_barrier() that tells every thread whether `vote` was true in any.
SINTER_DEVICE bool named_barrier_any(u32 id, u32 threads, bool vote) {
  u32 any;
  asm volatile(
      "{.reg .pred p, q; setp.ne.u32 p, %3, 0; bar.red.or.pred q, %1, %2, p; selp.u32 %0, 1, 0, q;}"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(vote ? 1u : 0u)
      : "memory");
  return any != 0;
}

}  // namespace sinter
