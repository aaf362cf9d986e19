// dsm_reduce_scatter for products with swapped operands. It uses the barriers of
// handover/dsm_reduce_scatter.cuh. A thread's accumulators are pairs of rows of one column, and are
// sent as pairs. An owner sums two columns of two rows at a time: 16 bytes of each part, adjacent
// for adjacent threads.
#pragma once
#include "tile/swapped.cuh"

namespace sinter {

template <class Config, class P>
struct SwappedParts {
  static constexpr int kPairs = P::kOwnerRows / 2, kColumnPairs = P::kBlockN / 2;
  static constexpr int kUnits = kPairs * kColumnPairs;
  static constexpr int kThreads = 128 * Config::kWarpgroupsN;

  template <class Reduce>
  static SINTER_DEVICE void send(const Reduce& reduce, const float (&d)[P::kAccumulators],
                                 WarpgroupPlace place) {
    constexpr int kSets = P::kHalf / kWarpgroupRows;
    const SwappedPlace<P> at(place);
#pragma unroll
    for (int g = 0; g < Config::kBlockM / 8; ++g) {
      const int row = 8 * g + at.row, owner = row / P::kOwnerRows;
      const u32 remote = map_to_rank(reduce.parts, reduce.first + owner),
                barrier = map_to_rank(reduce.full, reduce.first + owner);
#pragma unroll
      for (int set = 0; set < P::kSets; ++set) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int i = set * (Config::kBlockM / 2) + 4 * g + 2 * half;
          const int column =
              set / kSets * P::kBlockN + at.column + set % kSets * kWarpgroupRows + 8 * half;
          store_async(remote + pair_part_offset(reduce.rank, kPairs, (row % P::kOwnerRows) / 2,
                                                P::kColumns, column),
                      barrier, d[i], d[i + 1]);
        }
      }
    }
  }

  // The matrix beside two columns of two rows.
  template <class Matrix>
  struct Elements {
    typename Matrix::Pair upper, lower;
  };
  // Of `unit`: its first row in the tile, and its first column.
  template <class Reduce>
  static SINTER_DEVICE int row_of(const Reduce& reduce, int unit) {
    return reduce.rank * P::kOwnerRows + 2 * (unit / kColumnPairs);
  }
  static SINTER_DEVICE int column_of(int unit) { return 2 * (unit % kColumnPairs); }
  template <class Reduce>
  static SINTER_DEVICE bool exists(const Reduce& reduce, int unit) {
    return unit < kUnits && row_of(reduce, unit) < Config::kBlockM;
  }

  template <class Reduce, class Matrix>
  static SINTER_DEVICE Elements<Matrix> beside(const Reduce& reduce, int unit, const Matrix& matrix,
                                               int row, int column) {
    if constexpr (Matrix::kPresent) {
      if (exists(reduce, unit)) {
        const int r = row + row_of(reduce, unit), c = column + column_of(unit);
        return {matrix.pair(r, c), matrix.pair(r + 1, c)};
      }
    }
    return {};
  }

  // The next unit's elements and terms are loaded before a unit is stored.
  template <class Reduce, class EpilogueType, class Terms, class Writer, class Matrix>
  static SINTER_DEVICE void sum(const Reduce& reduce, const EpilogueType& epilogue,
                                Terms next_terms, const Writer& writer, int row, int column,
                                const Matrix& matrix, Elements<Matrix> ahead) {
    using Of = typename Matrix::Element;
    using Results = ResultPairs<EpilogueType, Matrix, Writer>;
    jitter();
    for (int unit = reduce.first_unit(); exists(reduce, unit); unit += kThreads) {
      const Elements<Matrix> elements = ahead;
      const ColumnTerms left = next_terms.of(0), right = next_terms.of(1);
      ahead = beside(reduce, unit + kThreads, matrix, row, column);
      if (kThreads % kColumnPairs != 0)
        next_terms = reduce.terms_of(unit + kThreads, epilogue, column);
      Float4 x = {}, up = {};
      for (int source = 0; source < P::kSplitK; ++source) {
        add(&x, reduce.parts, source, unit, 0);
        if (P::kWidth == 2) add(&up, reduce.parts, source, unit, P::kBlockN);
      }
      const int r = row + row_of(reduce, unit), c = column + column_of(unit);
      const float of_upper = epilogue.scaling.at(r), of_lower = epilogue.scaling.at(r + 1);
      const Results upper(epilogue, {x.x, up.x, of_upper}, left, Of::low(elements.upper),
                          {x.z, up.z, of_upper}, right, Of::high(elements.upper));
      const Results lower(epilogue, {x.y, up.y, of_lower}, left, Of::low(elements.lower),
                          {x.w, up.w, of_lower}, right, Of::high(elements.lower));
      each_result(writer, [&](const auto& to, auto element, auto number) {
        to.pair(r, c, upper.of(element, number));
        to.pair(r + 1, c, lower.of(element, number));
      });
    }
  }

  // Two columns of two rows: (r, c), (r + 1, c), (r, c + 1), (r + 1, c + 1).
  static SINTER_DEVICE void add(Float4* x, u32 parts, int source, int unit, int matrix) {
    const Float4 v = load_shared(parts + pair_part_offset(source, kPairs, unit / kColumnPairs,
                                                          P::kColumns, matrix + column_of(unit)));
    x->x += v.x, x->y += v.y, x->z += v.z, x->w += v.w;
  }
};

}  // namespace sinter
