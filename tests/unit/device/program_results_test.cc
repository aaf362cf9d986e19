// Whole programs: a tile's results of several types, and the matrix that they are made of, in every
// layout of accumulators.
#include "kernels/block.cuh"
#include "tests/unit/device/tile_runs.h"
#include "tile/program.cuh"

namespace sinter {
namespace {

// The operands of the epilogue, without a GEMM: small integers, so that sums are exact.
float Gate(int row, int column) { return static_cast<float>((row * 7 + column * 3) % 50); }
float Up(int row, int column) { return static_cast<float>((row + column * 2) % 5); }
float Bias(int column) { return static_cast<float>(1 + column); }
// In f32 the values are not integers.
template <class Element>
float MatrixAt(int row, int column) {
  return static_cast<float>((row * 5 + column * 11) % 40) +
         (std::is_same_v<Element, Float32> ? 0.25f : 0.0f);
}

// As generated: a bias, and results that are made of it and of the matrix, and without them.
struct ResultsProgram {
  struct Leaves {
    const Float32::Stored* bias1;
  };
  struct Pair {
    Float32::Pair bias1;
  };
  static constexpr int kWords = 2, kScratch = 0;
  static constexpr bool kReadsRow = false, kWhole = true;
  template <int kCount>
  static Pair load(const Leaves& leaves, int column) {
    return {load_pair<Float32, kCount, 1>(leaves.bias1, column)};
  }
  static ColumnTerms terms(const Pair& pair, int i) {
    ColumnTerms terms;
    terms.bias = i == 0 ? pair.bias1.low : pair.bias1.high;
    return terms;
  }
  template <int kResults>
  static void apply(float y, float up, float, const ColumnTerms& terms, float r,
                    float (&of)[kResults]) {
    of[0] = y + terms.bias + 100 * up + 4 * r;
    if constexpr (kResults > 1) of[1] = y + r;
    if constexpr (kResults > 2) of[2] = up + 3 * y;
  }
};

// Element (row, column) of a thread's accumulators, by their index; of up kUp further.
template <class Config, class P>
constexpr int kHalfOfPair = P::kAccumulators / P::kWidth;
template <class Config, class P, class Set>
void ForOwn(WarpgroupPlace place, const Set& set) {
  if constexpr (Config::kSwapped) {
    const SwappedPlace<P> at(place);
    for (int i = 0; i < kHalfOfPair<Config, P>; ++i) {
      const int of_set = i % (Config::kBlockM / 2);
      set(i, 8 * (of_set / 4) + at.row + of_set % 2,
          at.column + kWarpgroupRows * (i / (Config::kBlockM / 2)) + 8 * (of_set / 2 % 2));
    }
  } else {
    for (int i = 0; i < kHalfOfPair<Config, P>; ++i) {
      set(i, place.m * kWarpgroupRows + accumulator_row(place.thread) + 8 * (i / 2 % 2),
          place.n * P::kHalf + P::pair_column(place.thread, i / 4) + i % 2);
    }
  }
}

template <class Element>
struct Stored {
  static constexpr int kGap = 3, kBelow = 9;  // elements between rows, rows past the last
  std::vector<typename Element::Stored> data;
  int columns, stride;
  Stored(int rows, int columns)
      : data(static_cast<size_t>((rows + kBelow) * (columns + kGap + columns % 2)), Poison()),
        columns(columns),
        stride(columns + kGap + columns % 2) {}
  static typename Element::Stored Poison() { return static_cast<typename Element::Stored>(-7777); }
  float At(int row, int column) const {
    return Element::unpack(data[static_cast<size_t>(row * stride + column)]);
  }
};

template <class Element, class Value>
void Expect(const Stored<Element>& stored, int rows, const Value& value) {
  for (size_t i = 0; i < stored.data.size(); ++i) {
    const int row = static_cast<int>(i) / stored.stride,
              column = static_cast<int>(i) % stored.stride;
    if (row >= rows || column >= stored.columns) {
      ASSERT_EQ(stored.data[i], Stored<Element>::Poison()) << row << " " << column;
      continue;
    }
    const float wanted = value(row, column);
    ASSERT_EQ(Element::unpack(stored.data[i]),
              Element::kBytes == 2 ? static_cast<float>(static_cast<int>(wanted)) : wanted)
        << "row " << row << " column " << column;
  }
}

// Tiles of Config's first product, of `rows` rows in all.
template <class Config, class Of, class First, class Second>
void Check(int rows) {
  using P = typename Config::First;
  SCOPED_TRACE(rows);
  const int columns = P::kN;
  std::vector<float> bias;
  for (int c = 0; c <= columns; ++c) bias.push_back(Bias(c));
  std::vector<typename Of::Stored> of(static_cast<size_t>(rows * columns));
  for (int i = 0; i < rows * columns; ++i) {
    const float value = MatrixAt<Of>(i / columns, i % columns);
    of[static_cast<size_t>(i)] = static_cast<typename Of::Stored>(value);
  }
  Stored<First> first(rows, columns);
  Stored<Second> second(rows, columns);
  Stored<Float32> third(rows, columns);
  const auto matrix = MatrixLeaf<Of, P::kN, P::kN % 8 == 0>::of(of.data(), columns, rows);
  const GlobalWriter<Float32, P::kN, false> to_third{third.data.data(), third.stride, rows};
  const GlobalWriter<Second, P::kN, false> to_second{second.data.data(), second.stride, rows};
  const GlobalWriter<First, P::kN, false> to_first{first.data.data(), first.stride, rows};
  const auto writer = ThenWriter(to_first, ThenWriter(to_second, to_third));
  const ResultsProgram::Leaves leaves = {bias.data()};
  const Epilogue<P, LeavesOf<ResultsProgram>, WithLeaves<ResultsProgram>, false, NoScaling>
      epilogue{&leaves, nullptr, {}};
  const int ranks = P::kSplitK;
  const auto fill = [&](int row, int column, int rank, WarpgroupPlace place,
                        float(&d)[P::kAccumulators]) {
    ForOwn<Config, P>(place, [&](int i, int r, int c) {
      d[i] = rank == 0 ? Gate(row + r, column + c) : static_cast<float>(rank);
      if (P::kWidth == 2) d[i + kHalfOfPair<Config, P>] = rank == 0 ? Up(row + r, column + c) : 0;
    });
  };
  for (int row = 0; row < rows; row += Config::kBlockM) {
    for (int column = 0; column < columns; column += P::kBlockN) {
      if constexpr (P::kSplitK == 1) {
        for (int warp = 0; warp < kConsumers<Config> / 32; ++warp) {
          machine.RunWarp([&](int lane) {
            threadIdx.x = 128 + static_cast<unsigned>(warp * 32 + lane);
            const WarpgroupPlace place = PlaceOf<Config>(warp * 32 + lane);
            int none = 0;
            multiply_and_write<Config, P>(
                [&](float(&d)[P::kAccumulators]) { fill(row, column, 0, place, d); }, place, none,
                epilogue, writer, row, column, false, matrix);
          });
        }
        continue;
      } else {
        machine.Reset(ranks);
        const auto reduce_of = [&](int rank) {
          return DsmReduceScatter<Config, P>{kBase, kOwnBarriers, kOwnBarriers + 8, 0, rank, true};
        };
        for (int rank = 0; rank < ranks; ++rank) {
          machine.rank = rank;
          for (int t = 0; t < kConsumers<Config>; ++t) {
            float d[P::kAccumulators] = {};
            fill(row, column, rank, PlaceOf<Config>(t), d);
            if constexpr (Config::kSwapped)
              SwappedParts<Config, P>::send(reduce_of(rank), d, PlaceOf<Config>(t));
            else
              reduce_of(rank).send(d, PlaceOf<Config>(t));
          }
        }
        for (int rank = 0; rank < ranks; ++rank) {
          machine.rank = rank;
          for (int t = 0; t < kConsumers<Config>; ++t) {
            threadIdx.x = 128 + static_cast<unsigned>(t);
            const auto reduce = reduce_of(rank);
            const auto terms = reduce.terms_of(reduce.first_unit(), epilogue, column);
            if constexpr (Config::kSwapped) {
              using Parts = SwappedParts<Config, P>;
              Parts::sum(reduce, epilogue, terms, writer, row, column, matrix,
                         Parts::beside(reduce, reduce.first_unit(), matrix, row, column));
            } else {
              reduce.sum(epilogue, reduce.scale_of(reduce.first_unit(), epilogue, row), terms,
                         writer, row, column, matrix,
                         reduce.beside(reduce.first_unit(), matrix, row, column));
            }
          }
        }
      }
    }
  }
  const float more = static_cast<float>(ranks * (ranks - 1) / 2);
  const auto up = [&](int r, int c) { return P::kWidth == 2 ? Up(r, c) : 0.0f; };
  Expect(first, rows, [&](int r, int c) {
    return Gate(r, c) + more + Bias(c) + 100 * up(r, c) + 4 * MatrixAt<Of>(r, c);
  });
  Expect(second, rows, [&](int r, int c) { return Gate(r, c) + more + MatrixAt<Of>(r, c); });
  Expect(third, rows, [&](int r, int c) { return up(r, c) + 3 * (Gate(r, c) + more); });
}

template <class Config>
void CheckRows() {
  for (const int rows : {1, 9, Config::kBlockM, Config::kBlockM + 17}) {
    Check<Config, Float32, Integer16, Float32>(rows);
    Check<Config, Float32, Float32, Integer16>(rows);
    Check<Config, Integer16, Integer16, Integer16>(rows);
    Check<Config, Integer16, Float32, Float32>(rows);
  }
}

template <class... Config>
void CheckForms(::testing::Types<Config...>) {
  (CheckRows<Config>(), ...);
}

// Block of M, warpgroups along M and N, width, N, columns of a tile, ranks, swapped.
template <int kBlockM, int kM, int kN, int kWidth, int kColumns, int kBlockN, int kSplit,
          bool kSwapped, bool kPermuted = false>
using Tile = TestConfig<kBlockM, 64, 2, kSplit, kM, kN, false, kWidth, kColumns, 512, kBlockN,
                        kSplit, 8, 8, 1, 1, 1, kSwapped, Integer16, PlainRows, kPermuted>;

TEST(ProgramResults, OfATileAreInTheirPlaces) {
  CheckForms(
      Forms<Tile<64, 1, 1, 1, 96, 32, 1, false>,
            Tile<128, 2, 1, 1, 160, 144, 1, false>,  // more groups than have all their matrix
            Tile<40, 1, 1, 1, 61, 24, 1, false>,     // no whole quads, ragged
            Tile<64, 1, 2, 1, 100, 80, 1, false>, Tile<64, 1, 1, 2, 96, 40, 1, false>>{});
}
TEST(ProgramResults, OfPermutedWeightsAreInTheirPlaces) {
  CheckForms(
      Forms<Tile<64, 1, 1, 1, 96, 64, 1, false, true>, Tile<128, 2, 1, 1, 160, 160, 1, false, true>,
            Tile<40, 1, 2, 2, 96, 64, 1, false, true>>{});
}
TEST(ProgramResults, OfSwappedOperandsAreInTheirPlaces) {
  CheckForms(
      Forms<Tile<24, 1, 1, 1, 96, 64, 1, true>, Tile<32, 1, 2, 1, 131, 256, 1, true>,
            Tile<8, 1, 1, 2, 80, 64, 1, true>,
            // Two sets of an odd number of groups: the loads ahead go from one set into the next.
            Tile<40, 1, 1, 1, 128, 128, 1, true>, Tile<56, 1, 1, 2, 128, 128, 1, true>>{});
}
TEST(ProgramResults, OfRanksThatShareKAreInTheirPlaces) {
  CheckForms(Forms<Tile<64, 1, 1, 1, 96, 32, 4, false>, Tile<40, 1, 1, 2, 61, 24, 2, false>,
                   Tile<24, 1, 1, 1, 100, 64, 4, true>, Tile<16, 1, 1, 2, 131, 64, 2, true>>{});
}

}  // namespace
}  // namespace sinter
