// What kernels that read windows of pixels include besides.
#pragma once
#include "stitch/stitch.cuh"

namespace sinter {

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

// Words of 4 bytes that are read at once.
template <int kWords>
struct alignas(4 * kWords) WindowWords {
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
      WindowWords<kWords> part = reinterpret_cast<const WindowWords<kWords>*>(&pack)[i];
      if (inside) part = reinterpret_cast<const WindowWords<kWords>*>(p)[i];
      reinterpret_cast<WindowWords<kWords>*>(&pack)[i] = part;
    }
  } else if (inside) {
    pack = load_pack<Element, kCount>(p);
  }
  return pack;
}

}  // namespace sinter
