// The room of a rank: memory on its GPU that the other ranks of its group write. At its beginning
// lies what its kernels know of the group, behind it the headers of calls, then the slots.
// RankRoom of src/base/peer_memory.h says the same to the host.
#pragma once
#include "ptx/system.cuh"

namespace sinter {

constexpr int kMaxRanks = 8;
constexpr u32 kHeadersAt = 1024, kSlotsAt = 4096;  // bytes

// A word of a slot that holds nothing: two NaNs of 16 bits, or one of 32, that no instruction
// makes. A sender writes kQuietNans in its place, which is NaN too, so no value is changed.
constexpr u32 kEmpty = 0xFFFFFFFFu, kQuietNans = 0x7FFF7FFFu;

// Why a group ended: one of these, with the number of a rank from bit 8 on. 0: it did not.
constexpr u32 kTimedOut = 1;    // the rank sent nothing for the time allowed
constexpr u32 kMismatch = 2;    // the rank's call is another one: of another plan, or of another M
constexpr u32 kWasAborted = 3;  // by the host of that rank

// Written by the host when the group is made; epoch and blocks_done by this rank's kernels, outcome
// by every rank's.
struct GroupControl {
  u32 epoch;        // calls so far
  u32 blocks_done;  // of the call that runs
  u32 outcome;
  u32 rank;
  u64 timeout_ns;    // 0: never
  u64 slot_vectors;  // 16-byte vectors of a slot
  u32* host_words;   // pinned: the outcome, for the host; and an outcome that the host asks for
  u64 reserved;
  unsigned char* rooms[kMaxRanks];  // of all ranks, as this GPU addresses them
};

// A group as one thread sees it in one call.
//
// Each rank has two halves of a slot of every rank, used by calls in turn, and likewise headers. A
// call n + 2, which uses the half of call n again, begins on a peer once it has all data of call
// n + 1 of this rank. That was sent by a later kernel than the one that emptied its slots of call
// n. So two halves suffice, provided that a kernel ends between two calls of a rank.
template <int kRanks>
struct Group {
  GroupControl* control;
  u32 rank;
  u64 slot_vectors;
  unsigned char* room;  // this rank's
  u32 epoch = 0;        // of this call
  u32 ended = 0;        // why an earlier call ended the group: nothing may be sent then; or 0

  // Reads what never changes, also while earlier calls run. The other rooms are then in L1.
  SINTER_DEVICE explicit Group(GroupControl* own)
      : control(own),
        rank(own->rank),
        slot_vectors(own->slot_vectors),
        room(own->rooms[own->rank]) {}

  // Once earlier calls of this rank have ended.
  SINTER_DEVICE void begin() {
    const Word4 head = load_system(reinterpret_cast<const Word4*>(control));
    epoch = head.x;
    ended = head.z;
  }

  // Of this call, in rank `owner`'s room; `sender` writes it, `owner` empties it.
  SINTER_DEVICE Word4* slot(int owner, int sender) const {
    const u64 number = (epoch & 1) * kRanks + static_cast<u32>(sender);
    return reinterpret_cast<Word4*>(room_of(owner) + kSlotsAt) + number * slot_vectors;
  }
  SINTER_DEVICE Word4* header(int owner, int sender) const {
    return reinterpret_cast<Word4*>(room_of(owner) + kHeadersAt) + (epoch & 1) * kMaxRanks + sender;
  }
  SINTER_DEVICE unsigned char* room_of(int owner) const {
    return owner == static_cast<int>(rank) ? room : control->rooms[owner];
  }

  // Ends the group on all ranks, for `why` unless it has ended. Later calls see it and do nothing.
  SINTER_DEVICE void end(u32 why) const {
    const u32 earlier = compare_and_swap_gpu(&control->outcome, 0, why);
    const u32 outcome = earlier != 0 ? earlier : why;
    store_system(control->host_words, outcome);
    for (int r = 0; r < kRanks; ++r)
      if (r != static_cast<int>(rank))
        store_system(&reinterpret_cast<GroupControl*>(control->rooms[r])->outcome, outcome);
  }

  // By one thread of the rank, at the end of the last block: the next call is another one.
  SINTER_DEVICE void advance() const {
    store_system(&control->blocks_done, 0);
    store_system(&control->epoch, epoch + 1);
  }
};

// How blocks share a matrix that ranks exchange, and how its words lie in slots.

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
