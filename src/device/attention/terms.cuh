// Terms of the scores: what is added to them or selects among them, read from memory.
#pragma once
#include "ptx/element.cuh"

namespace sinter {

// Two neighbouring columns as memory has them: in one aligned word, or apart.
template <class Element, bool kPairs>
struct TwoColumns {
  using Type = typename Element::Pair;
  static SINTER_DEVICE float value(Type both, bool second) {
    return second ? Element::high(both) : Element::low(both);
  }
};
template <class Element>
struct TwoColumns<Element, false> {
  struct Type {
    typename Element::Stored x, y;
  };
  static SINTER_DEVICE float value(Type both, bool second) {
    return Element::unpack(second ? both.y : both.x);
  }
};

// One column for two.
template <class Element>
struct OneColumn {
  using Type = typename Element::Stored;
  static SINTER_DEVICE float value(Type one, bool) { return Element::unpack(one); }
};

template <bool kOne, class One, class Other>
struct EitherOf {
  using Type = One;
};
template <class One, class Other>
struct EitherOf<false, One, Other> {
  using Type = Other;
};

// A matrix of scores' extents, or one that is the same for all rows or all columns. kPairs: two
// neighbouring columns lie in one aligned word, and columns are an even number.
template <class Element, long long kRowStride, long long kColumnStride, bool kPairs>
struct ScoreTerm {
  using Stored = typename Element::Stored;
  static constexpr bool kOneColumn = kColumnStride == 0;
  using Columns =
      typename EitherOf<kOneColumn, OneColumn<Element>, TwoColumns<Element, kPairs>>::Type;
  using Raw = typename Columns::Type;
  static constexpr int kBases = kRowStride == 0 ? 1 : 2;
  const Stored* base[kBases];  // of the thread's two rows

  // `matrix`: that of one batch.
  SINTER_DEVICE void place(const Stored* matrix, int row0, int row1) {
    base[0] = matrix + row0 * kRowStride;
    if constexpr (kBases == 2) base[1] = matrix + row1 * kRowStride;
  }
  // Columns `column` and the next one. kLast: those from `end` on are zero.
  template <bool kLast>
  SINTER_DEVICE Raw load(int half, int column, int end) const {
    const Stored* const at = base[kBases == 2 ? half : 0] + column * kColumnStride;
    Raw raw{};
    if constexpr (kOneColumn) {
      raw = *at;
    } else if constexpr (kPairs) {
      if (!kLast || column < end) raw = *reinterpret_cast<const Raw*>(at);
    } else {
      if (!kLast || column < end) raw.x = at[0];
      if (!kLast || column + 1 < end) raw.y = at[kColumnStride];
    }
    return raw;
  }
};

// What a thread has of a term: for each pair of its scores, or each pair of two rows, what memory
// holds. It becomes numbers where they are used, so that nothing waits for a load before. kOnce:
// keys are one tile, and what is there for the last item may serve this one too.
template <class Term, int kTileGroups, int kKeys, bool kOnce>
struct HeldTerm {
  static constexpr int kGroups = Term::kOneColumn ? 1 : kTileGroups;
  Term term;
  const typename Term::Stored* last[Term::kBases] = {};
  bool moved = true;
  typename Term::Raw raw[Term::kBases * kGroups];

  SINTER_DEVICE void place(const typename Term::Stored* matrix, int row0, int row1) {
    term.place(matrix, row0, row1);
    moved = !kOnce;
#pragma unroll
    for (int h = 0; h < Term::kBases; ++h) {
      moved = moved || term.base[h] != last[h];
      last[h] = term.base[h];
    }
  }
  // Loads the columns of the keys from `first` on. kLast: the keys may end in this tile.
  template <bool kLast>
  SINTER_DEVICE void load(int first) {
    if (!moved) return;
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
#pragma unroll
      for (int h = 0; h < Term::kBases; ++h)
        raw[g * Term::kBases + h] = term.template load<kLast>(
            h, first + 8 * g + 2 * static_cast<int>(threadIdx.x % 4), kKeys);
  }
  // For the accumulator at index i.
  SINTER_DEVICE float at(int i) const {
    const int group = Term::kOneColumn ? 0 : i / 4;
    return Term::Columns::value(raw[Term::kBases == 2 ? 2 * group + i / 2 % 2 : group], i % 2 != 0);
  }
};

// A predicate in a byte, as a number that is not 0.
struct Predicate : ElementSizes<unsigned char> {
  using Pair = u16;
  static SINTER_DEVICE float low(Pair pair) { return pair & 0xFF ? 1.f : 0.f; }
  static SINTER_DEVICE float high(Pair pair) { return pair >> 8 ? 1.f : 0.f; }
  static SINTER_DEVICE float unpack(Stored bits) { return bits != 0 ? 1.f : 0.f; }
};

}  // namespace sinter
