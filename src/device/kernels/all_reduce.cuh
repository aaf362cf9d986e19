// Sums over the ranks of a group, rounded where the chain casts, with a residual behind them and
// the RMS norm of the rows: all-reduce by pushes into the other ranks' slots. A slot's words
// are empty until data arrives, so nothing else says that it has: "Lamport" in the field's words,
// as TensorRT-LLM and FlashInfer do it.
//
// One-shot: each rank sends all of x to all others and sums everything. Two-shot: each part has an
// owner that sums it and sends the rounded sum to the others: of R ranks, 2 / R of the bytes. Each
// rank adds its own residual.
//
// Reduce-scatter is the one-shot form in which each rank is sent, and sums, its own part of x.
// Sums take ranks in order and results are stored as they were sent, so all ranks have equal bits.
#pragma once
#include "kernels/all_reduce_values.cuh"
#include "ptx/sync.cuh"
#include "ranks/call.cuh"
#include "ranks/units.cuh"

namespace sinter {

struct AllReduceArguments {
  GroupControl* group;
  const void* x;         // [rows, columns] of Element, contiguous, as all matrices here; with
                         // kScatter of all ranks' parts: see row_of_part
  const void* residual;  // of Result; may be `out`
  const void* gamma;     // of Result: [columns], of the norm
  void* out;             // of Result; may be `x` if the types are equal
  void* normed;          // of Result: the norm of `out`, which may be null where there is one
  int rows;              // 1 or more
  u64 digest;            // of the plan
};

// A chunk is what a thread sums of a unit. Blocks take units in turns, and send some of them ahead
// of the one that they wait for.
template <class Config>
struct AllReduce {
  using Values = AllReduceValues<Config>;
  static constexpr int kRanks = Config::kRanks, kThreads = Config::kThreads;
  using Place = UnitPlace<kThreads, Config::kColumns / Values::kElements>;
  static constexpr int kParts = Place::kParts;
  static constexpr int kIn = Values::kIn, kOut = Values::kOut;

  const AllReduceArguments& args;
  const Group<kRanks>& group;
  RankWait<kRanks>& wait;

  SINTER_DEVICE int rank() const { return static_cast<int>(group.rank); }
  SINTER_DEVICE static int owner(int unit) { return unit % kRanks; }

  // The chunk of x that rank `of` sums.
  SINTER_DEVICE u64 chunk_of(int of, const Place& place) const {
    if constexpr (Config::kScatter)
      return place.chunk_of_row(row_of_part<kRanks, Config::kByRows>(of, place.row, args.rows));
    else
      return place.chunk();
  }
  // Where parts and sums of the two-shot form lie, in vectors: a slot's first half is of parts that
  // its reader owns, the second of sums that its writer owns.
  SINTER_DEVICE u64 owned_chunk(int unit) const {
    return static_cast<u64>(unit / kRanks) * kThreads + threadIdx.x;
  }
  SINTER_DEVICE u64 part_at(int unit) const { return owned_chunk(unit) * kIn; }
  SINTER_DEVICE u64 sum_at(int unit) const {
    return group.slot_vectors / 2 + owned_chunk(unit) * kOut;
  }

  // To each other rank what it sums.
  SINTER_DEVICE void send_to_all(int unit) const {
    const Place place(unit);
    if (!place.inside) return;
    Word4 own[kIn];
    if constexpr (!Config::kScatter) Values::load_x(args.x, place.chunk(), own);
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if (r == rank()) continue;
      if constexpr (Config::kScatter) Values::load_x(args.x, chunk_of(r, place), own);
      push(group.slot(r, rank()) + place.chunk() * kIn, own);
    }
  }
  SINTER_DEVICE void send_to_owner(int unit) const {
    const Place place(unit);
    if (!place.inside || owner(unit) == rank()) return;
    Word4 own[kIn];
    Values::load_x(args.x, place.chunk(), own);
    push(group.slot(owner(unit), rank()) + part_at(unit), own);
  }

  // Waits for all other ranks' parts of a unit, adds them in rank order and stores the result.
  // `at`: of the parts in the slots, in vectors. False: the group has ended.
  template <bool kSends>
  SINTER_DEVICE bool sum(int unit, u64 at, Word4 (&result)[kOut]) {
    const Place place(unit);
    Word4 parts[kRanks][kIn], own[kIn], residual[kOut];
    if (place.inside) {
      Values::load_x(args.x, chunk_of(rank(), place), own);
      Values::load_residual(args.residual, place.chunk(), residual);
    }
    const bool all = wait.until([&]() -> u32 {
      u32 lacks = 0;
      if (!place.inside) return lacks;
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (r != rank() && !take(group.slot(rank(), r) + at, parts[r])) lacks = r + 1;
      return lacks;
    });
    if (!all) return false;
    if (place.inside) {
      float total[Values::kElements];
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        Word4 v[kIn];
#pragma unroll
        for (int j = 0; j < kIn; ++j) v[j] = r == rank() ? own[j] : parts[r][j];
        Values::add(v, r == 0, total);
      }
      Values::round(total, result);
      if constexpr (kSends) {
#pragma unroll
        for (int r = 0; r < kRanks; ++r)
          if (r != rank()) push(group.slot(r, rank()) + sum_at(unit), result);
      }
      Values::add_residual(total, residual, result);
      if (!Config::kNorm || args.out != nullptr) Values::store(args.out, place.chunk(), result);
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (r != rank()) empty<kIn>(group.slot(rank(), r) + at);
    }
    return true;
  }

  // Waits for the owner's sums of a unit and stores them.
  SINTER_DEVICE bool receive(int unit) {
    const Place place(unit);
    Word4* slot = group.slot(rank(), owner(unit)) + sum_at(unit);
    Word4 result[kOut], residual[kOut];
    if (place.inside) Values::load_residual(args.residual, place.chunk(), residual);
    const bool all = wait.until(
        [&]() -> u32 { return !place.inside || take(slot, result) ? 0 : owner(unit) + 1; });
    if (!all) return false;
    if (place.inside) {
      Values::add_own(residual, result);
      Values::store(args.out, place.chunk(), result);
      empty<kOut>(slot);
    }
    return true;
  }

  SINTER_DEVICE bool one_shot() {
    const int units = args.rows * kParts, step = static_cast<int>(gridDim.x);
    int sent = static_cast<int>(blockIdx.x);
    for (int unit = sent; unit < units; unit += step) {
      for (; sent < units && sent <= unit + Config::kAhead * step; sent += step) send_to_all(sent);
      Word4 result[kOut];
      if (!sum<false>(unit, Place(unit).chunk() * kIn, result)) return false;
    }
    return true;
  }

  // One-shot, of whole rows: a block sums a row, of which its threads then hold all results, and
  // stores the norm of what is stored.
  SINTER_DEVICE bool rows_with_norms() {
    const int step = static_cast<int>(gridDim.x);
    int sent = static_cast<int>(blockIdx.x);
    for (int row = sent; row < args.rows; row += step) {
      for (; sent < args.rows && sent <= row + Config::kAhead * step; sent += step)
        for (int part = 0; part < kParts; ++part) send_to_all(sent * kParts + part);
      Word4 results[kParts][kOut];
      float square = 0;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Place place(row * kParts + part);
        if (!sum<false>(row * kParts + part, place.chunk() * kIn, results[part])) return false;
        if (place.inside) square += Values::square(results[part]);
      }
      const float mean = block_sum<kThreads>(square) / Config::kColumns;
      const float factor = rsqrtf(mean + Config::kEps);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Place place(row * kParts + part);
        if (!place.inside) continue;
        Values::scale(args.gamma, place.column, factor, results[part]);
        Values::store(args.normed, place.chunk(), results[part]);
      }
    }
    return true;
  }

  // Units are sent ahead of those that are summed, and these of those that are received, so that a
  // block does not wait for one trip after the other.
  SINTER_DEVICE bool two_shot() {
    const int units = args.rows * kParts, step = static_cast<int>(gridDim.x);
    int sent = static_cast<int>(blockIdx.x), summed = sent;
    for (int unit = sent; unit < units; unit += step) {
      for (; sent < units && sent <= unit + 2 * Config::kAhead * step; sent += step)
        send_to_owner(sent);
      for (; summed < units && summed <= unit + Config::kAhead * step; summed += step)
        if (Word4 own[kOut]; owner(summed) == rank() && !sum<true>(summed, part_at(summed), own))
          return false;
      if (owner(unit) != rank() && !receive(unit)) return false;
    }
    return true;
  }
};

// The whole kernel: see rank_call.
template <class Config>
SINTER_DEVICE void all_reduce(const AllReduceArguments& args) {
  rank_call<Config::kRanks>(args.group, {static_cast<u32>(args.rows), args.digest},
                            [&](const auto& group, auto& wait) {
                              AllReduce<Config> reduce{args, group, wait};
                              if constexpr (Config::kNorm)
                                return reduce.rows_with_norms();
                              else if constexpr (Config::kTwoShot)
                                return reduce.two_shot();
                              else
                                return reduce.one_shot();
                            });
}

}  // namespace sinter
