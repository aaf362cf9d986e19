// Sums over the ranks of a group, with a program of element-wise ops after them and the RMS norm of
// the rows: all-reduce by pushes into the other ranks' slots. A slot's words are empty until data
// arrives, so nothing else says that it has: "Lamport" in the field's words, as TensorRT-LLM and
// FlashInfer do it.
//
// One-shot: each rank sends all of x to all others and sums everything. Two-shot: each part has an
// owner that sums it and sends the rounded sum to the others: of R ranks, 2 / R of the bytes. Each
// rank applies the program to leaves of its own, and makes the norms of all rows.
// Reduce-scatter is the one-shot form in which each rank is sent, and sums, its own part of x.
// Sums take ranks in order and results are stored as they were sent, so all ranks have equal bits.
//
// The kernel before this one, which computed x, may have pushed the first Config::kPushedColumns of
// each row, and the header (kernels/push.cuh). One-shot.
#pragma once
#include "kernels/all_reduce_values.cuh"
#include "ptx/sync.cuh"
#include "ranks/call.cuh"
#include "ranks/room.cuh"

namespace sinter {

struct AllReduceArguments {
  GroupControl* group;
  const void* x;          // [rows, columns] of Element, contiguous, as all matrices here; with
                          // kScatter of all ranks' parts: see row_of_part
  const void* leaves[4];  // of both programs, of Result: matrices, which may be `out`, and vectors
                          // [columns]
  void* out;              // of Result; may be `x` if the types are equal
  void* normed;           // of Result: the norm of `out`, which may be null where there is one
  int rows;               // 1 or more
  u64 digest;             // of the plan
};

// A chunk is what a thread sums of a unit. Blocks take units in turns, and send some of them ahead
// of the one that they wait for.
template <class Config>
struct AllReduce {
  using Values = AllReduceValues<Config>;
  static constexpr int kRanks = Config::kRanks, kPeers = kRanks - 1, kThreads = Config::kThreads;
  using Place = UnitPlace<kThreads, Config::kColumns / Values::kElements>;
  static constexpr int kParts = Place::kParts;
  static constexpr int kIn = Values::kIn, kOut = Values::kOut;
  static constexpr int kTogether = Config::kTogether;  // parts of a row that are waited for at once
  static constexpr int kPushed = Config::kPushedColumns / Values::kElements;  // chunks of a row
  static constexpr bool kAllPushed = Config::kPushedColumns == Config::kColumns;

  const AllReduceArguments& args;
  const Group<kRanks>& group;
  RankWait<kRanks>& wait;
  static_assert(kPushed == 0 || !(Config::kTwoShot || Config::kScatter), "each rank is sent x");
  static_assert(Config::kPushedColumns % Values::kElements == 0, "whole chunks are pushed");

  SINTER_DEVICE int rank() const { return static_cast<int>(group.rank); }
  // Units that blocks take in turns: all of a row, of which a norm is made, or one.
  static constexpr int kOfTurn = Config::kNorm ? kParts : 1;
  SINTER_DEVICE static int owner(int unit) { return unit / kOfTurn % kRanks; }
  // The i-th of the other ranks.
  SINTER_DEVICE int peer(int i) const { return i + (i >= rank() ? 1 : 0); }

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
    const int owned = unit / kOfTurn / kRanks * kOfTurn + unit % kOfTurn;
    return static_cast<u64>(owned) * kThreads + threadIdx.x;
  }
  SINTER_DEVICE u64 part_at(int unit) const { return owned_chunk(unit) * kIn; }
  SINTER_DEVICE u64 sum_at(int unit) const {
    return group.slot_vectors / 2 + owned_chunk(unit) * kOut;
  }

  SINTER_DEVICE void send(int to, u64 at, const Word4 (&v)[kIn]) const {
    push(group.slot(to, rank()) + at, v);
  }
  SINTER_DEVICE void send_to_all(int unit, const Word4 (&own)[kIn]) const {
    const Place place(unit);
    if (!place.inside) return;
#pragma unroll
    for (int i = 0; i < kPeers; ++i) send(peer(i), place.chunk() * kIn, own);
  }
  // To each other rank what it sums, unless that is pushed.
  SINTER_DEVICE void send_to_all(int unit) const {
    const Place place(unit);
    if (!place.inside || (kPushed > 0 && place.column < kPushed)) return;
    Word4 own[kIn];
    if constexpr (!Config::kScatter) Values::load_x(args.x, place.chunk(), own);
#pragma unroll
    for (int i = 0; i < kPeers; ++i) {
      if constexpr (Config::kScatter) Values::load_x(args.x, chunk_of(peer(i), place), own);
      send(peer(i), place.chunk() * kIn, own);
    }
  }
  SINTER_DEVICE void send_to_owner(int unit) const {
    const Place place(unit);
    if (!place.inside || owner(unit) == rank()) return;
    Word4 own[kIn];
    Values::load_x(args.x, place.chunk(), own);
    send(owner(unit), part_at(unit), own);
  }

  using Program = typename Config::Program;
  using NormProgram = typename Config::NormProgram;
  static constexpr int kLeaves = Values::template kLeaves<Program>;
  static constexpr int kNormLeaves = Values::template kLeaves<NormProgram>;
  // What a thread reads of a unit: its own part, the leaves, and what the others sent.
  struct Terms {
    Word4 own[kIn], leaves[kLeaves], parts[kPeers][kIn];
  };
  template <class P>
  SINTER_DEVICE const Word4* leaf_at(int l, const Place& place) const {
    const auto* leaf = static_cast<const Word4*>(args.leaves[P::kFirst + l]);
    return P::kMatrices >> l & 1 ? leaf + place.chunk() * kOut : leaf + place.column * kOut;
  }
  template <class P, int kVectors>
  SINTER_DEVICE void load_leaves(const Place& place, Word4 (&leaves)[kVectors]) const {
    if constexpr (P::kLeaves > 0) {
#pragma unroll
      for (int i = 0; i < P::kLeaves * kOut; ++i) leaves[i] = leaf_at<P>(i / kOut, place)[i % kOut];
    }
  }
  SINTER_DEVICE void load(int unit, Terms& terms) const {
    const Place place(unit);
    if (!place.inside) return;
    Values::load_x(args.x, chunk_of(rank(), place), terms.own);
    load_leaves<Program>(place, terms.leaves);
  }
  // 1 + the rank whose part is not there, or 0. `at`: of the parts in the slots, in vectors.
  SINTER_DEVICE u32 missing(int unit, u64 at, Terms& terms) const {
    u32 lacks = 0;
    if (!Place(unit).inside) return lacks;
#pragma unroll
    for (int i = 0; i < kPeers; ++i)
      if (!take(group.slot(rank(), peer(i)) + at, terms.parts[i])) lacks = peer(i) + 1;
    return lacks;
  }
  // Adds the parts in rank order, stores the result and empties the slots.
  template <bool kSends>
  SINTER_DEVICE void add(int unit, u64 at, const Terms& terms, Word4 (&result)[kOut]) const {
    const Place place(unit);
    if (!place.inside) return;
    float total[Values::kElements];
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      Word4 v[kIn];
#pragma unroll
      for (int j = 0; j < kIn; ++j)
        v[j] = r == rank()  ? terms.own[j]
               : r < rank() ? terms.parts[r < kPeers ? r : 0][j]
                            : terms.parts[r > 0 ? r - 1 : 0][j];
      Values::add(v, r == 0, total);
    }
    const auto sum = [&](int i) { return total[i]; };
    Values::make(result, sum);
    if constexpr (kSends) {
#pragma unroll
      for (int i = 0; i < kPeers; ++i) push(group.slot(peer(i), rank()) + sum_at(unit), result);
    }
    Values::template apply<Program>(sum, terms.leaves, result);
    if (!Config::kNorm || args.out != nullptr) Values::store(args.out, place.chunk(), result);
#pragma unroll
    for (int i = 0; i < kPeers; ++i) empty<kIn>(group.slot(rank(), peer(i)) + at);
  }

  // Waits for all other ranks' parts of a unit and adds them. False: the group has ended.
  template <bool kSends>
  SINTER_DEVICE bool sum(int unit, u64 at, Word4 (&result)[kOut]) {
    Terms terms;
    load(unit, terms);
    if (!wait.until([&]() -> u32 { return missing(unit, at, terms); })) return false;
    add<kSends>(unit, at, terms, result);
    return true;
  }

  // Waits for the owner's sums of a unit, applies the program, and stores the results.
  SINTER_DEVICE bool receive(int unit, Word4 (&result)[kOut]) {
    const Place place(unit);
    Word4* slot = group.slot(rank(), owner(unit)) + sum_at(unit);
    Word4 leaves[kLeaves];
    if (place.inside) load_leaves<Program>(place, leaves);
    const bool all = wait.until(
        [&]() -> u32 { return !place.inside || take(slot, result) ? 0 : owner(unit) + 1; });
    if (!all) return false;
    if (place.inside) {
      Values::template apply<Program>([](int) { return 0.0f; }, leaves, result);
      if (!Config::kNorm || args.out != nullptr) Values::store(args.out, place.chunk(), result);
      empty<kOut>(slot);
    }
    return true;
  }

  // In one shot a block asks for what it sends first.
  static constexpr bool kAsks = !Config::kTwoShot && kPushed == 0 && !Config::kScatter;
  struct First {
    Word4 own[kOfTurn][kIn];
  };
  First first = {};

  SINTER_DEVICE void ask() {
    if (!kAsks) return;
    const int unit = static_cast<int>(blockIdx.x) * kOfTurn;
#pragma unroll
    for (int part = 0; part < kOfTurn; ++part) {
      const Place place(unit + part);
      if (place.inside && place.row < args.rows)
        Values::load_x_now(args.x, place.chunk(), first.own[part]);
    }
  }
  // Sends what was asked for. Returns the first unit, or row, of the block that is not sent yet.
  SINTER_DEVICE int send_first() const {
    const int block = static_cast<int>(blockIdx.x);
    if (!kAsks) return block;
#pragma unroll
    for (int part = 0; part < kOfTurn; ++part) {
      const int unit = block * kOfTurn + part;
      if (Place(unit).row < args.rows) send_to_all(unit, first.own[part]);
    }
    return block + static_cast<int>(gridDim.x);
  }

  // While predecessors run: the leaves of the first row or part come to L2, from where what is then
  // valid is loaded.
  SINTER_DEVICE void prepare() const {
    const int unit = static_cast<int>(blockIdx.x) * kOfTurn;
#pragma unroll
    for (int part = 0; part < kOfTurn; ++part) {
      const Place place(unit + part);
      if (!place.inside || place.row >= args.rows) continue;
#pragma unroll
      for (int l = 0; l < Program::kLeaves && !Config::kTwoShot; ++l)
        prefetch_l2(leaf_at<Program>(l, place));
#pragma unroll
      for (int l = 0; l < NormProgram::kLeaves; ++l) prefetch_l2(leaf_at<NormProgram>(l, place));
    }
  }

  SINTER_DEVICE bool one_shot() {
    const int units = args.rows * kParts, step = static_cast<int>(gridDim.x);
    int sent = send_first();
    for (int unit = static_cast<int>(blockIdx.x); unit < units; unit += step) {
      if (!kAllPushed)
        for (; sent < units && sent <= unit + Config::kAhead * step; sent += step)
          send_to_all(sent);
      Word4 result[kOut];
      if (!sum<false>(unit, Place(unit).chunk() * kIn, result)) return false;
    }
    return true;
  }

  // Waits for kTogether parts of a row, from `unit` on, and adds them; with the norm's leaves, and
  // what their squares add to `square`. False: the group has ended.
  SINTER_DEVICE bool sum_together(int unit, Word4 (*leaves)[kNormLeaves], Word4 (*results)[kOut],
                                  float& square) {
    Terms terms[kTogether];
    const auto at = [&](int i) { return Place(unit + i).chunk() * kIn; };
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      load(unit + i, terms[i]);
      const Place place(unit + i);
      if (place.inside) load_leaves<NormProgram>(place, leaves[i]);
    }
    const bool all = wait.until([&]() -> u32 {
      u32 lacks = 0;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const u32 rank = missing(unit + i, at(i), terms[i]);
        lacks = rank != 0 ? rank : lacks;
      }
      return lacks;
    });
    if (!all) return false;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      add<false>(unit + i, at(i), terms[i], results[i]);
      if (Place(unit + i).inside) square += Values::square(results[i]);
    }
    return true;
  }

  // One-shot, of whole rows: a block sums a row, of which its threads then hold all results, and
  // stores the norm of what is stored.
  SINTER_DEVICE bool rows_with_norms() {
    const int step = static_cast<int>(gridDim.x);
    int sent = send_first();
    for (int row = static_cast<int>(blockIdx.x); row < args.rows; row += step) {
      if (!kAllPushed)
        for (; sent < args.rows && sent <= row + Config::kAhead * step; sent += step)
          for (int part = 0; part < kParts; ++part) send_to_all(sent * kParts + part);
      Word4 leaves[kParts][kNormLeaves], results[kParts][kOut];
      float square = 0;
#pragma unroll
      for (int part = 0; part < kParts; part += kTogether)
        if (!sum_together(row * kParts + part, leaves + part, results + part, square)) return false;
      norm_of(row, square, leaves, results);
    }
    return true;
  }

  // By all threads, which hold the results of the row and the squares of them.
  SINTER_DEVICE void norm_of(int row, float square, const Word4 (&leaves)[kParts][kNormLeaves],
                             Word4 (&results)[kParts][kOut]) const {
    const float mean = block_sum<kThreads>(square) / Config::kColumns;
    const float factor = rsqrtf(mean + Config::kEps);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const Place place(row * kParts + part);
      if (!place.inside) continue;
      Values::scale(leaves[part], factor, results[part]);
      Values::store(args.normed, place.chunk(), results[part]);
    }
  }

  // Of two shots a unit, or a row with its norm, as its owner, or as another rank.
  template <bool kOwner>
  SINTER_DEVICE bool finish(int turn) {
    Word4 leaves[kOfTurn][kNormLeaves], results[kOfTurn][kOut];
    float square = 0;
#pragma unroll
    for (int part = 0; part < kOfTurn; ++part) {
      const int unit = turn * kOfTurn + part;
      const Place place(unit);
      if (place.inside) load_leaves<NormProgram>(place, leaves[part]);
      if constexpr (kOwner) {
        if (!sum<true>(unit, part_at(unit), results[part])) return false;
      } else {
        if (!receive(unit, results[part])) return false;
      }
      if (Config::kNorm && place.inside) square += Values::square(results[part]);
    }
    if constexpr (Config::kNorm) norm_of(turn, square, leaves, results);
    return true;
  }

  // Units are sent ahead of those that are summed, and these of those that are received, so that a
  // block does not wait for one trip after the other.
  SINTER_DEVICE bool two_shot() {
    const int turns = args.rows * (kParts / kOfTurn), step = static_cast<int>(gridDim.x);
    int sent = static_cast<int>(blockIdx.x), summed = sent;
    for (int turn = sent; turn < turns; turn += step) {
      for (; sent < turns && sent <= turn + 2 * Config::kAhead * step; sent += step)
        for (int part = 0; part < kOfTurn; ++part) send_to_owner(sent * kOfTurn + part);
      for (; summed < turns && summed <= turn + Config::kAhead * step; summed += step)
        if (owner(summed * kOfTurn) == rank() && !finish<true>(summed)) return false;
      if (owner(turn * kOfTurn) != rank() && !finish<false>(turn)) return false;
    }
    return true;
  }

  SINTER_DEVICE bool run() {
    if constexpr (Config::kTwoShot)
      return two_shot();
    else if constexpr (Config::kNorm)
      return rows_with_norms();
    else
      return one_shot();
  }
};

// The whole kernel: see rank_call.
template <class Config>
SINTER_DEVICE void all_reduce(const AllReduceArguments& args) {
  rank_call<AllReduce<Config>, Config::kPushedColumns == 0>(args);
}

}  // namespace sinter
