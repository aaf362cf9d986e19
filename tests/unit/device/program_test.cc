// Programs: an epilogue hands its generated program the accumulators, the number of their row and
// the terms of their columns.
#include "tile/program.cuh"

#include "tests/unit/device/tile_runs.h"

namespace sinter {
namespace {

constexpr int kColumns = 5;

template <int kWeights>
struct FiveColumns {
  static constexpr int kN = kColumns, kWidth = kWeights;
};

// As generated: a bias and a vector, of which the first is f32.
template <bool kRow>
struct TestProgram {
  struct Leaves {
    const Float32::Stored* bias1;
    const Integer16::Stored* leaf1;
  };
  struct Pair {
    Float32::Pair bias1;
    Integer16::Pair leaf1;
  };
  static constexpr int kWords = 3, kScratch = 64;
  static constexpr bool kReadsRow = kRow, kWhole = false;
  template <int kCount>
  static Pair load(const Leaves& leaves, int column) {
    return {load_pair<Float32, kCount, 1>(leaves.bias1, column),
            load_pair<Integer16, kCount, 1>(leaves.leaf1, column)};
  }
  static ColumnTerms terms(const Pair& pair, int i) {
    ColumnTerms terms;
    terms.bias = i == 0 ? pair.bias1.low : pair.bias1.high;
    terms.bias_up = i == 0 ? Integer16::low(pair.leaf1) : Integer16::high(pair.leaf1);
    return terms;
  }
  static float apply(float y, float up, float row, const ColumnTerms& terms) {
    return (y + terms.bias) * terms.bias_up + 1000 * up + (kRow ? 10000 * row : 0);
  }
};

// The bias of a column is 10 + column, its other term 2 + column, its factors 3 + column and
// 5 + column. The number of a row is 7 + row.
struct Vectors {
  alignas(8) std::array<float, kColumns + 1> bias, factor, up_factor;
  alignas(4) std::array<u16, kColumns + 1> term;
  std::array<float, 4> rows;
  Vectors() {
    for (int c = 0; c <= kColumns; ++c) {
      const auto at = static_cast<size_t>(c);
      bias[at] = static_cast<float>(10 + c);
      term[at] = static_cast<u16>(2 + c);
      factor[at] = static_cast<float>(3 + c);
      up_factor[at] = static_cast<float>(5 + c);
    }
    for (size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<float>(7 + r);
  }
};

template <class Program, class Scaling, int kWeights>
float At(const Vectors& v, const Scaling& scaling, int row, int column, float y, float up) {
  const typename Program::Leaves leaves = {v.bias.data(), v.term.data()};
  const Epilogue<FiveColumns<kWeights>, LeavesOf<Program>, WithLeaves<Program>, false, Scaling>
      epilogue{&leaves, nullptr, scaling};
  const auto pair = epilogue.terms(column & ~1);
  return epilogue.apply(y, up, epilogue.scaling.at(row), pair.of(column & 1));
}

TEST(Programs, HaveTheTermsOfTheirColumn) {
  const Vectors v;
  for (int c = 0; c < kColumns; ++c) {
    const float want = static_cast<float>((100 + 10 + c) * (2 + c));
    EXPECT_EQ((At<TestProgram<false>, NoScaling, 1>(v, {}, 0, c, 100, 9)), want) << c;
  }
}

TEST(Programs, HaveTheNumberOfTheirRowApartFromTheAccumulators) {
  const Vectors v;
  const auto rows = RowFactors<Float32>::of(v.rows.data(), 1, 4);
  for (int r = 0; r < 4; ++r) {
    const float alone = static_cast<float>((100 + 10) * 2);
    EXPECT_EQ((At<TestProgram<true>, RowFactors<Float32>, 1>(v, rows, r, 0, 100, 0)),
              alone + 10000 * static_cast<float>(7 + r));
    const float multiplied = static_cast<float>((100 * (7 + r) + 10) * 2);
    EXPECT_EQ((At<TestProgram<false>, RowFactors<Float32>, 1>(v, rows, r, 0, 100, 0)), multiplied);
  }
}

TEST(Programs, OfAPairHaveBothHalvesScaled) {
  const Vectors v;
  using Scaling = ColumnFactors<NoScaling, false, Float32>;
  const Scaling scaling(NoScaling{}, v.factor.data(), v.up_factor.data());
  for (int c = 0; c < kColumns; ++c) {
    const float gate = static_cast<float>((100 * (3 + c) + 10 + c) * (2 + c));
    const float up = static_cast<float>(1000 * 4 * (5 + c));
    EXPECT_EQ((At<TestProgram<false>, Scaling, 2>(v, scaling, 0, c, 100, 4)), gate + up) << c;
  }
}

}  // namespace
}  // namespace sinter
