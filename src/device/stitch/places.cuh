// What kernels that read windows of pixels, or read or write rows by ids, include besides.
#pragma once
#include "stitch/codes.cuh"
#include "stitch/stitch.cuh"

namespace sinter {

// Words of 4 bytes that are read at once.
template <int kWords>
struct alignas(4 * kWords) WordsAtOnce {
  u32 words[kWords];
};

// What lies at `p` where `inside`, else `fill` everywhere, and nothing is read: a read under a
// condition, not a branch. Chosen as it lies in memory, several elements at once.
template <class Element, int kCount>
SINTER_DEVICE Pack<Element, kCount> load_pack_or(bool inside, const typename Element::Stored* p,
                                                 typename Element::Word fill) {
  typename Element::Word words[kCount];
#pragma unroll
  for (int e = 0; e < kCount; ++e) words[e] = fill;
  Pack<Element, kCount> pack = packed<Element, kCount>(words);
  constexpr int kBytes = static_cast<int>(sizeof(pack));
  if constexpr (kBytes % 4 == 0) {
    constexpr int kWords = kBytes % 16 == 0 ? 4 : kBytes / 4;
#pragma unroll
    for (int i = 0; i < kBytes / (4 * kWords); ++i) {
      WordsAtOnce<kWords> part = reinterpret_cast<const WordsAtOnce<kWords>*>(&pack)[i];
      if (inside) part = reinterpret_cast<const WordsAtOnce<kWords>*>(p)[i];
      reinterpret_cast<WordsAtOnce<kWords>*>(&pack)[i] = part;
    }
  } else if (inside) {
    pack = load_pack<Element, kCount>(p);
  }
  return pack;
}

// Whether `i` is one of `count` places.
SINTER_DEVICE bool is_inside(int i, int count) {
  return static_cast<u32>(i) < static_cast<u32>(count);
}
SINTER_DEVICE bool is_inside(long long i, int count) { return i >= 0 && i < count; }

// The one of `count` places that is nearest to `i`: what is there may be read.
SINTER_DEVICE int nearest_place(int i, int count) {
  return Common::max(0, Common::min(i, count - 1));
}
SINTER_DEVICE long long nearest_place(long long i, int count) {
  return i < 0 ? 0 : i < count ? i : count - 1;
}

struct ElementS64 {
  using Stored = long long;
  using Word = long long;
  using Pair = void;
  static SINTER_DEVICE long long word(long long stored) { return stored; }
  static SINTER_DEVICE long long stored(long long word) { return word; }
};

// Whether `id` is one of `count` places.
SINTER_DEVICE bool is_place(int id, int count) {
  return static_cast<u32>(id) < static_cast<u32>(count);
}
SINTER_DEVICE bool is_place(long long id, int count) { return id >= 0 && id < count; }

// The place that `id` names, 0 where it names none: what is there may be read.
template <class Id>
SINTER_DEVICE long long place_of(Id id, int count) {
  return is_place(id, count) ? id : 0;
}

// Whether an id of [first, count) is `id`. Lanes of a warp that ask together on behalf of one
// `asker` share the search; the answer does not depend on which ones run together.
template <class Id, class IdAt>
SINTER_DEVICE bool finds_id(Id id, long long asker, long long first, long long count,
                            const IdAt& id_at) {
  const u32 lanes = __match_any_sync(__activemask(), static_cast<unsigned long long>(asker));
  const u32 below = lanes & ((1u << threadIdx.x % 32) - 1);
  bool found = false;
#pragma unroll 4
  for (long long k = first + __popc(below); k < count; k += __popc(lanes)) {
    found |= id_at(k) == id;
  }
  return __any_sync(lanes, found);
}

// Whether no id behind number `at` of `count` is `id`: of equal ids the last one writes.
template <class Id, class IdAt>
SINTER_DEVICE bool is_last(Id id, long long at, long long count, const IdAt& id_at) {
  return !finds_id(id, at, at + 1, count, id_at);
}

// Whether one of `count` ids names a row.
template <class IdAt>
SINTER_DEVICE bool is_named(long long row, long long count, const IdAt& id_at) {
  return finds_id(row, row, 0, count, id_at);
}

}  // namespace sinter
