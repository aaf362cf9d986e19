#pragma once
#include "ptx/debug.cuh"

namespace sinter {

inline void mbarrier_init(u32 barrier, u32 arrivals) { simulator->InitBarrier(barrier, arrivals); }
inline void mbarrier_arrive(u32 barrier) { simulator->Arrive(barrier, 0); }
inline void mbarrier_arrive_expect(u32 barrier, u32 bytes) { simulator->Arrive(barrier, bytes); }
inline void mbarrier_arrive_remote_read(u32 remote) { simulator->ArriveRemote(remote); }
inline void mbarrier_wait(u32 barrier, u32 parity) { simulator->Wait(barrier, parity); }

}  // namespace sinter
