// A product's result that is pushed to the other ranks of a group too, for the sum over ranks
// behind it: tiles travel while others are computed.
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

}  // namespace sinter
