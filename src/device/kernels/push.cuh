// A product's result that is pushed to the other ranks of a group too, for the sum over ranks
// behind it: tiles travel while others are computed. Of few rows the consumers send what they store
// (PushedTo). Of many, they would wait for the link at the end of every tile: a warp that else
// idles sends tiles from memory while the next are multiplied (SentBehind).
#pragma once
#include "kernels/tile_ends.cuh"
#include "ranks/push.cuh"

namespace sinter {

// Stands in the place of auxiliary results. Arguments::aux1 is the room, aux1_stride the word of
// the plan.
template <int kRanks>
struct PushedTo {};

// Writes to memory, and sends the same to the other ranks as rows without gaps. Results have 16
// bits. No tiles overlap, so each element is sent once.
template <class Writer, int kColumns, int kRanks>
struct PushingWriter : Writer {
  Pusher<kRanks> pusher;
  static_assert(Writer::Element::kBytes == 2 && kColumns % 8 == 0, "rows are whole vectors");

  SINTER_DEVICE PushingWriter(const Writer& writer, const Pusher<kRanks>& pusher)
      : Writer(writer), pusher(pusher) {}

  SINTER_DEVICE void group(int row, int column, Word4 v) const {
    Writer::group(row, column, v);
    if (exists(row, column)) pusher.vector(first(row, column) / 8, v);
  }
  SINTER_DEVICE void pair(int row, int column, u32 v) const {
    Writer::pair(row, column, v);
    if (exists(row, column)) pusher.word(first(row, column) / 2, v);
  }

 private:
  SINTER_DEVICE bool exists(int row, int column) const {
    return row < this->rows && column < kColumns;
  }
  static SINTER_DEVICE u64 first(int row, int column) {
    return static_cast<u64>(row) * kColumns + column;
  }
};

// Called by the consumers, behind wait_for_predecessors(). The first warp of the first block's
// sends the header.
template <class Config, class P, class Writer, int kRanks>
SINTER_DEVICE auto with_aux(const Writer& writer, const Arguments& args, PushedTo<kRanks>) {
  const CallHeader call{static_cast<u32>(args.m), static_cast<u64>(args.aux1_stride)};
  const bool first = blockIdx.x == 0 && threadIdx.x / kVoters == 128 / kVoters;
  return PushingWriter<Writer, P::kN, kRanks>(
      writer, Pusher<kRanks>(static_cast<GroupControl*>(args.aux1), call, first));
}

// Stands in the place of auxiliary results, with the same arguments. Of each row the first kColumns
// columns, whole tiles, are sent so; the others, of the last tiles, by the kernel that sums, since
// this one ends when all is sent.
template <int kRanks, int kColumns>
struct SentBehind {};

template <class Config, class P, class Writer, int kRanks, int kColumns>
SINTER_DEVICE Writer with_aux(const Writer& writer, const Arguments&,
                              SentBehind<kRanks, kColumns>) {
  return writer;
}

template <int kRanks, int kColumns>
struct AfterTiles<SentBehind<kRanks, kColumns>> {
  static constexpr bool kPresent = true;
  static constexpr int kAtOnce = kRanks <= 2 ? 4 : 2;  // vectors of a lane: registers are few

  // By every warp of the consumers, once its part of a tile is stored. `count`: 0 at first.
  static SINTER_DEVICE void stored(u32 count) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) add_release_shared(count, 1);
  }

  // By one warp, behind wait_for_predecessors(): all tiles of this block, in order.
  template <class Config, class P, class Walk>
  static SINTER_DEVICE void send(const Arguments& args, const Walk& walk, u32 count) {
    static_assert(kColumns % (P::kBlockN * P::kRowsShare) == 0 && P::kSplitK == 1, "whole tiles");
    static_assert(Config::kOutAligned && Config::Result::kBytes == 2, "rows are whole vectors");
    const CallHeader call{static_cast<u32>(args.m), static_cast<u64>(args.aux1_stride)};
    const Pusher<kRanks> pusher(static_cast<GroupControl*>(args.aux1), call, blockIdx.x == 0);
    u32 awaited = 0;
    for (int unit = walk.first; unit < walk.units(); unit += walk.step) {
      awaited += 4 * consumers<Config>();
      const int column = walk.column(unit);
      if (column >= kColumns) continue;
      while (static_cast<int>(load_acquire_shared(count) - awaited) < 0) nap();
      // Rows that are its neighbour's too are sent by that one.
      const int end = walk.row(unit) + Config::kBlockM;
      send_tile<P>(args, pusher, walk.own_row(unit), end < args.m ? end : args.m, column);
    }
  }

 private:
  template <class P>
  static SINTER_DEVICE void send_tile(const Arguments& args, const Pusher<kRanks>& pusher, int row,
                                      int end, int column) {
    constexpr int kOfRow = P::kBlockN / 8;
    const int vectors = (end - row) * kOfRow;
    const auto* from = static_cast<const Word4*>(args.out);
    const long long stride = args.out_stride / 8;
    for (int first = static_cast<int>(threadIdx.x) % 32; first < vectors; first += 32 * kAtOnce) {
      Word4 v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + 32 * i;
        if (at < vectors)
          v[i] = load_now(from + (row + at / kOfRow) * stride + column / 8 + at % kOfRow);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + 32 * i;
        if (at < vectors)
          pusher.vector(
              static_cast<u64>(row + at / kOfRow) * (P::kN / 8) + column / 8 + at % kOfRow, v[i]);
      }
    }
  }
};

}  // namespace sinter
