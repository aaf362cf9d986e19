// What all ranks of a group have of a matrix, joined: each rank pushes its part into a slot of
// every other rank, whose words are empty until data arrives, and copies what arrives. It moves
// 16-byte vectors, whatever their elements are; a word of NaNs that looks like an empty one arrives
// as another NaN.
#pragma once
#include "ranks/call.cuh"
#include "ranks/room.cuh"

namespace sinter {

struct AllGatherArguments {
  GroupControl* group;
  const void* x;  // [rows, kRowVectors] vectors, contiguous
  void* out;      // of all ranks' parts: see row_of_part
  int rows;       // of x, 1 or more
  u64 digest;     // of the plan
};

// Blocks take units in turns, and send some of them ahead of the one that they wait for.
template <class Config>
struct AllGather {
  static constexpr int kRanks = Config::kRanks;
  using Place = UnitPlace<Config::kThreads, Config::kRowVectors>;

  const AllGatherArguments& args;
  const Group<kRanks>& group;
  RankWait<kRanks>& wait;

  SINTER_DEVICE int rank() const { return static_cast<int>(group.rank); }
  SINTER_DEVICE void store(int of, const Place& place, const Word4& v) const {
    const u64 row = row_of_part<kRanks, Config::kByRows>(of, place.row, args.rows);
    static_cast<Word4*>(args.out)[place.chunk_of_row(row)] = v;
  }

  SINTER_DEVICE void send(int unit) const {
    const Place place(unit);
    if (!place.inside) return;
    const Word4 own[1] = {occupied(static_cast<const Word4*>(args.x)[place.chunk()])};
#pragma unroll
    for (int r = 0; r < kRanks; ++r)
      if (r != rank()) push(group.slot(r, rank()) + place.chunk(), own);
    store(rank(), place, own[0]);  // as the others have it
  }

  // False: the group has ended.
  SINTER_DEVICE bool receive(int unit) {
    const Place place(unit);
    Word4 parts[kRanks][1];
    const bool all = wait.until([&]() -> u32 {
      u32 lacks = 0;
      if (!place.inside) return lacks;
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (r != rank() && !take(group.slot(rank(), r) + place.chunk(), parts[r])) lacks = r + 1;
      return lacks;
    });
    if (!all) return false;
    if (!place.inside) return true;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if (r == rank()) continue;
      store(r, place, parts[r][0]);
      empty<1>(group.slot(rank(), r) + place.chunk());
    }
    return true;
  }

  SINTER_DEVICE void prepare() {}
  SINTER_DEVICE void ask() {}
  SINTER_DEVICE bool run() {
    const int units = args.rows * Place::kParts, step = static_cast<int>(gridDim.x);
    int sent = static_cast<int>(blockIdx.x);
    for (int unit = sent; unit < units; unit += step) {
      for (; sent < units && sent <= unit + Config::kAhead * step; sent += step) send(sent);
      if (!receive(unit)) return false;
    }
    return true;
  }
};

// The whole kernel: see rank_call.
template <class Config>
SINTER_DEVICE void all_gather(const AllGatherArguments& args) {
  rank_call<AllGather<Config>>(args);
}

}  // namespace sinter
