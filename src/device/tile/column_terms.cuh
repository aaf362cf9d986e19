// Column terms: the factors and biases that an epilogue needs of its columns. They are vectors in
// global memory. A thread loads them before the product and has them in registers when the sums are
// done; loaded where they are used, each would wait for L2.
#pragma once
#include "ptx/element.cuh"
#include "ptx/memory.cuh"
#include "tile/product.cuh"

namespace sinter {

// Of one column: of the only matrix or gate, and of up.
struct ColumnTerms {
  float factor = 1.0f, factor_up = 1.0f, bias = 0.0f, bias_up = 0.0f;
};

// Two neighbouring elements of a vector of kCount, from `column`, an even number. They lie kStride
// elements apart; 0: all are one. Behind the vector's end nothing is read, and any number is given.
template <class Element, int kCount, long long kStride>
SINTER_DEVICE typename Element::Pair load_pair(const typename Element::Stored* vector, int column) {
  if (column >= kCount) return {};
  if constexpr (kStride == 1 && kCount % 2 == 0) {
    return *reinterpret_cast<const typename Element::Pair*>(vector + column);
  } else {
    const auto low = vector[column * kStride];
    return Element::join(low, column + 1 < kCount ? vector[(column + 1) * kStride] : low);
  }
}

// load_pair() of eight columns from `column`, a multiple of 8, into `pair` of four terms: by loads
// of 16 bytes, at which vectors begin, where kCount is a multiple of 8.
template <class Element, int kCount, long long kStride, class Terms>
SINTER_DEVICE void load_pairs(const typename Element::Stored* vector, int column, Terms* four,
                              typename Element::Pair Terms::*pair) {
  using Pair = typename Element::Pair;
  constexpr int kLoaded = 16 / int{sizeof(Pair)};  // pairs of 16 bytes
#pragma unroll
  for (int i = 0; i < 4; i += kLoaded) {
    if constexpr (kStride == 1 && kCount % 8 == 0) {
      union {
        Word4 words;
        Pair pairs[kLoaded];
      } loaded = {};
      if (column < kCount) loaded.words = *reinterpret_cast<const Word4*>(vector + column + 2 * i);
#pragma unroll
      for (int j = 0; j < kLoaded; ++j) four[i + j].*pair = loaded.pairs[j];
    } else {
#pragma unroll
      for (int j = 0; j < kLoaded; ++j)
        four[i + j].*pair = load_pair<Element, kCount, kStride>(vector, column + 2 * (i + j));
    }
  }
}

template <class>
struct AnyType {
  using Void = void;
};

// Registers for addresses, loops, and what most epilogues compute with; more in kernels of two
// products, fewer where lanes exchange nothing and no matrix is read.
template <class Config, class P, bool kMatrix, class Second = void>
constexpr int kReservedRegisters = P::kPermuted && !kMatrix ? 24 : 44;
template <class Config, class P, bool kMatrix>
constexpr int
    kReservedRegisters<Config, P, kMatrix, typename AnyType<typename Config::Second>::Void> = 64;

// How many column groups' terms a thread holds, a multiple of 4: as many as fit into the registers
// that sums and a matrix leave. Fewer than all are a window that moves while groups are stored.
// None: terms are loaded where they are used. kBefore: those that are loaded before the product,
// whose sums may need registers to be promoted.
template <class Config, class P, class EpilogueType, bool kMatrix>
struct TermWindow {
  using Columns = P;
  static constexpr int kAll = round_up(P::kGroups, 4);
  static constexpr int kConsumers = Config::kWarpgroupsM * Config::kWarpgroupsN;
  static constexpr int kRegisters = kConsumers == 1 ? 240 : kConsumers == 2 ? 216 : 152;
  static constexpr int kAdded = kMatrix ? held_matrix_words(P::kGroups) : 0;
  static constexpr int kLeft = kRegisters - kReservedRegisters<Config, P, kMatrix> -
                               EpilogueType::kScratch - P::kAccumulators - kAdded;
  static constexpr int kFresh = P::Element::kPromoted ? P::kAccumulators / P::kParts : 0;
  static constexpr int fit(int registers, int least) {
    constexpr int kWords = EpilogueType::kTermWords > 0 ? EpilogueType::kTermWords : 1;
    const int groups = registers / kWords / 4 * 4;
    return groups > kAll ? kAll : groups > least ? groups : least;
  }
  static constexpr int kGroups = fit(kLeft, kLeft < 0 ? 0 : 4), kBefore = fit(kLeft - kFresh, 0);
};

// The terms of a thread's columns of a tile. They are used in fours of column groups, in order.
template <class EpilogueType, class Window>
class HeldTerms {
 public:
  // `first`: the first group's first column. Called before the product.
  SINTER_DEVICE HeldTerms(const EpilogueType& epilogue, int first, int thread)
      : epilogue_(epilogue), column_(first + Columns::pair_column(thread, 0)) {
    load(0, kBefore);
  }
  // Called behind the product, before terms are used.
  SINTER_DEVICE void complete() { load(kBefore, kHeld); }
  // Of group g: a thread has two columns of it.
  SINTER_DEVICE typename EpilogueType::TermPair of(int g) const {
    if constexpr (kPresent && kHeld == 0)
      return epilogue_.terms(column_ + Columns::pair_column(0, g));
    else
      return held_[g % kSlots];
  }
  // The four groups from g on are not used any more: others take their place.
  SINTER_DEVICE void release(int g) {
    if (g + kHeld < kAll) load(g + kHeld, g + kHeld + 4);
  }

 private:
  using Columns = typename Window::Columns;
  static constexpr bool kPresent = EpilogueType::kTermWords > 0;
  static constexpr int kAll = Window::kAll, kHeld = Window::kGroups, kBefore = Window::kBefore;
  static constexpr int kSlots = kPresent && kHeld > 0 ? kHeld : 1;

  // Of the groups [begin, end).
  SINTER_DEVICE void load(int begin, int end) {
    if constexpr (kPresent && kHeld > 0) {
      if (begin >= end) return;
#pragma unroll
      for (int g = begin; g < end; g += 4) {
        typename EpilogueType::TermPair* const four = &held_[g % kSlots];
        if constexpr (Columns::kPermuted) {
          epilogue_.terms(column_ + Columns::pair_column(0, g), four);
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            four[i] = epilogue_.terms(column_ + Columns::pair_column(0, g + i));
        }
      }
      asm volatile("" ::: "memory");  // not to be loaded where they are used
    }
  }

  const EpilogueType& epilogue_;
  const int column_;
  typename EpilogueType::TermPair held_[kSlots];
};

}  // namespace sinter
