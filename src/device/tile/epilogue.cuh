// Epilogue of a product: scaling, bias, activation, gate, residual, rounding; and the writer that
// stores groups of 8 columns in global memory.
#pragma once
#include "ptx/element.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/activation.cuh"
#include "tile/product.cuh"
#include "tile/residual.cuh"
#include "tile/scaling.cuh"

namespace sinter {

// The factors and biases of one column: of the only matrix or gate, and of up.
struct ColumnTerms {
  float factor = 1.0f, factor_up = 1.0f, bias = 0.0f, bias_up = 0.0f;
};

// y = act(x + bias) for one weight matrix, act(gate + bias) * (up + bias_up) for two. x, gate and
// up are accumulators times the scale of their row and their column. Biases may be null.
template <class P, class Element, class Activation, bool kBias, class Scaling_ = NoScaling>
struct Epilogue {
  using Scaling = Scaling_;
  const typename Element::Stored* bias;
  const typename Element::Stored* bias_up;
  Scaling scaling = {};

  static constexpr int kTerms = P::kWidth * (Scaling::kColumns + kBias);  // of a column

  // Columns behind the last are not stored: any terms will do.
  SINTER_DEVICE ColumnTerms terms(int column) const {
    ColumnTerms terms;
    if (column >= P::kN) return terms;
    if constexpr (Scaling::kColumns) {
      terms.factor = scaling.of_column(column);
      if (P::kWidth == 2) terms.factor_up = scaling.of_up(column);
    }
    if constexpr (kBias) {
      terms.bias = Element::unpack(bias[column]);
      if (P::kWidth == 2) terms.bias_up = Element::unpack(bias_up[column]);
    }
    return terms;
  }

  SINTER_DEVICE float apply(float x, float up, int column, float scale) const {
    if (Scaling::kPresent) {
      x *= scale;
      if (P::kWidth == 2) up *= scale;
    }
    if constexpr (Scaling::kColumns) {
      if (column < P::kN) {
        x *= scaling.of_column(column);
        if (P::kWidth == 2) up *= scaling.of_up(column);
      }
    }
    if (kBias && column < P::kN) {
      x += Element::unpack(bias[column]);
      if (P::kWidth == 2) up += Element::unpack(bias_up[column]);
    }
    return activated(x, up);
  }
  // The same, with terms that were loaded before.
  SINTER_DEVICE float apply(float x, float up, float scale, const ColumnTerms& terms) const {
    if (Scaling::kPresent) {
      x *= scale;
      if (P::kWidth == 2) up *= scale;
    }
    if (Scaling::kColumns) {
      x *= terms.factor;
      if (P::kWidth == 2) up *= terms.factor_up;
    }
    if (kBias) {
      x += terms.bias;
      if (P::kWidth == 2) up += terms.bias_up;
    }
    return activated(x, up);
  }

 private:
  static SINTER_DEVICE float activated(float x, float up) {
    const float y = Activation::apply(x);
    return P::kWidth == 2 ? y * up : y;
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

// The terms of a thread's columns of kGroups column groups. They are asked for together: one after
// another, between stores, each would wait for L2.
template <class EpilogueType, int kGroups>
class HeldColumns {
 public:
  // `first`: the first group's first column.
  SINTER_DEVICE HeldColumns(const EpilogueType& epilogue, int first, int thread) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      held_[i] = epilogue.terms(first + accumulator_column(thread, i / 2) + i % 2);
    asm volatile("" ::: "memory");  // not to be loaded where they are used
  }
  // A thread has two columns of a group; these are the terms of column i.
  SINTER_DEVICE const ColumnTerms& of(int group, int i) const { return held_[2 * group + i]; }

 private:
  static constexpr int kHeld = 2 * kGroups;
  ColumnTerms held_[kHeld];
};

// How many column groups' terms a thread holds in registers at a time: kernels spill with more.
// Groups are stored in fours. 0: terms are loaded where they are used.
template <class Config, class P, class EpilogueType, bool kResidual>
constexpr int held_groups() {
  constexpr int kTerms = EpilogueType::kTerms;
  constexpr bool kWide = P::kGroups > 28;
  constexpr bool kThree = Config::kWarpgroupsM * Config::kWarpgroupsN == 3;  // 128 registers each
  if (kTerms == 0 || (kResidual && (kTerms > 1 || kWide))) return 0;
  if (kWide && P::kParts == 1) return 0;  // sums are not promoted: all are in registers at once
  if (kResidual || kTerms > 1) return 4;
  return kThree || Config::Result::kBytes == 4 ? 8 : 16;
}

// Applies `epilogue` and `scaling` to a warpgroup's accumulators, adds the residual that is `held`,
// and writes the result to the matrix. The tile begins at `row` and `column`.
template <class Config, class P, class EpilogueType, class Writer, class Held>
SINTER_DEVICE void write_accumulators(const float (&d)[P::kAccumulators],
                                      const EpilogueType& epilogue,
                                      const HeldScaling<typename EpilogueType::Scaling>& scaling,
                                      const Writer& writer, int row, int column,
                                      WarpgroupPlace place, Held& held) {
  jitter();
  const int first_row = place.m * kWarpgroupRows + accumulator_row(place.thread);
  column += place.n * P::kHalf;
  // Four lanes have 32 bytes of f32 side by side; of fewer bytes they exchange columns first.
  constexpr int kQuads = Config::Result::kBytes == 2 ? P::kGroups / 4 * 4 : 0;
  constexpr int kHeld = held_groups<Config, P, EpilogueType, Held::kPresent>();
  constexpr int kUp = P::kWidth == 2 ? 4 * P::kGroups : 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int tile_row = first_row + 8 * half;
    const bool exists = tile_row < Config::kBlockM;
    held.turn_to(half);
    const float scale = scaling.of_half(half);
    // Stores groups [begin, end); pair(g, added) gives a thread's two results of group g.
    auto store = [&](int begin, int end, const auto& pair) {
      if constexpr (kQuads > 0) {
#pragma unroll
        for (int g = begin; g < end && g < kQuads; g += 4) {
          const Word4 r = held.quad(g / 4);
          const u32 w[4] = {pair(g, r.x), pair(g + 1, r.y), pair(g + 2, r.z), pair(g + 3, r.w)};
          const Word4 v = quad_transpose(w);
          if (exists) writer.group(row + tile_row, column + 8 * (g + place.thread % 4), v);
        }
      }
#pragma unroll
      for (int g = begin < kQuads ? kQuads : begin; g < end; ++g) {
        const auto w = pair(g, held.pair(g - kQuads));
        if (exists) writer.pair(row + tile_row, column + accumulator_column(place.thread, g), w);
      }
    };
    if constexpr (kHeld == 0) {
      store(0, P::kGroups, [&](int g, u32 added) {
        const int c = column + accumulator_column(place.thread, g), i = 4 * g + 2 * half;
        return held.round(epilogue.apply(d[i], d[i + kUp], c, scale),
                          epilogue.apply(d[i + 1], d[i + 1 + kUp], c + 1, scale), added);
      });
    } else {
#pragma unroll
      for (int begin = 0; begin < P::kGroups; begin += kHeld) {
        const HeldColumns<EpilogueType, kHeld> terms(epilogue, column + 8 * begin, place.thread);
        store(begin, begin + kHeld < P::kGroups ? begin + kHeld : P::kGroups,
              [&](int g, u32 added) {
                const int i = 4 * g + 2 * half;
                return held.round(
                    epilogue.apply(d[i], d[i + kUp], scale, terms.of(g - begin, 0)),
                    epilogue.apply(d[i + 1], d[i + 1 + kUp], scale, terms.of(g - begin, 1)), added);
              });
      }
    }
  }
}

// The same without a residual.
template <class Config, class P, class EpilogueType, class Writer>
SINTER_DEVICE void write_accumulators(const float (&d)[P::kAccumulators],
                                      const EpilogueType& epilogue,
                                      const HeldScaling<typename EpilogueType::Scaling>& scaling,
                                      const Writer& writer, int row, int column,
                                      WarpgroupPlace place) {
  NothingHeld<typename Config::Result> nothing;
  write_accumulators<Config, P>(d, epilogue, scaling, writer, row, column, place, nothing);
}

}  // namespace sinter
