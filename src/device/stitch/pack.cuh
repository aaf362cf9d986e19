// Loads and stores of one or several elements of a tensor. Arithmetic is done in words: f32 for
// floating types, s32 for s32, bool for pred.
#pragma once
#include "ptx/element.cuh"

namespace sinter {

struct ElementF32 {
  using Stored = Float32::Stored;
  using Word = float;
  using Pair = void;  // the type in which two are converted at once; void: one by one
  static SINTER_DEVICE float word(float stored) { return stored; }
  static SINTER_DEVICE float stored(float word) { return word; }
};
// A floating type of 16 or 8 bits: a struct of ptx/element.cuh.
template <class Float>
struct NarrowElement {
  using Stored = typename Float::Stored;
  using Word = float;
  using Pair = typename Float::Pair;
  static SINTER_DEVICE float word(Stored stored) { return Float::unpack(stored); }
  static SINTER_DEVICE Stored stored(float word) {
    return static_cast<Stored>(Float::pack(word, 0.0f));
  }
  static SINTER_DEVICE Pair pair(float low, float high) { return Float::pack(low, high); }
  static SINTER_DEVICE float low(Pair pair) { return Float::low(pair); }
  static SINTER_DEVICE float high(Pair pair) { return Float::high(pair); }
};
using ElementF16 = NarrowElement<Float16>;
using ElementBF16 = NarrowElement<BFloat16>;
using ElementE4M3 = NarrowElement<FloatE4M3>;
struct ElementS32 {
  using Stored = int;
  using Word = int;
  using Pair = void;
  static SINTER_DEVICE int word(int stored) { return stored; }
  static SINTER_DEVICE int stored(int word) { return word; }
};
struct ElementPred {
  using Stored = unsigned char;
  using Word = bool;
  using Pair = void;
  static SINTER_DEVICE bool word(unsigned char stored) { return stored != 0; }
  static SINTER_DEVICE unsigned char stored(bool word) { return word ? 1 : 0; }
};

template <class T>
constexpr bool kIsVoid = false;
template <>
constexpr bool kIsVoid<void> = true;
// Whether kCount elements are converted two at a time.
template <class Element, int kCount>
constexpr bool kInPairs = kCount % 2 == 0 && !kIsVoid<typename Element::Pair>;

// kCount neighbouring elements as they lie in memory, aligned as a whole.
template <class Element, int kCount>
struct alignas(sizeof(typename Element::Stored) * kCount) Pack {
  typename Element::Stored stored[kCount];

  SINTER_DEVICE typename Element::Word operator[](int e) const {
    if constexpr (kInPairs<Element, kCount>) {
      const auto pair = reinterpret_cast<const typename Element::Pair*>(stored)[e / 2];
      return e % 2 == 0 ? Element::low(pair) : Element::high(pair);
    } else {
      return Element::word(stored[e]);
    }
  }
};

// Reads memory in words of at most 16 bytes.
template <class Element, int kCount>
SINTER_DEVICE Pack<Element, kCount> load_pack(const typename Element::Stored* p) {
  constexpr int kBytes = sizeof(Pack<Element, kCount>);
  Pack<Element, kCount> pack;
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i)
      reinterpret_cast<uint4*>(&pack)[i] = reinterpret_cast<const uint4*>(p)[i];
  } else {
    pack = *reinterpret_cast<const Pack<Element, kCount>*>(p);
  }
  return pack;
}

// hold_pack stores a pack as number `place` of an array in shared memory. take_pack loads it, in
// the same thread: nothing synchronises.
template <class Element, int kCount>
SINTER_DEVICE void hold_pack(unsigned char* places, int place, const Pack<Element, kCount>& pack) {
  constexpr int kBytes = sizeof(pack);
  unsigned char* const to = places + place * kBytes;
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(&pack)[i];
  } else {
    *reinterpret_cast<Pack<Element, kCount>*>(to) = pack;
  }
}
template <class Element, int kCount>
SINTER_DEVICE Pack<Element, kCount> take_pack(const unsigned char* places, int place) {
  return load_pack<Element, kCount>(reinterpret_cast<const typename Element::Stored*>(
      places + place * static_cast<int>(sizeof(Pack<Element, kCount>))));
}

// The part of shared memory through which the threads of a unit hand a value over.
template <class Element>
SINTER_DEVICE typename Element::Stored* handed_at(unsigned char* place) {
  return reinterpret_cast<typename Element::Stored*>(place);
}

// An input of kUnits units of kElements elements that a block has staged in its shared memory.
// Chunks of kChunk elements of a unit are exchanged by the number of its pack of kWide units, so
// that neither packs of units nor packs of elements meet in a bank.
template <int kUnits, int kElements, int kWide, int kChunk, int kMask>
struct Staged {
  static SINTER_DEVICE int place(int unit, int i) {
    return unit * kElements + ((i / kChunk) ^ ((unit / kWide) & kMask)) * kChunk + i % kChunk;
  }

  // Packs of neighbouring units, several in flight: `from(u, i)` is the address of element i of
  // unit u. Units from `units` on are left out.
  template <class Element, int kThreads, class From>
  static SINTER_DEVICE void fill(typename Element::Stored* to, long long base, long long units,
                                 From&& from) {
    constexpr int kAcross = kUnits / kWide, kPacks = kAcross * kElements, kAtOnce = 4;
    for (int first = static_cast<int>(threadIdx.x); first < kPacks; first += kThreads * kAtOnce) {
      Pack<Element, kWide> packs[kAtOnce];
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        const int n = first + b * kThreads;
        const long long u = base + n % kAcross * kWide;
        if (n < kPacks && u < units) packs[b] = load_pack<Element, kWide>(from(u, n / kAcross));
      }
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        const int n = first + b * kThreads;
        if (n >= kPacks) break;
#pragma unroll
        for (int e = 0; e < kWide; ++e)
          to[place(n % kAcross * kWide + e, n / kAcross)] = packs[b].stored[e];
      }
    }
  }
};

// Converts words to a pack.
template <class Element, int kCount>
SINTER_DEVICE Pack<Element, kCount> packed(const typename Element::Word (&words)[kCount]) {
  Pack<Element, kCount> pack;
  if constexpr (kInPairs<Element, kCount>) {
#pragma unroll
    for (int e = 0; e < kCount; e += 2)
      reinterpret_cast<typename Element::Pair*>(&pack)[e / 2] =
          Element::pair(words[e], words[e + 1]);
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e) pack.stored[e] = Element::stored(words[e]);
  }
  return pack;
}

// Stores words to shared memory.
template <class Element, int kCount>
SINTER_DEVICE void leave_pack(typename Element::Stored* p,
                              const typename Element::Word (&words)[kCount]) {
  hold_pack(reinterpret_cast<unsigned char*>(p), 0, packed<Element, kCount>(words));
}

// Stores words to global memory, 16 bytes at a time. The stores are inline PTX, because the
// compiler stores elements that were converted in pairs a pair at a time in some kernels:
// bert_attn_softmax took 10.3 us instead of 7.9.
template <class Element, int kCount>
SINTER_DEVICE void store_pack(typename Element::Stored* p,
                              const typename Element::Word (&words)[kCount]) {
  const Pack<Element, kCount> pack = packed<Element, kCount>(words);
  constexpr int kBytes = sizeof(pack);
  const u32* const bits = reinterpret_cast<const u32*>(&pack);
  unsigned char* const to = reinterpret_cast<unsigned char*>(p);
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 4; i += 4)
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + 4 * i), "r"(bits[i]),
                   "r"(bits[i + 1]), "r"(bits[i + 2]), "r"(bits[i + 3])
                   : "memory");
  } else if constexpr (kBytes == 8) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(bits[0]), "r"(bits[1])
                 : "memory");
  } else {
    *reinterpret_cast<Pack<Element, kCount>*>(p) = pack;
  }
}

// Rounds a word to what `Element` can store. To f16 in the upper half of a pair: of the lower half
// ptxas makes a conversion that it moves before the wait for a product's sums, where
// it serialises wgmma (C7514) or spills.
template <class Element>
SINTER_DEVICE typename Element::Word rounded(typename Element::Word word) {
  return Element::word(Element::stored(word));
}
template <>
SINTER_DEVICE float rounded<ElementF16>(float word) {
  return ElementF16::high(ElementF16::pair(0.0f, word));
}

}  // namespace sinter
