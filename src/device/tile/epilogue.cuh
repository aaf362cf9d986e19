// Epilogue of a product: scaling, bias, activation, gate, residual, rounding; and the writers that
// store groups of 8 columns in global memory, of one result or of several.
#pragma once
#include "ptx/element.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/activation.cuh"
#include "tile/column_terms.cuh"
#include "tile/product.cuh"
#include "tile/residual.cuh"
#include "tile/scaling.cuh"

namespace sinter {

// Registers that an activation computes with, beside a few: those with slow paths need many.
template <class Activation>
constexpr int kScratchOf = 0;
template <>
constexpr int kScratchOf<GeluErfF32> = 64;
template <>
constexpr int kScratchOf<SiluF32> = 64;
template <>
constexpr int kScratchOf<GeluTanhF32> = 64;
template <class Activation>
constexpr bool kIsRelu = false;
template <>
constexpr bool kIsRelu<Relu> = true;

// y = act(x + bias) for one weight matrix, act(gate + bias) * (up + bias_up) for two. x, gate and
// up are accumulators times the scale of their row and their column. Biases may be null.
template <class P, class Element, class Activation, bool kBias, class Scaling_ = NoScaling>
struct Epilogue {
  using Scaling = Scaling_;
  const typename Element::Stored* bias;
  const typename Element::Stored* bias_up;
  Scaling scaling = {};

  // Of two neighbouring columns, as they lie in memory.
  struct TermPair {
    typename Scaling::Factor::Pair factor, factor_up;
    typename Element::Pair bias, bias_up;
    SINTER_DEVICE ColumnTerms of(int i) const {  // of column i
      ColumnTerms terms;
      if constexpr (Scaling::kColumns) {
        terms.factor = number<typename Scaling::Factor>(factor, i);
        if (P::kWidth == 2) terms.factor_up = number<typename Scaling::Factor>(factor_up, i);
      }
      if constexpr (kBias) {
        terms.bias = number<Element>(bias, i);
        if (P::kWidth == 2) terms.bias_up = number<Element>(bias_up, i);
      }
      return terms;
    }

   private:
    template <class E>
    static SINTER_DEVICE float number(const typename E::Pair& pair, int i) {
      return i == 0 ? E::low(pair) : E::high(pair);
    }
  };
  static constexpr int kScratch = kScratchOf<Activation>;
  static constexpr int kTermWords =  // registers that a TermPair takes
      P::kWidth *
      ((Scaling::kColumns ? sizeof(typename Scaling::Factor::Pair) : 0) +
       (kBias ? sizeof(typename Element::Pair) : 0)) /
      4;

  // `column` is even. Columns behind the last are not stored: any terms will do.
  SINTER_DEVICE TermPair terms(int column) const {
    TermPair pair;
    if constexpr (Scaling::kColumns) {
      pair.factor = scaling.template pair<P::kN>(scaling.factors, column);
      if (P::kWidth == 2) pair.factor_up = scaling.template pair<P::kN>(scaling.up_factors, column);
    }
    if constexpr (kBias) {
      pair.bias = load_pair<Element, P::kN, 1>(bias, column);
      if (P::kWidth == 2) pair.bias_up = load_pair<Element, P::kN, 1>(bias_up, column);
    }
    return pair;
  }

  SINTER_DEVICE float apply(float x, float up, float scale, const ColumnTerms& terms) const {
    const float y = Activation::apply(linear(x, scale, terms));
    return P::kWidth == 2 ? y * scaled(up, scale, terms.factor_up, terms.bias_up) : y;
  }
  // What is activated.
  SINTER_DEVICE float linear(float x, float scale, const ColumnTerms& terms) const {
    return scaled(x, scale, terms.factor, terms.bias);
  }
  // Results are ReLUs, which rounding can compute.
  static constexpr bool kEndsInRelu = P::kWidth == 1 && kIsRelu<Activation>;

 private:
  static SINTER_DEVICE float scaled(float x, float scale, float factor, float bias) {
    if (Scaling::kPresent) x *= scale;
    if (Scaling::kColumns) x *= factor;
    if (kBias) x += bias;
    return x;
  }
};

// A row-major matrix in global memory. kAligned: rows and columns allow 16-byte groups; else
// elements are stored one by one.
template <class Element, int kColumns, bool kAligned>
struct GlobalWriter {
  using Stored = typename Element::Stored;
  static_assert(Element::kBytes == 2, "two columns are a word");
  Stored* data;
  long long stride;  // elements between rows
  int rows;          // rows that exist

  // Eight columns from `column`; nothing outside the matrix is written.
  SINTER_DEVICE void group(int row, int column, Word4 v) const {
    if (row >= rows || column >= kColumns) return;
    Stored* p = data + row * stride + column;
    if (kAligned) {
      *reinterpret_cast<Word4*>(p) = v;
    } else {
      pair(row, column, v.x);
      pair(row, column + 2, v.y);
      pair(row, column + 4, v.z);
      pair(row, column + 6, v.w);
    }
  }
  SINTER_DEVICE void pair(int row, int column, u32 v) const {
    if (row >= rows || column >= kColumns) return;
    Stored* p = data + row * stride + column;
    if (kAligned) {
      *reinterpret_cast<u32*>(p) = v;
    } else {
      p[0] = static_cast<Stored>(v);
      if (column + 1 < kColumns) p[1] = static_cast<Stored>(v >> 16);
    }
  }
};

// The same of f32.
template <int kColumns, bool kAligned>
struct GlobalWriter<Float32, kColumns, kAligned> {
  float* data;
  long long stride;  // elements between rows
  int rows;          // rows that exist

  SINTER_DEVICE void pair(int row, int column, FloatPair v) const {
    if (row >= rows || column >= kColumns) return;
    float* p = data + row * stride + column;
    if (kAligned) {
      *reinterpret_cast<FloatPair*>(p) = v;
    } else {
      p[0] = v.low;
      if (column + 1 < kColumns) p[1] = v.high;
    }
  }
  SINTER_DEVICE void element(int row, int column, float v) const {
    if (row < rows && column < kColumns) data[row * stride + column] = v;
  }
};

// Applies `epilogue` and `scaling` to a warpgroup's accumulators, adds the residual that is `held`,
// and writes the result to the matrix. The tile begins at `row` and `column`. Where a residual is
// loaded by halves, all upper rows are stored first.
template <class Config, class P, class EpilogueType, class Terms, class Writer, class Held>
SINTER_DEVICE void write_accumulators(const float (&d)[P::kAccumulators],
                                      const EpilogueType& epilogue, Terms& terms,
                                      const HeldScaling<typename EpilogueType::Scaling>& scaling,
                                      const Writer& writer, int row, int column,
                                      WarpgroupPlace place, Held& held) {
  jitter();
  terms.complete();
  const int first_row = place.m * kWarpgroupRows + accumulator_row(place.thread);
  column += place.n * P::kHalf;
  // Four lanes have 32 bytes of f32 side by side; of fewer bytes they exchange columns first.
  constexpr int kQuads = Config::Result::kBytes == 2 ? P::kGroups / 4 * 4 : 0;
  constexpr int kUp = P::kWidth == 2 ? 4 * P::kGroups : 0;
  constexpr int kPasses = Held::kByHalves ? 2 : 1;
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
#pragma unroll
    for (int begin = 0; begin < P::kGroups; begin += 4) {
      const int use = pass * round_up(P::kGroups, 4) + begin;
#pragma unroll
      for (int half = pass; half < (kPasses == 2 ? pass + 1 : 2); ++half) {
        const int tile_row = first_row + 8 * half;
        const bool exists = tile_row < Config::kBlockM;
        const float scale = scaling.of_half(half);
        held.turn_to(half);
        const auto pair = [&](int g, u32 added) {
          const int i = 4 * g + 2 * half;
          const auto& two = terms.of(use + g - begin);
          if constexpr (!Held::kPresent && EpilogueType::kEndsInRelu && Config::Result::kBytes == 2)
            return Config::Result::pack_relu(epilogue.linear(d[i], scale, two.of(0)),
                                             epilogue.linear(d[i + 1], scale, two.of(1)));
          else
            return held.round(epilogue.apply(d[i], d[i + kUp], scale, two.of(0)),
                              epilogue.apply(d[i + 1], d[i + 1 + kUp], scale, two.of(1)), added);
        };
        if constexpr (kQuads > 0) {
          if (begin < kQuads) {
            const int g = begin;
            const Word4 r = held.quad(g / 4);
            const u32 w[4] = {pair(g, r.x), pair(g + 1, r.y), pair(g + 2, r.z), pair(g + 3, r.w)};
            const Word4 v = as_stored<P>(w);
            if (exists) writer.group(row + tile_row, column + 8 * (g + place.thread % 4), v);
            continue;
          }
        }
#pragma unroll
        for (int g = begin; g < begin + 4 && g < P::kGroups; ++g) {
          const auto w = pair(g, held.pair(g - kQuads));
          if (exists) writer.pair(row + tile_row, column + P::pair_column(place.thread, g), w);
        }
      }
      terms.release(use);
    }
  }
}

}  // namespace sinter
