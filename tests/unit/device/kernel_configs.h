// Config structs as codegen writes them, over the host's element type, and matrices to multiply.
#pragma once

#include "kernels/cluster_exchange.cuh"
#include "kernels/cluster_ranges.cuh"
#include "kernels/cluster_slab.cuh"
#include "kernels/grid_exchange.cuh"
#include "kernels/product.cuh"
#include "kernels/resident_weights.cuh"
#include "kernels/spatial_gate.cuh"

namespace sinter {

// Keeps results within 16 bits, so that they can be elements again.
struct Fold {
  static float apply(float x) { return static_cast<float>(static_cast<int>(x) % 61); }
};

// One dataflow's geometry. kN_ and kK_ are the first product's, kL_ the second's columns.
template <int kBlockM_, int kBlockK_, int kStages_, int kCluster_, int kWarpgroupsM_,
          int kWarpgroupsN_, bool kTransposed_, int kWidth_, int kN_, int kK_, int kBlockN1_,
          int kSplit1_, int kL_, int kBlockN2_, int kSplit2_, int kWeightsShare_ = 1,
          int kRowsShare_ = 1, bool kSwapped_ = false, class Element_ = Integer16,
          class Rows_ = PlainRows, bool kPermuted_ = false>
struct TestConfig {
  using Element = Element_;
  using Result = Integer16;
  using Bias = Integer16;
  using Activation = Fold;
  static constexpr int kBlockM = kBlockM_, kBlockK = kBlockK_, kStages = kStages_,
                       kCluster = kCluster_;
  static constexpr int kWarpgroupsM = kWarpgroupsM_, kWarpgroupsN = kWarpgroupsN_;
  static constexpr int kSharers = kWeightsShare_ * kRowsShare_;
  static constexpr bool kWeightsTransposed = kTransposed_, kSwapped = kSwapped_;
  static constexpr float kNormEps = 0.25f;
  using First = Product<TestConfig, kWidth_, kN_, kK_, kBlockN1_, kSplit1_, kWeightsShare_,
                        kRowsShare_, Rows_, kPermuted_>;
  using Second = Product<TestConfig, 1, kL_, kN_, kBlockN2_, kSplit2_>;
};

// rows x columns of values in -60..60, a function of `seed`.
inline hardware::Matrix TestMatrix(int rows, int columns, uint32_t seed) {
  hardware::Matrix m;
  m.rows = rows;
  m.columns = columns;
  uint32_t x = seed * 2654435761u + 1;
  for (int i = 0; i < rows * columns; ++i) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    m.data.push_back(static_cast<uint16_t>(static_cast<int>(x % 121) - 60));
  }
  return m;
}

// One weight matrix, k x n: stored [n, k], or [k, n] when transposed; its box as the recipe cuts
// it.
template <class Config, class P>
hardware::Matrix TestWeights(uint32_t seed) {
  const bool t = Config::kWeightsTransposed;
  hardware::Matrix m = t ? TestMatrix(P::kK, P::kN, seed) : TestMatrix(P::kN, P::kK, seed);
  m.box_rows = (t ? Config::kBlockK : P::kHalf) / P::kWeightsShare;
  return m;
}

template <class Config>
float WeightAt(const hardware::Matrix& m, int k, int n) {
  return static_cast<int16_t>(Config::kWeightsTransposed ? m.At(k, n) : m.At(n, k));
}

// rows x weights at (row, column), over K elements [begin, end).
template <class Config>
float Dot(const hardware::Matrix& rows, const hardware::Matrix& weights, int row, int column,
          int begin, int end) {
  float sum = 0;
  for (int k = begin; k < end; ++k)
    sum += static_cast<int16_t>(rows.At(row, k)) * WeightAt<Config>(weights, k, column);
  return sum;
}

}  // namespace sinter
