// The kernel of products by mma.sync on the host: every layout, element and kind of tile, rows,
// columns and K that end anywhere, with copies that arrive as early and as late as they may.
#include "kernels/mma_product.cuh"
#include "tests/support/test.h"

namespace sinter {

unsigned char mma_shared[128];

namespace {

template <class Element_, class Result_, int kN_, int kK_, bool kPair_, bool kAlongK_>
struct Problem {
  using Element = Element_;
  using Result = Result_;
  static constexpr int kN = kN_, kK = kK_, kWalk = 2;
  static constexpr bool kPair = kPair_, kAlongK = kAlongK_;
  // Rows with gaps. Columns that are contiguous are whole vectors.
  static constexpr long long kRowStride = kK + Element::kVector, kOutStride = kN + kN % 4;
  static constexpr long long kWeightStride = (kAlongK ? kK : kN) + Element::kVector;
};
template <class Problem, int kBlockM_, int kBlockN_, int kWarpM_, int kWarpN_, int kSlices_,
          int kStages_>
struct Config : Problem {
  static constexpr int kBlockM = kBlockM_, kBlockN = kBlockN_, kWarpM = kWarpM_, kWarpN = kWarpN_;
  static constexpr int kSlices = kSlices_, kStages = kStages_;
};

struct End {
  void apply(int row, int column, float (&y)[4], const float (&up)[4]) const {
    for (int i = 0; i < 4; ++i) y[i] += 2 * up[i] + static_cast<float>(row + column + i);
  }
};

template <class T>
struct Matrix {
  std::vector<T> memory;
  T* begin;  // 16-byte aligned

  Matrix(size_t count, T value) : memory(count + 16, value) {
    const auto at = reinterpret_cast<uintptr_t>(memory.data());
    begin = memory.data() + (16 - at % 16) % 16 / sizeof(T);
  }
};
template <class T>
Matrix<T> Drawn(size_t count, std::mt19937* rng) {
  Matrix<T> matrix(count, 0);
  for (T& x : matrix.memory) x = static_cast<T>(static_cast<int>((*rng)() % 5) - 2);
  return matrix;
}

template <class C>
void Expect(int m, Arrival arrival) {
  SCOPED_TRACE(m);
  using Kernel = MmaProduct<C>;
  using Stored = typename C::Element::Stored;
  using Out = typename C::Result::Stored;
  std::mt19937 rng(static_cast<unsigned>(m));
  const auto rows = Drawn<Stored>(static_cast<size_t>(m * C::kRowStride), &rng);
  const size_t of_weights = (C::kAlongK ? C::kN : C::kK) * C::kWeightStride;
  const auto gate = Drawn<Stored>(of_weights, &rng), up = Drawn<Stored>(of_weights, &rng);
  constexpr Out kPoison = 77;
  Matrix<Out> out(static_cast<size_t>(m * C::kOutStride), kPoison);
  const MmaOperands<C> operands = {rows.begin, {gate.begin, up.begin}, out.begin};
  // A plan of more rows has more blocks.
  const int blocks = (ceil_div(m, C::kBlockM) + 1) * ceil_div(C::kN, C::kBlockN);
  for (int block = 0; block < blocks; ++block) {
    blockIdx.x = static_cast<unsigned>(block);
    host_block.Run(Kernel::kThreads, Kernel::kSharedBytes, arrival,
                   [&] { Kernel::run(operands, End{}, m); });
  }
  const auto product = [&](int row, int column, const Stored* weights) {
    int sum = 0;
    for (int k = 0; k < C::kK; ++k) {
      sum += rows.begin[row * C::kRowStride + k] * (C::kAlongK
                                                        ? weights[column * C::kWeightStride + k]
                                                        : weights[k * C::kWeightStride + column]);
    }
    return sum;
  };
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < C::kOutStride; ++column) {
      int want = product(row, std::min(column, C::kN - 1), gate.begin) + row + column;
      if (C::kPair) want += 2 * product(row, std::min(column, C::kN - 1), up.begin);
      ASSERT_EQ(out.begin[row * C::kOutStride + column],
                column < C::kN ? static_cast<Out>(want) : kPoison)
          << row << ", " << column;
    }
  }
  EXPECT_EQ(out.begin[m * C::kOutStride], kPoison);
  EXPECT_EQ(bank_conflicts, 0);
}
template <class C>
void ExpectAll() {
  for (const Arrival arrival : {Arrival::kAtOnce, Arrival::kWhenAwaited}) {
    for (const int m : {1, 37}) Expect<C>(m, arrival);
  }
}

template <int kN, int kK, bool kPair, bool kAlongK>
using Of16 = Problem<Integer16, Integer16, kN, kK, kPair, kAlongK>;

TEST(MmaKernel, MultipliesWeightsAlongK) {
  ExpectAll<Config<Of16<72, 208, false, true>, 64, 64, 32, 32, 1, 3>>();
  ExpectAll<Config<Of16<67, 208, false, true>, 16, 32, 16, 16, 4, 2>>();
  ExpectAll<Config<Of16<40, 264, false, true>, 16, 64, 16, 64, 2, 4>>();
}
TEST(MmaKernel, MultipliesWeightsAlongColumns) {
  ExpectAll<Config<Of16<72, 200, false, false>, 32, 16, 16, 16, 2, 4>>();
  ExpectAll<Config<Of16<136, 64, false, false>, 64, 128, 32, 64, 1, 2>>();
}
TEST(MmaKernel, MultipliesGateAndUp) {
  ExpectAll<Config<Of16<40, 136, true, true>, 32, 32, 32, 16, 2, 3>>();
  ExpectAll<Config<Of16<40, 136, true, false>, 32, 32, 16, 32, 1, 3>>();
}
TEST(MmaKernel, MultipliesElementsOf8Bits) {
  ExpectAll<Config<Problem<Signed8, Float32, 50, 272, false, true>, 32, 64, 32, 32, 1, 3>>();
  ExpectAll<Config<Problem<Promoted8, Float32, 50, 400, true, true>, 16, 16, 16, 16, 2, 2>>();
}

}  // namespace
}  // namespace sinter
