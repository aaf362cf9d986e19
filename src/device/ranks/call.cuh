// One call of a group: a kernel whose blocks wait for those of the same number on other ranks, and
// when they give up.
#pragma once
#include "ptx/sync.cuh"
#include "ranks/room.cuh"

namespace sinter {

// What every rank says of its call, and compares with what the others say: ranks that make
// different calls would else add what does not belong together, or wait for what never comes.
struct CallHeader {
  u32 rows;
  u64 digest;

  // Never like a header of two calls before, which lies in the same place.
  SINTER_DEVICE Word4 words(u32 epoch) const {
    return {epoch + 1, rows, static_cast<u32>(digest), static_cast<u32>(digest >> 32)};
  }
};

// Pushes the header to all other ranks. Called by one warp of the rank.
template <int kRanks>
SINTER_DEVICE void push_header(const Group<kRanks>& group, const CallHeader& call) {
  for (int r = threadIdx.x % kVoters; r < kRanks; r += kVoters)
    if (r != static_cast<int>(group.rank))
      store_system_whole(group.header(r, static_cast<int>(group.rank)), call.words(group.epoch));
}

// One warp's waits of a call. Its lanes wait together and give up together.
template <int kRanks>
struct RankWait {
  const Group<kRanks>& group;
  const CallHeader& call;
  bool compared = false;  // all headers were there, and were equal

  // Polls until `missing()`, which loads what this lane waits for, is 0 in all lanes, and every
  // rank's header is that of this call. `missing` returns 1 + the rank that it lacks something of.
  // False: the group has ended, what was loaded is worth nothing.
  template <class Missing>
  SINTER_DEVICE bool until(Missing&& missing) {
    u64 since = 0;
    for (u32 polls = 1;; ++polls) {
      u32 lacks = missing(), other = 0;
      if (!compared) look_at_headers(lacks, other);
      lacks = warp_max(lacks);
      if (!compared) other = warp_max(other);
      if (lacks == 0 && other == 0) {
        compared = true;
        return true;
      }
      poll_missed();
      if (other != 0) return give_up(kMismatch | (other - 1) << 8);
      if (polls % kPollsPerCheck != 0) continue;
      const u32 why = warp_max(reason(polls, since, lacks - 1));
      if (why != 0) return give_up(why);
    }
  }

 private:
  SINTER_DEVICE void look_at_headers(u32& lacks, u32& other) const {
    const Word4 own = call.words(group.epoch);
    for (int r = threadIdx.x % kVoters; r < kRanks; r += kVoters) {
      if (r == static_cast<int>(group.rank)) continue;
      const Word4 seen =
          load_system_whole(group.header(static_cast<int>(group.rank), static_cast<int>(r)));
      if (seen.x != own.x)
        lacks = static_cast<u32>(r) + 1;
      else if (seen.y != own.y || seen.z != own.z || seen.w != own.w)
        other = static_cast<u32>(r) + 1;
    }
  }

  // Why a wait for rank `lacking` ends now, or 0.
  SINTER_DEVICE u32 reason(u32 polls, u64& since, u32 lacking) const {
    const u32 ended = load_system(&group.control->outcome);
    if (ended != 0) return ended;
    const u64 now = global_timer_ns(), limit = group.control->timeout_ns;
    if (since == 0) since = now;
    if (limit != 0 && now - since > limit) return kTimedOut | lacking << 8;
    if (polls % kPollsPerHostCheck != 0) return 0;
    return load_system(group.control->host_words + 1);
  }

  SINTER_DEVICE bool give_up(u32 why) const {
    if (threadIdx.x % kVoters == 0) group.end(why);
    return false;
  }
};

// The whole kernel: any grid, the same on all ranks, and no more blocks than the GPU can hold at
// once. All threads call. Work is made of `args`, the group and a wait:
// - prepare(): while earlier kernels run. It reads what never changes, and brings the rest to L2.
// - ask(): loads what is sent first, beside the call's number, without which nothing can be sent.
// - run(): sends and waits; false: the group has ended.
// kSendsHeader: this kernel sends the call's header, not the one before it (Pusher).
template <class Work, bool kSendsHeader = true, class Arguments>
SINTER_DEVICE void rank_call(const Arguments& args) {
  launch_dependents();
  Group<Work::kRanks> group(args.group);
  const CallHeader call{static_cast<u32>(args.rows), args.digest};
  RankWait<Work::kRanks> wait{group, call};
  Work work{args, group, wait};
  work.prepare();
  // An earlier call of this group must have ended before this one sends: see Group.
  wait_for_predecessors();
  group.begin();
  work.ask();
  if (group.ended != 0) {
    if (blockIdx.x == 0 && threadIdx.x == 0) store_system(group.control->host_words, group.ended);
    return;
  }
  if (kSendsHeader && blockIdx.x == 0 && threadIdx.x < kVoters) push_header(group, call);
  if (!work.run()) return;
  // Every thread of the block has read the epoch. The next kernel alone reads what follows, so that
  // nothing needs a fence, which would wait for stores on their way to other GPUs.
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (fetch_add_gpu(&args.group->blocks_done, 1) + 1 == gridDim.x) group.advance();
}

}  // namespace sinter
