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

// y = act(x + bias) for one weight matrix, act(gate + bias) * (up + bias_up) for two. x, gate and
// up are accumulators times the scale of their row and their column. Biases may be null.
template <class P, class Element, class Activation, bool kBias, class Scaling_ = NoScaling>
struct Epilogue {
  using Scaling = Scaling_;
  const typename Element::Stored* bias;
  const typename Element::Stored* bias_up;
  Scaling scaling = {};

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

// Applies `epilogue` and `scaling` to a warpgroup's accumulators, adds the residual that is `held`,
// and writes the result to the matrix. The tile begins at `row` and `column`.
template <class Config, class P, class EpilogueType, class Writer,
          class Held = NothingHeld<typename Config::Result>>
SINTER_DEVICE void write_accumulators(const float (&d)[P::kAccumulators],
                                      const EpilogueType& epilogue,
                                      const HeldScaling<typename EpilogueType::Scaling>& scaling,
                                      const Writer& writer, int row, int column,
                                      WarpgroupPlace place, Held&& held = {}) {
  jitter();
  const int first_row = place.m * kWarpgroupRows + accumulator_row(place.thread);
  column += place.n * P::kHalf;
  // Four lanes have 32 bytes of f32 side by side; of fewer bytes they exchange columns first.
  constexpr int kQuads = Config::Result::kBytes == 2 ? P::kGroups / 4 * 4 : 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int tile_row = first_row + 8 * half;
    const bool exists = tile_row < Config::kBlockM;
    held.turn_to(half);
    const float scale = scaling.of_half(half);
    auto pair = [&](int g, u32 added) {
      const int c = column + accumulator_column(place.thread, g), i = 4 * g + 2 * half,
                up = P::kWidth == 2 ? 4 * P::kGroups : 0;
      return held.round(epilogue.apply(d[i], d[i + up], c, scale),
                        epilogue.apply(d[i + 1], d[i + 1 + up], c + 1, scale), added);
    };
    if constexpr (kQuads > 0) {
#pragma unroll
      for (int g = 0; g < kQuads; g += 4) {
        const Word4 r = held.quad(g / 4);
        const u32 w[4] = {pair(g, r.x), pair(g + 1, r.y), pair(g + 2, r.z), pair(g + 3, r.w)};
        const Word4 v = quad_transpose(w);
        if (exists) writer.group(row + tile_row, column + 8 * (g + place.thread % 4), v);
      }
    }
#pragma unroll
    for (int g = kQuads; g < P::kGroups; ++g) {
      const auto w = pair(g, held.pair(g - kQuads));
      if (exists) writer.pair(row + tile_row, column + accumulator_column(place.thread, g), w);
    }
  }
}

}  // namespace sinter
