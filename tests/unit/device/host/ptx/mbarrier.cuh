#pragma once
#include "ptx/debug.cuh"

namespace sinter {

inline void mbarrier_init(u32, u32) {}
inline void mbarrier_init_fence() {}
inline void mbarrier_arrive(u32) {}
inline void mbarrier_arrive_remote(u32) {}
inline void mbarrier_arrive_remote_read(u32) {}
inline void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  hardware::machine.Expect(barrier, bytes);
}
inline bool mbarrier_test_wait(u32, u32) { return false; }
inline void mbarrier_wait(u32, u32) {}
inline void mbarrier_wait_cluster(u32, u32) {}

}  // namespace sinter
