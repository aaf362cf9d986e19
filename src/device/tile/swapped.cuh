// The end of a product with swapped operands. The rows of wgmma are columns of the result, so a
// thread's accumulators are pairs of rows of one column. After epilogue and rounding, 8x8 matrices
// of them are transposed and stored as in other products, 16 bytes of a row at a time.
#pragma once
#include "ptx/wgmma.cuh"
#include "tile/results.cuh"

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

// Stores the results of one warpgroup's accumulators. The tile begins at `row` and `column` of the
// result. A warp takes 16 rows of its 16 columns of a set at a time: a unit.
template <class Config, class P, class EpilogueType, class Writer, class Matrix>
class SwappedWriter {
 public:
  SINTER_DEVICE SwappedWriter(const EpilogueType& epilogue, const Writer& writer,
                              const Matrix& matrix, int row, int column, WarpgroupPlace place)
      : epilogue_(epilogue),
        writer_(writer),
        matrix_(matrix),
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

  // Prefetches the matrix into L2. Called before the product.
  SINTER_DEVICE void fetch() const {
    if constexpr (Matrix::kPresent) {
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit)
        matrix_.fetch(stored_row(group_of(unit)), stored_column(unit / kSetUnits));
    }
  }

  SINTER_DEVICE void write(const float (&d)[P::kAccumulators]) const {
    jitter();
    Elements ahead[kAhead];
#pragma unroll
    for (int unit = 0; unit < kAhead && unit < kUnits; ++unit) load(unit, ahead[unit]);
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      u32 words[kResultsOf<Writer>][4];
      write_unit(d, unit, ahead[unit % kAhead], words);
      if (unit + kAhead < kUnits) load(unit + kAhead, ahead[unit % kAhead]);
      write_words(unit, words);
    }
  }

 private:
  using Of = typename Matrix::Element;
  static constexpr int kGroups = Config::kBlockM / 8;      // of 8 rows
  static constexpr int kSets = P::kHalf / kWarpgroupRows;  // of one weight matrix
  static constexpr int kUp = P::kWidth == 2 ? kSets * Config::kBlockM / 2 : 0;  // from gate to up
  static constexpr int kSetUnits = ceil_div(kGroups, 2), kUnits = kSets * kSetUnits;
  static constexpr int kAhead = P::kAccumulators > 96 ? 1 : 2;  // units whose elements are loaded

  // A unit's first row group, and whether it is the last one alone.
  static SINTER_DEVICE int group_of(int unit) { return unit % kSetUnits * 2; }
  static SINTER_DEVICE bool is_half(int unit) { return group_of(unit) + 1 == kGroups; }

  // Lane q of a quad stores the 16 bytes of row group q / 2 from column 8 (q % 2).
  SINTER_DEVICE int stored_row(int g) const { return row_ + 8 * (g + quad_ / 2) + place_.stored; }
  SINTER_DEVICE int stored_column(int set) const {
    return column_ + place_.first + kWarpgroupRows * set + 8 * (quad_ % 2);
  }
  // What it stores of a half unit: two columns, and two 8 columns further.
  SINTER_DEVICE int half_row(int g) const { return row_ + 8 * g + place_.stored; }
  SINTER_DEVICE int half_column(int set) const {
    return column_ + place_.first + kWarpgroupRows * set + 2 * quad_;
  }
  // Of accumulators: pairs of rows of one column.
  SINTER_DEVICE int result_row(int g) const { return row_ + 8 * g + place_.row; }
  SINTER_DEVICE int result_column(int set, int half) const {
    return column_ + place_.column + kWarpgroupRows * set + 8 * half;
  }

  // The matrix beside a unit's accumulators. Of 16 bits it is loaded as results are stored, and
  // turned when it is used; else as accumulators lie: part i is rows of group i / 2, half i % 2.
  union Elements {
    typename Matrix::Pair words[4];
    FloatPair pairs[4];
    SINTER_DEVICE Elements() {}
  };
  SINTER_DEVICE void load(int unit, Elements& elements) const {
    if constexpr (Matrix::kPresent) {
      const int set = unit / kSetUnits, g = group_of(unit);
      if constexpr (Matrix::kQuads) {
        if (is_half(unit)) {
          elements.words[0] = matrix_.pair(half_row(g), half_column(set));
          elements.words[1] = matrix_.pair(half_row(g), half_column(set) + 8);
        } else {
          matrix_.eight(stored_row(g), stored_column(set), elements.words);
        }
      } else {
#pragma unroll
        for (int i = 0; i < (is_half(unit) ? 2 : 4); ++i) {
          const int row = result_row(g + i / 2), column = result_column(set, i % 2);
          elements.pairs[i] = {matrix_.one(row, column), matrix_.one(row + 1, column)};
        }
      }
    }
  }
  static SINTER_DEVICE void turn(int unit, const Elements& elements, FloatPair (&pairs)[4]) {
    if constexpr (Matrix::kQuads) {
      u32 words[4] = {elements.words[0], elements.words[1]};
      if (!is_half(unit)) {
        const Word4 v = quad_transpose(elements.words);
        words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
      }
#pragma unroll
      for (int i = 0; i < (is_half(unit) ? 2 : 4); ++i) {
        const u32 word = transpose_8x8(words[i]);
        pairs[i] = {Of::low(word), Of::high(word)};
      }
    } else if constexpr (Matrix::kPresent) {
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i] = elements.pairs[i];
    }
  }

  // Of f32, eight lanes have 32 bytes of a row side by side. Results of 16 bits are `words`.
  SINTER_DEVICE void write_unit(const float (&d)[P::kAccumulators], int unit,
                                const Elements& elements,
                                u32 (&words)[kResultsOf<Writer>][4]) const {
    const int set = unit / kSetUnits;
    FloatPair beside[4] = {};
    turn(unit, elements, beside);
#pragma unroll
    for (int part = 0; part < (is_half(unit) ? 2 : 4); ++part) {
      const int g = group_of(unit) + part / 2, half = part % 2;
      const int i = set * (Config::kBlockM / 2) + 4 * g + 2 * half;
      const int row = result_row(g), column = result_column(set, half);
      const ColumnTerms& terms = terms_[set][half];
      const ResultPairs<EpilogueType, Matrix, Writer> results(
          epilogue_, {d[i], d[i + kUp], epilogue_.scaling.at(row)}, terms, beside[part].low,
          {d[i + 1], d[i + 1 + kUp], epilogue_.scaling.at(row + 1)}, terms, beside[part].high);
      each_result(writer_, [&](const auto& to, auto element, auto number) {
        const auto both = results.of(element, number);
        if constexpr (decltype(element)::kBytes == 4) {
          to.element(row, column, both.low);
          to.element(row + 1, column, both.high);
        } else {
          words[decltype(number)::kValue][part] = transpose_8x8(both);
        }
      });
    }
  }
  SINTER_DEVICE void write_words(int unit, const u32 (&words)[kResultsOf<Writer>][4]) const {
    const int set = unit / kSetUnits, g = group_of(unit);
    each_result(writer_, [&](const auto& to, auto element, auto number) {
      constexpr int kNumber = decltype(number)::kValue;
      if constexpr (decltype(element)::kBytes == 2) {
        if (!is_half(unit)) {
          to.group(stored_row(g), stored_column(set), quad_transpose(words[kNumber]));
          return;
        }
        to.pair(half_row(g), half_column(set), words[kNumber][0]);
        to.pair(half_row(g), half_column(set) + 8, words[kNumber][1]);
      }
    });
  }

  const EpilogueType& epilogue_;
  const Writer& writer_;
  const Matrix& matrix_;
  const SwappedPlace<P> place_;
  const int row_, column_, quad_;
  ColumnTerms terms_[kSets][2];  // of this thread's columns
};

}  // namespace sinter
