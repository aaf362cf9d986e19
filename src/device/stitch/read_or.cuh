// What kernels that read windows of pixels or by ids include besides.
#pragma once
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

}  // namespace sinter
