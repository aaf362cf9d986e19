// Scaling multiplies a product's accumulators before bias and activation: by a constant, by a
// number of each row from global memory, such as a norm's statistic, and by a number of each
// column.
#pragma once
#include "ptx/element.cuh"
#include "tile/column_terms.cuh"

namespace sinter {

// For a product without scaling.
struct NoScaling {
  static constexpr bool kPresent = false, kColumns = false;
  using Factor = Float32;  // of columns: there is none
  static SINTER_DEVICE NoScaling of(const void*, float, int, int = 0) { return {}; }
  SINTER_DEVICE float at(int) const { return 1.0f; }
};

// The same for all rows.
struct ConstantScale {
  static constexpr bool kPresent = true, kColumns = false;
  using Factor = Float32;
  float constant;

  static SINTER_DEVICE ConstantScale of(const void*, float constant, int, int = 0) {
    return {constant};
  }
  SINTER_DEVICE float at(int) const { return constant; }
};

// One factor a row, kStride elements apart: f32, or the chain's element.
template <class Element, long long kStride = 1>
struct RowFactors {
  using Stored = typename Element::Stored;
  static constexpr bool kPresent = true, kColumns = false;
  using Factor = Float32;
  const Stored* factors;
  float constant;
  int rows;  // rows that exist

  // `first`: the row that is called 0.
  static SINTER_DEVICE RowFactors of(const void* factors, float constant, int rows, int first = 0) {
    return {static_cast<const Stored*>(factors) + first * kStride, constant, rows - first};
  }
  // 0 for rows behind the last one, which are not read.
  SINTER_DEVICE float at(int row) const {
    return row < rows ? constant * Element::unpack(factors[row * kStride]) : 0.0f;
  }
};

// One factor in memory for all rows.
template <class Element>
struct OneFactor {
  static constexpr bool kPresent = true, kColumns = false;
  using Factor = Float32;
  float factor;

  static SINTER_DEVICE OneFactor of(const void* factors, float constant, int, int = 0) {
    return {constant * Element::unpack(*static_cast<const typename Element::Stored*>(factors))};
  }
  SINTER_DEVICE float at(int) const { return factor; }
};

// The scaling `Rows`, and a factor of each column of gate and of up, kStride elements apart; with
// kOne, one of all columns.
template <class Rows_, bool kOne, class Element = Float32, long long kStride = 1>
struct ColumnFactors {
  using Rows = Rows_;
  using Factor = Element;
  using Stored = typename Element::Stored;
  static constexpr bool kPresent = true, kColumns = true;
  Rows rows;
  const Stored *factors, *up_factors;

  SINTER_DEVICE ColumnFactors(Rows rows, const void* factors, const void* up_factors)
      : rows(rows),
        factors(static_cast<const Stored*>(factors)),
        up_factors(static_cast<const Stored*>(up_factors)) {}
  SINTER_DEVICE float at(int row) const { return rows.at(row); }
  // Of two neighbouring columns of kCount.
  template <int kCount>
  static SINTER_DEVICE typename Element::Pair pair(const Stored* vector, int column) {
    return load_pair < Element, kCount, kOne ? 0 : kStride > (vector, column);
  }
  // The same of eight columns, from a multiple of 8, into `pair` of four terms.
  template <int kCount, class Terms>
  static SINTER_DEVICE void pairs(const Stored* vector, int column, Terms* four,
                                  typename Element::Pair Terms::*pair) {
    load_pairs<Element, kCount, kOne ? 0 : kStride>(vector, column, four, pair);
  }
};

// The scales of a thread's two rows of accumulators. They are loaded before the product and arrive
// while it runs.
template <class Scaling>
struct HeldScaling {
  float halves[2];

  // `row`: the tile's first row.
  SINTER_DEVICE HeldScaling(const Scaling& scaling, int row, WarpgroupPlace place) {
    row += place.m * kWarpgroupRows + accumulator_row(place.thread);
    halves[0] = scaling.at(row);
    halves[1] = scaling.at(row + 8);
  }
  SINTER_DEVICE float of_half(int half) const { return halves[half]; }
};
template <>
struct HeldScaling<NoScaling> {
  SINTER_DEVICE HeldScaling(NoScaling, int, WarpgroupPlace) {}
  SINTER_DEVICE float of_half(int) const { return 1.0f; }
};

}  // namespace sinter
