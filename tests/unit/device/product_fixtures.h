// Fixtures that run every tile of a product, in every form in which it is stored.
#pragma once

#include "tests/unit/device/tile_runs.h"

namespace sinter {

// A residual of m rows that stand `gap` elements apart, and the stored result of a GEMM with it. If
// there are gaps, the sum is activated. The last row ends where the storage does.
struct ResidualCase {
  ResidualCase(int m, int columns, int gap, bool in_place) : stride(columns + gap) {
    residual = TestMatrix(1, m * stride - gap, 33).data;
    if (!in_place) out.assign(static_cast<size_t>((m + 1) * columns), kPoison);
  }
  u16* result() { return out.empty() ? residual.data() : out.data(); }
  int stride;
  std::vector<u16> residual, before,
      out;  // out is empty where the result takes the residual's place
};

// Factors of m rows and of columns, powers of two, and the stored result of a GEMM that they
// multiply.
struct ScaledCase {
  ScaledCase(int m, int columns) : out(static_cast<size_t>((m + 1) * columns), kPoison) {
    for (int row = 0; row < m; ++row) {
      elements.push_back(static_cast<u16>(1 << row % 3));
      singles.push_back(static_cast<float>(1 << row % 2));
    }
    for (int column = 0; column < columns; ++column) {
      of_columns.push_back(static_cast<u16>(1 << column % 2));
      of_up.push_back(static_cast<u16>(1 << column % 3));
    }
  }
  static constexpr float kConstant = 2;
  std::vector<u16> elements, of_columns, of_up;
  std::vector<float> singles;
  std::vector<u16> out;
};

template <class Config>
class Products : public ::testing::Test {
 protected:
  // The same tile stored again with every row multiplied: by elements, by f32 and a constant, and
  // by elements with every column multiplied too.
  template <class P>
  void StoreScaled(const std::vector<Accumulators<P>>& ranks, const std::vector<u16>& bias, int row,
                   int column, int m) {
    if (scaled_.empty()) scaled_.assign(3, ScaledCase(m, P::kN));
    StoreScaledBy<P>(RowFactors<Integer16>::of(scaled_[0].elements.data(), 1, m), ranks, bias, row,
                     column, m, &scaled_[0]);
    StoreScaledBy<P>(RowFactors<Float32>::of(scaled_[1].singles.data(), ScaledCase::kConstant, m),
                     ranks, bias, row, column, m, &scaled_[1]);
    using OfColumns = ColumnFactors<RowFactors<Integer16>, false, Integer16>;
    ScaledCase& c = scaled_[2];
    StoreScaledBy<P>(OfColumns(RowFactors<Integer16>::of(c.elements.data(), 1, m),
                               c.of_columns.data(), c.of_up.data()),
                     ranks, bias, row, column, m, &c);
  }

  template <class P, class Scaling>
  void StoreScaledBy(const Scaling& scaling, const std::vector<Accumulators<P>>& ranks,
                     const std::vector<u16>& bias, int row, int column, int m, ScaledCase* c) {
    const TestEpilogue<P, Scaling> epilogue{{bias.data(), bias.data(), scaling}};
    const GlobalWriter<Integer16, P::kN, P::kN % 8 == 0> writer{c->out.data(), P::kN, m};
    if constexpr (P::kSplitK > 1)
      ReduceTile<Config, P>(ranks, epilogue, writer, row, column);
    else
      WriteTile<Config, P>(ranks[0], epilogue, writer, row, column);
  }

  template <class P>
  void ExpectScaled(const Operands<Config, P>& operands, const std::vector<u16>& bias, int m) {
    for (size_t i = 0; i < scaled_.size(); ++i) {
      const ScaledCase& c = scaled_[i];
      for (int at = 0; at < (m + 1) * P::kN; ++at) {
        const int row = at / P::kN;
        const u16 got = c.out[static_cast<size_t>(at)];
        if (row == m) {
          ASSERT_EQ(got, kPoison) << "a write past m";
          continue;
        }
        const auto r = static_cast<size_t>(row), n = static_cast<size_t>(at % P::kN);
        const float scale = i != 1 ? c.elements[r] : ScaledCase::kConstant * c.singles[r];
        const float gate = i == 2 ? scale * c.of_columns[n] : scale;
        const float up = i == 2 ? scale * c.of_up[n] : scale;
        ASSERT_EQ(Integer16::unpack(got),
                  (Finished<Config, P>(operands, bias, row, at % P::kN, gate, up)))
            << row << ", " << at % P::kN;
      }
    }
    scaled_.clear();
  }
  std::vector<ScaledCase> scaled_;

  // The same tile stored again into every case, with its residual added.
  template <class P>
  void StoreWithResiduals(const std::vector<Accumulators<P>>& ranks,
                          const TestEpilogue<P>& epilogue, int row, int column, int m) {
    if (cases_.empty()) {
      cases_.emplace_back(m, P::kN, 0, false);
      cases_.emplace_back(m, P::kN, 3, false);
      // A warp of the model runs again and again for its shuffles, and may not overwrite what it
      // reads: only sums of ranks, which shuffle nothing, are tried in place.
      if (P::kSplitK > 1) cases_.emplace_back(m, P::kN, 0, true);
      for (ResidualCase& c : cases_) c.before = c.residual;
    }
    StoreWith<P, P::kN % 8 == 0>(ranks, epilogue, row, column, m, &cases_[0]);
    StoreWith<P, false, Fold>(ranks, epilogue, row, column, m, &cases_[1]);
    if (P::kSplitK > 1) StoreWith<P, P::kN % 8 == 0>(ranks, epilogue, row, column, m, &cases_[2]);
  }

  template <class P, bool kAligned, class SumActivation = Identity>
  void StoreWith(const std::vector<Accumulators<P>>& ranks, const TestEpilogue<P>& epilogue,
                 int row, int column, int m, ResidualCase* c) {
    const GlobalWriter<Integer16, P::kN, P::kN % 8 == 0> writer{c->result(), P::kN, m};
    using Matrix = MatrixLeaf<Integer16, P::kN, kAligned, AddMatrix<false, SumActivation>>;
    const Matrix matrix = Matrix::of(c->residual.data(), c->stride, m);
    if constexpr (P::kSplitK > 1)
      ReduceTile<Config, P>(ranks, epilogue, writer, row, column, matrix);
    else
      WriteTile<Config, P>(ranks[0], epilogue, writer, row, column, matrix);
  }

  // Every case's result is of `plain` and its residual, and nothing was written past m.
  template <class P>
  void ExpectResidualsAdded(const std::vector<u16>& plain, int m) {
    for (ResidualCase& c : cases_) {
      for (int i = 0; i < m * P::kN; ++i) {
        const auto at = static_cast<size_t>(i / P::kN * c.stride + i % P::kN);
        const float sum =
            Integer16::unpack(plain[static_cast<size_t>(i)]) + Integer16::unpack(c.before[at]);
        ASSERT_EQ(Integer16::unpack(c.result()[i]), c.stride > P::kN ? Fold::apply(sum) : sum)
            << i / P::kN << ", " << i % P::kN << " of rows " << c.stride << " apart";
      }
      for (size_t i = static_cast<size_t>(m * P::kN); i < c.out.size(); ++i)
        ASSERT_EQ(c.out[i], kPoison) << "a write past m";
    }
    cases_.clear();
  }

  std::vector<ResidualCase> cases_;

  template <class P>
  void ExpectAllTiles(int m) {
    ExpectAllTiles<P>(Operands<Config, P>(TestMatrix(m, P::kK, 5), 6), m);
  }

  // All tiles of product P over `m` rows: exact accumulators, and exact elements in the output.
  template <class P>
  void ExpectAllTiles(const Operands<Config, P>& operands, int m) {
    const std::vector<u16> bias = TestBias(P::kN);
    const TestEpilogue<P> epilogue{{bias.data(), bias.data()}};
    std::vector<u16> out(static_cast<size_t>(m + 1) * P::kN, kPoison);
    const GlobalWriter<Integer16, P::kN, P::kN % 8 == 0> writer{out.data(), P::kN, m};
    for (int row = 0; row < m; row += Config::kBlockM) {
      for (int tile = 0; tile < P::kColumnTiles; ++tile) {
        const int column = tile * P::kBlockN;
        machine.Reset(P::kSplitK);
        std::vector<Accumulators<P>> ranks;
        for (int rank = 0; rank < P::kSplitK; ++rank) {
          machine.rank = rank;
          const int k = operands.rows.columns;
          const int begin = P::first_block(rank, k), end = P::first_block(rank + 1, k);
          ranks.push_back(RunTile<Config, P, true>(operands, 0, row, column, begin, end));
          ExpectProduct<Config, P>(ranks.back(), operands, row, column, begin, end);
          if (::testing::Test::HasFatalFailure()) return;
        }
        machine.Reset(P::kSplitK);
        if constexpr (P::kSplitK > 1)
          ReduceTile<Config, P>(ranks, epilogue, writer, row, column);
        else
          WriteTile<Config, P>(ranks[0], epilogue, writer, row, column);
        StoreWithResiduals<P>(ranks, epilogue, row, column, m);
        StoreScaled<P>(ranks, bias, row, column, m);
      }
    }
    ExpectResidualsAdded<P>(out, m);
    ExpectScaled<P>(operands, bias, m);
    if (::testing::Test::HasFatalFailure()) return;
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < P::kN; ++column) {
        ASSERT_EQ(Integer16::unpack(out[static_cast<size_t>(row * P::kN + column)]),
                  (Finished<Config, P>(operands, bias, row, column)))
            << row << ", " << column;
      }
    }
    for (int column = 0; column < P::kN; ++column)
      ASSERT_EQ(out[static_cast<size_t>(m * P::kN + column)], kPoison) << "a write past m";
  }
};

// wgm is 1: every warpgroup has all rows of a tile.
template <int kBlockM, int kBlockK, int kStages, int kCluster, int kWarpgroups, bool kTransposed,
          int kWidth, int kN, int kK, int kBlockN, int kSplit, int kWeightsShare = 1,
          int kRowsShare = 1, class Rows = PlainRows>
using Swapped =
    TestConfig<kBlockM, kBlockK, kStages, kCluster, 1, kWarpgroups, kTransposed, kWidth, kN, kK,
               kBlockN, kSplit, kN, kBlockN, 1, kWeightsShare, kRowsShare, true, Integer16, Rows>;

// Two blocks that load halves for each other: each ends up with the whole of its own tile, the
// bytes that it expects arrive, and both multiply them right.
template <class Config>
void ExpectPairsHaveTheirTiles(const Operands<Config, typename Config::First>& operands, int rows) {
  using P = typename Config::First;
  using RingType = Ring<P::kKBlocks, P::kRowsBytes + P::kWeightBytes>;
  const RingType ring{kBase, kBarriers};
  constexpr int kRanks = Config::kCluster;
  gridDim.x = kRanks;
  blockIdx.x = 0;
  const int units = ProductUnits<Config>(0, rows).units();
  for (int unit = 0; unit < units; ++unit) {
    machine.Reset(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      machine.rank = rank;
      const ProductUnits<Config> walk(rank, rows);
      Cursor<P::kKBlocks> of_weights, of_rows;
      produce_weights<Config, P, true>(ring, of_weights, operands.maps(), walk.column(unit),
                                       walk.begin(), walk.end(), walk.loads());
      produce_rows<Config, P>(ring, of_rows, operands.maps(), walk.row(unit), walk.begin(),
                              walk.end(), walk.loads());
    }
    ExpectBarriersComplete();
    for (int rank = 0; rank < kRanks; ++rank) {
      machine.rank = rank;
      const ProductUnits<Config> walk(rank, rows);
      Accumulators<P> accumulators(kConsumers<Config>);
      for (int t = 0; t < kConsumers<Config>; ++t) {
        threadIdx.x = 128 + static_cast<unsigned>(t);
        Accumulate<Config, P, true>(AsArray(accumulators[static_cast<size_t>(t)]), ring, 0,
                                    walk.end() - walk.begin(), PlaceOf<Config>(t), NoBlockScales());
      }
      ExpectProduct<Config, P>(accumulators, operands, walk.row(unit), walk.column(unit),
                               walk.begin(), walk.end());
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace sinter
