// inter_cluster_reduce, with the sum shared out: blocks of kParts clusters hold f32 parts of one
// tile. Each block writes its part to L2. Once all parts are there, it takes 1 / kParts of every
// part into shared memory, sums in the order of the clusters, so that results do not depend on
// timing, and stores the sum. A single block that took all parts would be bound by the bandwidth of
// one SM. After FlashFuser (arXiv 2512.12949) section IV-A, which adds into the output in any
// order. Blocks wait for blocks of other clusters, so the launch is cooperative; the kernel has the
// flags.
#pragma once
#include "ptx/tma.cuh"
#include "tile/results.cuh"

namespace sinter {

template <class Config, class P, int kParts>
struct InterClusterReduce {
  float* parts;  // global, 16-byte aligned: part i of this tile at i * kStride, row-major
  int part;      // this block's, 0..kParts - 1
  u32 taken;  // shared address of kTakenBytes, 16-byte aligned: share of part i at i * kSliceBytes

  static constexpr int kThreads = 128 * Config::kWarpgroupsM * Config::kWarpgroupsN;
  static constexpr int kTileFloats = Config::kBlockM * P::kBlockN;
  static constexpr int kStride = Config::kCluster * kTileFloats;  // parts lie in order of blocks
  static constexpr int kRowUnits = P::kBlockN / 4;                // a unit is four columns of a row
  static constexpr int kUnits = Config::kBlockM * kRowUnits;
  static constexpr int kSliceBytes = ceil_div(kUnits, kParts) * 16;
  static constexpr int kTakenBytes = kParts * kSliceBytes;
  static_assert(P::kWidth == 1 && P::kSplitK == 1, "parts of one plain tile");
  static_assert(kParts <= kUnits, "every part has a share");

  // Units [first, last) of the tile are summed by the block that holds `part`.
  static SINTER_SHARED_CONSTEXPR int first_unit(int part) { return kUnits * part / kParts; }
  SINTER_DEVICE u32 share_bytes() const {
    return static_cast<u32>(first_unit(part + 1) - first_unit(part)) * 16;
  }

  // Writes this block's accumulators into its part. Others may take the part by bulk copies after a
  // barrier of the consumer threads and a flag that tells of it.
  SINTER_DEVICE void give(const float (&d)[P::kAccumulators], WarpgroupPlace place) const {
    jitter();
    float* const own = parts + part * kStride;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = place.m * kWarpgroupRows + accumulator_row(place.thread) + 8 * half;
      if (row >= Config::kBlockM) continue;
#pragma unroll
      for (int g = 0; g < P::kGroups; ++g)
        store_relaxed_gpu(
            own + row * P::kBlockN + place.n * P::kHalf + accumulator_column(place.thread, g),
            d[4 * g + 2 * half], d[4 * g + 2 * half + 1]);
    }
    fence_proxy_async_global();
  }

  // Copies this block's share of part `source`, which has been written, into shared memory. kParts
  // shares complete on `full`. One thread.
  SINTER_DEVICE void take(int source, u32 full) const {
    bulk_load(taken + source * kSliceBytes, parts + source * kStride + first_unit(part) * 4,
              share_bytes(), full);
  }

  // Prefetches into L2 what this thread reads first of the matrix.
  template <class Matrix>
  SINTER_DEVICE void fetch(const Matrix& matrix, int row, int column) const {
    if constexpr (Matrix::kPresent) {
      const int unit = first_unit(part) + static_cast<int>(threadIdx.x) - 128;
      if (unit < first_unit(part + 1))
        matrix.fetch(row + unit / kRowUnits, column + unit % kRowUnits * 4);
    }
  }

  // Sums and stores this block's share of the tile that begins at (row, column), once all parts are
  // taken. All consumer threads.
  template <class EpilogueType, class Writer, class Matrix>
  SINTER_DEVICE void sum(const EpilogueType& epilogue, const Writer& writer, int row, int column,
                         const Matrix& matrix) const {
    jitter();
    const int first = first_unit(part), count = first_unit(part + 1) - first;
    for (int i = static_cast<int>(threadIdx.x) - 128; i < count; i += kThreads) {
      const int r = row + (first + i) / kRowUnits, c = column + (first + i) % kRowUnits * 4;
      if (r >= writer.rows || c >= P::kN) continue;
      const auto left = epilogue.terms(c), right = epilogue.terms(c + 2);
      Float4 x = load_shared(taken + i * 16);
#pragma unroll
      for (int source = 1; source < kParts; ++source) {
        const Float4 v = load_shared(taken + source * kSliceBytes + i * 16);
        x = {x.x + v.x, x.y + v.y, x.z + v.z, x.w + v.w};
      }
      const float scale = epilogue.scaling.at(r);
      const auto store = [&](int c, const auto& terms, float low, float high) {
        typename Matrix::Pair of = {};
        if constexpr (Matrix::kPresent) of = matrix.pair(r, c);
        const ResultPairs<EpilogueType, Matrix, Writer> results(
            epilogue, {low, 0, scale}, terms.of(0), Matrix::Element::low(of), {high, 0, scale},
            terms.of(1), Matrix::Element::high(of));
        each_result(writer, [&](const auto& to, auto element, auto number) {
          to.pair(r, c, results.of(element, number));
        });
      };
      store(c, left, x.x, x.y);
      store(c + 2, right, x.z, x.w);
    }
  }
};

}  // namespace sinter
