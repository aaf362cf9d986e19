// The end of a product with swapped operands. The rows of wgmma are columns of the result, so a
// thread's accumulators are pairs of rows of one column. After epilogue and rounding, 8x8 matrices
// of them are transposed and stored as in other products, 16 bytes of a row at a time.
#pragma once
#include "ptx/matrix.cuh"
#include "tile/epilogue.cuh"

namespace sinter {

// Where a thread's accumulators of a swapped product lie in the tile. The first is at `row` and
// `column`; the second is one row further, the second pair 8 columns, the next four registers 8
// rows, the next set 64 columns.
template <class P>
struct SwappedPlace {
  int row, column;    // of accumulators
  int stored, first;  // row within 8, and first column, of what this lane stores
  SINTER_DEVICE explicit SwappedPlace(WarpgroupPlace place) {
    const int lane = place.thread % 32;
    first = place.n * P::kHalf + 16 * (place.thread / 32);
    row = 2 * (lane % 4);
    column = first + lane / 4;
    stored = lane / 4;
  }
};

// Applies `epilogue` to one warpgroup's accumulators, adds the residual and writes the result. The
// tile begins at `row` and `column` of the matrix.
template <class Config, class P, class EpilogueType, class Writer, class Added>
class SwappedWriter {
 public:
  SINTER_DEVICE SwappedWriter(const EpilogueType& epilogue, const Writer& writer,
                              const Added& added, int row, int column, WarpgroupPlace place)
      : epilogue_(epilogue),
        writer_(writer),
        added_(added),
        place_(place),
        row_(row),
        column_(column),
        quad_(place.thread % 4) {
    if constexpr (EpilogueType::kTermWords > 0) {
#pragma unroll
      for (int set = 0; set < kSets; ++set)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int c = result_column(set, half);
          terms_[set][half] = epilogue.terms(c & ~1).of(c & 1);
        }
      asm volatile("" ::: "memory");  // not to be loaded where they are used
    }
  }

  // Prefetches the residual into L2. Called before the product.
  SINTER_DEVICE void fetch() const {
    if constexpr (Added::kPresent) {
#pragma unroll
      for (int set = 0; set < kSets; ++set)
#pragma unroll
        for (int g = 0; g < kGroups; g += 2) added_.fetch(stored_row(g), stored_column(set));
    }
  }

  SINTER_DEVICE void write(const float (&d)[P::kAccumulators]) const {
    jitter();
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      if constexpr (Config::Result::kBytes == 4) {
        write_elements(d, set);
      } else {
#pragma unroll
        for (int g = 0; g + 1 < kGroups; g += 2) write_quad(d, set, g);
        if (kGroups % 2 == 1) write_pairs(d, set, kGroups - 1);
      }
    }
  }

 private:
  template <class, class, class, class, class>
  friend class SwappedWriter;

  static constexpr int kGroups = Config::kBlockM / 8;      // of 8 rows
  static constexpr int kSets = P::kHalf / kWarpgroupRows;  // of one weight matrix
  static constexpr int kUp = kSets * Config::kBlockM / 2;  // from gate to up

  // Lane q of a quad stores the 16 bytes of row group q / 2 from column 8 (q % 2).
  SINTER_DEVICE int stored_row(int g) const { return row_ + 8 * (g + quad_ / 2) + place_.stored; }
  SINTER_DEVICE int stored_column(int set) const {
    return column_ + place_.first + kWarpgroupRows * set + 8 * (quad_ % 2);
  }

  SINTER_DEVICE int result_column(int set, int half) const {
    return column_ + place_.column + kWarpgroupRows * set + 8 * half;
  }

  // Two results of one column, in rows 2 (lane % 4) and the next of row group g.
  struct Results {
    int row, column;
    float low, high;
  };
  SINTER_DEVICE Results results(const float (&d)[P::kAccumulators], int set, int g,
                                int half) const {
    const int i = set * (Config::kBlockM / 2) + 4 * g + 2 * half;
    const int up = P::kWidth == 2 ? kUp : 0;
    const int row = row_ + 8 * g + place_.row;
    const ColumnTerms& terms = terms_[set][half];
    return {row, result_column(set, half),
            epilogue_.apply(d[i], d[i + up], epilogue_.scaling.at(row), terms),
            epilogue_.apply(d[i + 1], d[i + 1 + up], epilogue_.scaling.at(row + 1), terms)};
  }

  // The same with the residual `added`, rounded.
  SINTER_DEVICE u32 word(const float (&d)[P::kAccumulators], int set, int g, int half,
                         u32 added) const {
    const Results y = results(d, set, g, half);
    if constexpr (Added::kPresent)
      return Added::add(y.low, y.high, transpose_8x8(added));
    else
      return Config::Result::pack(y.low, y.high);
  }

  // Of f32, eight lanes have 32 bytes of a row side by side.
  SINTER_DEVICE void write_elements(const float (&d)[P::kAccumulators], int set) const {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Results y = results(d, set, g, half);
        writer_.element(y.row, y.column, y.low);
        writer_.element(y.row + 1, y.column, y.high);
      }
    }
  }

  SINTER_DEVICE void write_quad(const float (&d)[P::kAccumulators], int set, int g) const {
    u32 r[4] = {};
    if constexpr (Added::kPresent) {
      const Word4 v = added_.group(stored_row(g), stored_column(set));
      const u32 loaded[4] = {v.x, v.y, v.z, v.w};
      const Word4 t = quad_transpose(loaded);
      r[0] = t.x, r[1] = t.y, r[2] = t.z, r[3] = t.w;
    }
    u32 w[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = transpose_8x8(word(d, set, g + i / 2, i % 2, r[i]));
    writer_.group(stored_row(g), stored_column(set), quad_transpose(w));
  }

  // The last row group where their number is odd.
  SINTER_DEVICE void write_pairs(const float (&d)[P::kAccumulators], int set, int g) const {
    const int row = row_ + 8 * g + place_.stored;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = column_ + place_.first + kWarpgroupRows * set + 8 * half + 2 * quad_;
      u32 r = 0;
      if constexpr (Added::kPresent) r = added_.pair(row, column);
      writer_.pair(row, column, transpose_8x8(word(d, set, g, half, r)));
    }
  }

  const EpilogueType& epilogue_;
  const Writer& writer_;
  const Added& added_;
  const SwappedPlace<P> place_;
  const int row_, column_, quad_;
  ColumnTerms terms_[kSets][2];  // of this thread's columns
};

}  // namespace sinter
