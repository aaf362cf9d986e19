// How blocks share a matrix that ranks exchange, and how its words lie in slots.
#pragma once
#include "ranks/room.cuh"

namespace sinter {

// A word that is not kEmpty, and as good.
SINTER_DEVICE u32 occupied_word(u32 word) { return word == kEmpty ? kQuietNans : word; }
SINTER_DEVICE Word4 occupied(const Word4& v) {
  return {occupied_word(v.x), occupied_word(v.y), occupied_word(v.z), occupied_word(v.w)};
}
SINTER_DEVICE bool is_there(const Word4& v) {
  return v.x != kEmpty && v.y != kEmpty && v.z != kEmpty && v.w != kEmpty;
}

// Into a slot of another rank.
template <int kVectors>
SINTER_DEVICE void push(Word4* slot, const Word4 (&v)[kVectors]) {
#pragma unroll
  for (int j = 0; j < kVectors; ++j) store_system(slot + j, occupied(v[j]));
}
// Out of a slot of this rank; whether all of it has arrived.
template <int kVectors>
SINTER_DEVICE bool take(const Word4* slot, Word4 (&v)[kVectors]) {
  bool there = true;
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    v[j] = load_system(slot + j);
    there = there && is_there(v[j]);
  }
  return there;
}
template <int kVectors>
SINTER_DEVICE void empty(Word4* slot) {
#pragma unroll
  for (int j = 0; j < kVectors; ++j) store_system(slot + j, {kEmpty, kEmpty, kEmpty, kEmpty});
}

// The part of one rank in a matrix of all ranks' parts, which the op names: rows of a part lie one
// behind the other (kByRows), or beside those of the other ranks.
template <int kRanks, bool kByRows>
SINTER_DEVICE u64 row_of_part(int rank, int row, int rows) {
  return kByRows ? static_cast<u64>(rank) * static_cast<u32>(rows) + static_cast<u32>(row)
                 : static_cast<u64>(row) * kRanks + static_cast<u32>(rank);
}

// A unit is kThreads chunks of one row, by one block, of which each thread takes one. Where a
// thread's chunk of a unit lies; behind a row's end there is none.
template <int kThreads, int kRowChunks>
struct UnitPlace {
  static constexpr int kParts = (kRowChunks + kThreads - 1) / kThreads;  // units of a row
  int row, part, column;
  bool inside;
  SINTER_DEVICE explicit UnitPlace(int unit)
      : row(unit / kParts),
        part(unit % kParts),
        column(part * kThreads + static_cast<int>(threadIdx.x)),
        inside(column < kRowChunks) {}
  SINTER_DEVICE u64 chunk() const { return chunk_of_row(static_cast<u64>(row)); }
  SINTER_DEVICE u64 chunk_of_row(u64 of) const { return of * kRowChunks + column; }
};

}  // namespace sinter
