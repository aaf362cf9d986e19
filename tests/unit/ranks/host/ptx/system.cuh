#pragma once
#include "ptx/memory.cuh"

namespace sinter {

constexpr u32 kPollsPerCheck = 1, kPollsPerHostCheck = 1;
constexpr int kVoters = 1;

inline u32 load_system(const u32* p) {
  u32 v;
  explorer->Load(p, &v, sizeof v);
  return v;
}
inline void store_system(u32* p, u32 v) { explorer->Store(p, &v, sizeof v, 1); }
inline Word4 load_system(const Word4* p) {
  Word4 v;
  explorer->Load(p, &v, sizeof v);
  return v;
}
inline void store_system(Word4* p, Word4 v) {
  explorer->Store(p, &v, sizeof v, explorer->Pieces());
}
inline Word4 load_system_whole(const Word4* p) {
  Word4 v;
  explorer->LoadHeader(p, &v);
  return v;
}
inline void store_system_whole(Word4* p, Word4 v) { explorer->StoreHeader(p, &v); }
inline u32 fetch_add_gpu(u32* p, u32 v) { return explorer->FetchAdd(p, v); }
inline u32 compare_and_swap_gpu(u32* p, u32 expected, u32 desired) {
  return explorer->CompareAndSwap(p, expected, desired);
}
inline void poll_missed() { explorer->PollMissed(); }

}  // namespace sinter
