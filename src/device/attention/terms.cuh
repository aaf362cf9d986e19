// Terms of the scores: what is added to them or selects among them, read from memory.
#pragma once
#include "ptx/element.cuh"

namespace sinter {

// A matrix of scores' extents, or one that is the same for all rows. kPairs: two neighbouring
// columns lie in one aligned word, and columns are an even number.
template <class Element, long long kRowStride, long long kColumnStride, bool kPairs>
struct ScoreTerm {
  using Stored = typename Element::Stored;
  static constexpr int kBases = kRowStride == 0 ? 1 : 2;
  const Stored* base[kBases];  // of the thread's two rows

  // `matrix`: that of one batch.
  SINTER_DEVICE void place(const Stored* matrix, int row0, int row1) {
    base[0] = matrix + row0 * kRowStride;
    if constexpr (kBases == 2) base[1] = matrix + row1 * kRowStride;
  }
  // Columns `column` and the next one, of which those from `end` on are zero.
  SINTER_DEVICE void load(int half, int column, int end, float& x, float& y) const {
    const Stored* const at = base[kBases == 2 ? half : 0] + column * kColumnStride;
    if constexpr (kPairs) {
      typename Element::Pair pair{};
      if (column < end) pair = *reinterpret_cast<const typename Element::Pair*>(at);
      x = Element::low(pair), y = Element::high(pair);
    } else {
      x = column < end ? Element::unpack(at[0]) : 0.f;
      y = column + 1 < end ? Element::unpack(at[kColumnStride]) : 0.f;
    }
  }
};

// What a thread has of a term: for each of its scores, or each pair of two rows, a number. kOnce:
// keys are one tile, and what is there for the last item may serve this one too.
template <class Term, int kGroups, int kKeys, bool kOnce>
struct HeldTerm {
  Term term;
  const typename Term::Stored* last[Term::kBases] = {};
  bool moved = true;
  float values[2 * Term::kBases * kGroups];

  SINTER_DEVICE void place(const typename Term::Stored* matrix, int row0, int row1) {
    term.place(matrix, row0, row1);
    moved = !kOnce;
#pragma unroll
    for (int h = 0; h < Term::kBases; ++h) {
      moved = moved || term.base[h] != last[h];
      last[h] = term.base[h];
    }
  }
  SINTER_DEVICE void load(int first) {
    if (!moved) return;
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int h = 0; h < Term::kBases; ++h) {
        const int i = (g * Term::kBases + h) * 2;
        term.load(h, first + 8 * g + 2 * static_cast<int>(threadIdx.x % 4), kKeys, values[i],
                  values[i + 1]);
      }
  }
  // For the accumulator at index i.
  SINTER_DEVICE float at(int i) const { return values[Term::kBases == 2 ? i : i / 4 * 2 + i % 2]; }
};

// A predicate in a byte, as a number that is not 0.
struct Predicate : ElementSizes<unsigned char> {
  using Pair = u16;
  static SINTER_DEVICE float low(Pair pair) { return pair & 0xFF ? 1.f : 0.f; }
  static SINTER_DEVICE float high(Pair pair) { return pair >> 8 ? 1.f : 0.f; }
  static SINTER_DEVICE float unpack(Stored bits) { return bits != 0 ? 1.f : 0.f; }
};

// x rounded to the element type.
template <class Element>
SINTER_DEVICE float rounded_to(float x) {
  return Element::low(Element::pack(x, x));
}

}  // namespace sinter
