// The device library's own text, from TMA to the stored result, on a host model of the hardware:
// what producers place, consumers multiply and exchanges carry must give the exact product.
#include <array>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/device/kernel_configs.h"

namespace sinter {
namespace {

using hardware::machine;
using hardware::Matrix;

constexpr u32 kBase = 1024;
constexpr u32 kBarriers = hardware::kWindow - 1024;
constexpr u32 kOwnBarriers = hardware::kWindow - 512;
constexpr u16 kPoison = 0x7FC1;

template <class Config>
constexpr int kConsumers = 128 * Config::kWarpgroupsM* Config::kWarpgroupsN;

template <class Config>
WarpgroupPlace PlaceOf(int thread) {
  const int warpgroup = thread / 128;
  return {warpgroup % Config::kWarpgroupsM, warpgroup / Config::kWarpgroupsM, thread % 128};
}

// All consumer threads' accumulators of one tile on one rank.
template <class P>
using Accumulators = std::vector<std::array<float, P::kAccumulators>>;

// accumulate() takes an array; this is the same storage.
template <size_t kSize>
float (&AsArray(std::array<float, kSize>& a))[kSize] {
  return *reinterpret_cast<float(*)[kSize]>(a.data());
}
template <size_t kSize>
const float (&AsArray(const std::array<float, kSize>& a))[kSize] {
  return *reinterpret_cast<const float(*)[kSize]>(a.data());
}

template <class Config, class P>
struct Operands {
  Matrix rows, weights, up;
  TensorMap rows_map, weights_map, up_map;
  Operands(Matrix a, uint32_t seed)
      : rows(std::move(a)),
        weights(TestWeights<Config, P>(seed)),
        up(TestWeights<Config, P>(seed + 1)),
        rows_map{&rows},
        weights_map{&weights},
        up_map{&up} {
    rows.box_rows = Config::kBlockM / P::kRowsShare;
  }
  Operands(const Operands&) = delete;
  ProductMaps maps() const { return {&rows_map, &weights_map, P::kWidth == 2 ? &up_map : nullptr}; }
};

// The stage bytes that arrived are the bytes that were expected.
void ExpectBarriersComplete() {
  for (const auto& [barrier, bytes] : machine.barriers())
    EXPECT_EQ(bytes.expected, bytes.arrived) << "barrier " << barrier;
}

// Runs a tile's K blocks [begin, end) through a ring that holds them all.
template <class Config, class P, bool kRowsInRing>
Accumulators<P> RunTile(const Operands<Config, P>& operands, u32 rows_at, int row, int column,
                        int begin, int end) {
  constexpr int kStageBytes = (kRowsInRing ? P::kRowsBytes : 0) + P::kWeightBytes;
  const Ring<P::kKBlocks, kStageBytes> ring{kBase, kBarriers};
  Cursor<P::kKBlocks> weights, rows;
  produce_weights<Config, P, kRowsInRing>(ring, weights, operands.maps(), column, begin, end);
  if (kRowsInRing) produce_rows<Config, P>(ring, rows, operands.maps(), row, begin, end);
  ExpectBarriersComplete();
  Accumulators<P> accumulators(kConsumers<Config>);
  for (int t = 0; t < kConsumers<Config>; ++t) {
    threadIdx.x = 128 + static_cast<unsigned>(t);
    Cursor<P::kKBlocks> cursor;
    accumulate<Config, P, kRowsInRing>(AsArray(accumulators[static_cast<size_t>(t)]), ring, cursor,
                                       rows_at, end - begin, PlaceOf<Config>(t));
  }
  return accumulators;
}

// Which element of the tile a thread's register is of.
struct TilePlace {
  int row, column;  // of one weight matrix
  bool is_up;
};
template <class Config, class P>
TilePlace PlaceInTile(WarpgroupPlace place, int i) {
  if (!Config::kSwapped) {
    const auto at = hardware::AccumulatorPlace(place.thread, i);
    return {place.m * 64 + at.row, place.n * P::kHalf + at.column % P::kHalf,
            at.column >= P::kHalf};
  }
  const auto at = hardware::AccumulatorPlace(place.thread, i % (P::kMmaN / 2));
  const int column = i / (P::kMmaN / 2) * 64 + at.row;
  return {at.column, place.n * P::kHalf + column % P::kHalf, column >= P::kHalf};
}

// Every accumulator that belongs to a row of the tile equals the product over K elements of the
// blocks.
template <class Config, class P>
void ExpectProduct(const Accumulators<P>& accumulators, const Operands<Config, P>& o, int row,
                   int column, int begin, int end) {
  for (int t = 0; t < kConsumers<Config>; ++t) {
    const WarpgroupPlace place = PlaceOf<Config>(t);
    for (int i = 0; i < P::kAccumulators; ++i) {
      const TilePlace at = PlaceInTile<Config, P>(place, i);
      if (at.row >= Config::kBlockM) continue;
      const Matrix& weights = at.is_up ? o.up : o.weights;
      const int n = column + at.column;
      ASSERT_EQ(accumulators[static_cast<size_t>(t)][static_cast<size_t>(i)],
                Dot<Config>(o.rows, weights, row + at.row, n, begin * Config::kBlockK,
                            end * Config::kBlockK))
          << "thread " << t << " register " << i;
    }
  }
}

// What the epilogue makes of element (row, column), whose row is multiplied by `scale`.
template <class Config, class P>
float Finished(const Operands<Config, P>& o, const std::vector<u16>& bias, int row, int column,
               float scale = 1) {
  float x = scale * Dot<Config>(o.rows, o.weights, row, column, 0, P::kK) +
            Integer16::unpack(bias[static_cast<size_t>(column)]);
  if (P::kWidth == 1) return Fold::apply(x);
  const float up = scale * Dot<Config>(o.rows, o.up, row, column, 0, P::kK) +
                   Integer16::unpack(bias[static_cast<size_t>(column)]);
  return Fold::apply(x) * static_cast<float>(static_cast<int>(up) % 7);
}

// Up to the gate's factor, which must fit 16 bits with it: the test's epilogue is the library's
// with the up half reduced first. Scales are powers of two.
template <class P, class Scaling = NoScaling>
struct TestEpilogue : Epilogue<P, Integer16, Fold, true, Scaling> {
  using Library = Epilogue<P, Integer16, Fold, true, Scaling>;
  float apply(float x, float up, int column, float scale) const {
    if (P::kWidth == 1 || column >= P::kN) return Library::apply(x, up, column, scale);
    const float bias = Integer16::unpack(Library::bias_up[column]);
    const float reduced = static_cast<float>(static_cast<int>(up * scale + bias) % 7);
    return Library::apply(x, (reduced - bias) / scale, column, scale);
  }
};

std::vector<u16> TestBias(int columns) { return TestMatrix(1, columns, 77).data; }

template <class Config, class P, class Scaling, class Writer, class Added = NoResidual>
void WriteTile(const Accumulators<P>& accumulators, const TestEpilogue<P, Scaling>& epilogue,
               const Writer& writer, int row, int column, const Added& added = {}) {
  for (int warp = 0; warp < kConsumers<Config> / 32; ++warp) {
    machine.RunWarp([&](int lane) {
      const int t = warp * 32 + lane;
      threadIdx.x = 128 + static_cast<unsigned>(t);
      const auto& d = AsArray(accumulators[static_cast<size_t>(t)]);
      const WarpgroupPlace place = PlaceOf<Config>(t);
      if constexpr (Config::kSwapped) {
        const SwappedWriter<Config, P, TestEpilogue<P, Scaling>, Writer, Added> swapped(
            epilogue, writer, added, row, column, place);
        swapped.fetch();
        swapped.write(d);
        return;
      }
      const HeldScaling<Scaling> scaling(epilogue.scaling, row, place);
      if constexpr (Added::kPresent) {
        HeldResidual<Config, P, Added> held(added, row, column, place);
        write_accumulators<Config, P>(d, epilogue, scaling, writer, row, column, place, held);
      } else {
        write_accumulators<Config, P>(d, epilogue, scaling, writer, row, column, place);
      }
    });
  }
}

// Sums the ranks' accumulators through their shared memory and writes every rank's rows.
template <class Config, class P, class Scaling, class Writer, class Added = NoResidual>
void ReduceTile(const std::vector<Accumulators<P>>& ranks, const TestEpilogue<P, Scaling>& epilogue,
                const Writer& writer, int row, int column, const Added& added = {}) {
  const auto reduce_of = [&](int rank) {
    return DsmReduceScatter<Config, P>{kBase, kOwnBarriers, kOwnBarriers + 8, 0, rank, true};
  };
  for (int rank = 0; rank < P::kSplitK; ++rank) {
    machine.rank = rank;
    machine.Expect(kOwnBarriers, reduce_of(rank).expected_bytes());
    for (int t = 0; t < kConsumers<Config>; ++t) {
      const auto& d = AsArray(ranks[static_cast<size_t>(rank)][static_cast<size_t>(t)]);
      if constexpr (Config::kSwapped)
        SwappedParts<Config, P>::send(reduce_of(rank), d, PlaceOf<Config>(t));
      else
        reduce_of(rank).send(d, PlaceOf<Config>(t));
    }
  }
  ExpectBarriersComplete();
  for (int rank = 0; rank < P::kSplitK; ++rank) {
    machine.rank = rank;
    for (int t = 0; t < kConsumers<Config>; ++t) {
      threadIdx.x = 128 + static_cast<unsigned>(t);
      const auto reduce = reduce_of(rank);
      if constexpr (Config::kSwapped) {
        using Parts = SwappedParts<Config, P>;
        const auto ahead = Parts::added_to(reduce, reduce.first_unit(), added, row, column);
        Parts::sum(reduce, epilogue, writer, row, column, added, ahead);
        continue;
      }
      if constexpr (Added::kPresent) reduce.fetch(added, row, column);
      reduce.sum(epilogue, reduce.scale_of(reduce.first_unit(), epilogue, row), writer, row, column,
                 added, reduce.added_to(reduce.first_unit(), added, row, column));
    }
  }
}

// A residual of m rows that stand `gap` elements apart, and what is stored of a product with it.
// The last row ends where the storage does.
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

// Factors of m rows, powers of two, and what is stored of a product that they multiply.
struct ScaledCase {
  ScaledCase(int m, int columns) : out(static_cast<size_t>((m + 1) * columns), kPoison) {
    for (int row = 0; row < m; ++row) {
      elements.push_back(static_cast<u16>(1 << row % 3));
      singles.push_back(static_cast<float>(1 << row % 2));
    }
  }
  static constexpr float kConstant = 2;
  std::vector<u16> elements;
  std::vector<float> singles;
  std::vector<u16> out;
};

template <class Config>
class Products : public ::testing::Test {
 protected:
  // The same tile stored again with every row multiplied: by elements, and by f32 and a constant.
  template <class P>
  void StoreScaled(const std::vector<Accumulators<P>>& ranks, const std::vector<u16>& bias, int row,
                   int column, int m) {
    if (scaled_.empty()) scaled_.assign(2, ScaledCase(m, P::kN));
    StoreScaledBy<P>(RowFactors<Integer16>::of(scaled_[0].elements.data(), 1, m), ranks, bias, row,
                     column, m, &scaled_[0]);
    StoreScaledBy<P>(RowFactors<Float32>::of(scaled_[1].singles.data(), ScaledCase::kConstant, m),
                     ranks, bias, row, column, m, &scaled_[1]);
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
        const auto r = static_cast<size_t>(row);
        const float scale = i == 0 ? c.elements[r] : ScaledCase::kConstant * c.singles[r];
        ASSERT_EQ(Integer16::unpack(got),
                  (Finished<Config, P>(operands, bias, row, at % P::kN, scale)))
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
    StoreWith<P, false>(ranks, epilogue, row, column, m, &cases_[1]);
    if (P::kSplitK > 1) StoreWith<P, P::kN % 8 == 0>(ranks, epilogue, row, column, m, &cases_[2]);
  }

  template <class P, bool kAligned>
  void StoreWith(const std::vector<Accumulators<P>>& ranks, const TestEpilogue<P>& epilogue,
                 int row, int column, int m, ResidualCase* c) {
    const GlobalWriter<Integer16, P::kN, P::kN % 8 == 0> writer{c->result(), P::kN, m};
    const auto added =
        ResidualRows<Integer16, P::kN, false, kAligned>::of(c->residual.data(), c->stride, m);
    if constexpr (P::kSplitK > 1)
      ReduceTile<Config, P>(ranks, epilogue, writer, row, column, added);
    else
      WriteTile<Config, P>(ranks[0], epilogue, writer, row, column, added);
  }

  // Every case's result is `plain` and its residual, and nothing was written past m.
  template <class P>
  void ExpectResidualsAdded(const std::vector<u16>& plain, int m) {
    for (ResidualCase& c : cases_) {
      for (int i = 0; i < m * P::kN; ++i) {
        const auto at = static_cast<size_t>(i / P::kN * c.stride + i % P::kN);
        ASSERT_EQ(
            Integer16::unpack(c.result()[i]),
            Integer16::unpack(plain[static_cast<size_t>(i)]) + Integer16::unpack(c.before[at]))
            << i / P::kN << ", " << i % P::kN << " of rows " << c.stride << " apart";
      }
      for (size_t i = static_cast<size_t>(m * P::kN); i < c.out.size(); ++i)
        ASSERT_EQ(c.out[i], kPoison) << "a write past m";
    }
    cases_.clear();
  }

  std::vector<ResidualCase> cases_;

  // All tiles of product P over `m` rows: exact accumulators, and exact elements in the output.
  template <class P>
  void ExpectAllTiles(int m) {
    const Operands<Config, P> operands(TestMatrix(m, P::kK, 5), 6);
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
          const int begin = P::first_block(rank), end = P::first_block(rank + 1);
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

TEST(Scaling, CountsRowsFromAnyAndReadsNoneBehindTheLast) {
  const std::vector<float> factors = {3, 5, 7};
  const auto all = RowFactors<Float32>::of(factors.data(), 2, 3);
  const auto tail = RowFactors<Float32>::of(factors.data(), 2, 3, 2);
  EXPECT_EQ(all.at(1), 10);
  EXPECT_EQ(all.at(3), 0);
  EXPECT_EQ(tail.at(0), 14);
  EXPECT_EQ(tail.at(1), 0);
  EXPECT_EQ(ConstantScale::of(nullptr, 0.5f, 3).at(7), 0.5f);
}

// bm, bk, stages, cluster, wgm, wgn, io, width, n, k, bn1, split1, l, bn2, split2
using ProductConfigs =
    ::testing::Types<TestConfig<128, 128, 2, 4, 2, 1, false, 2, 96, 256, 24, 1, 40, 40, 1>,
                     TestConfig<128, 64, 4, 2, 2, 1, false, 1, 104, 136, 56, 2, 35, 40, 2>,
                     TestConfig<64, 64, 4, 1, 1, 2, false, 2, 48, 72, 16, 1, 80, 48, 1>,
                     TestConfig<64, 128, 2, 8, 1, 1, false, 2, 32, 1024, 32, 8, 8, 8, 1>,
                     TestConfig<16, 64, 3, 4, 1, 2, false, 1, 80, 200, 32, 4, 72, 80, 2>,
                     TestConfig<8, 128, 2, 16, 1, 1, false, 1, 24, 2048, 8, 16, 9, 16, 1>,
                     TestConfig<96, 64, 3, 1, 2, 1, false, 1, 256, 64, 256, 1, 64, 32, 4>,
                     TestConfig<128, 128, 2, 2, 2, 1, true, 1, 128, 128, 64, 1, 72, 128, 1>,
                     TestConfig<64, 64, 3, 4, 1, 2, true, 2, 136, 264, 128, 4, 128, 128, 2>,
                     TestConfig<24, 128, 2, 4, 1, 1, true, 2, 64, 392, 64, 4, 192, 192, 1>>;
TYPED_TEST_SUITE(Products, ProductConfigs);

// wgm is 1: every warpgroup has all rows of a tile.
template <int kBlockM, int kBlockK, int kStages, int kCluster, int kWarpgroups, bool kTransposed,
          int kWidth, int kN, int kK, int kBlockN, int kSplit, int kWeightsShare = 1,
          int kRowsShare = 1>
using Swapped =
    TestConfig<kBlockM, kBlockK, kStages, kCluster, 1, kWarpgroups, kTransposed, kWidth, kN, kK,
               kBlockN, kSplit, kN, kBlockN, 1, kWeightsShare, kRowsShare, true>;
using SwappedConfigs = ::testing::Types<Swapped<8, 64, 3, 1, 1, false, 1, 72, 136, 64, 1>,
                                        Swapped<40, 128, 2, 1, 2, false, 1, 136, 200, 128, 1>,
                                        Swapped<24, 64, 4, 1, 1, false, 2, 104, 72, 64, 1>,
                                        Swapped<16, 64, 4, 1, 1, false, 1, 131, 72, 128, 1>,
                                        Swapped<72, 64, 3, 1, 3, true, 1, 200, 136, 192, 1>,
                                        Swapped<16, 64, 3, 1, 2, true, 2, 264, 72, 128, 1>,
                                        Swapped<152, 64, 3, 4, 1, false, 1, 72, 264, 64, 4>,
                                        Swapped<40, 128, 2, 2, 2, false, 2, 136, 264, 128, 2>,
                                        Swapped<8, 64, 3, 8, 1, true, 2, 64, 520, 64, 8>,
                                        Swapped<24, 64, 3, 2, 1, false, 1, 131, 136, 128, 2>>;
template <class Config>
class SwappedProducts : public Products<Config> {};
TYPED_TEST_SUITE(SwappedProducts, SwappedConfigs);
TYPED_TEST(SwappedProducts, AreExactFromTmaToTheStoredElement) {
  this->template ExpectAllTiles<typename TypeParam::First>(TypeParam::kBlockM + 5);
}

TYPED_TEST(Products, FirstIsExactFromTmaToTheStoredElement) {
  this->template ExpectAllTiles<typename TypeParam::First>(TypeParam::kBlockM + 5);
}
TYPED_TEST(Products, SecondIsExactFromTmaToTheStoredElement) {
  this->template ExpectAllTiles<typename TypeParam::Second>(TypeParam::kBlockM - 3);
}

// Two blocks that load halves for each other: each ends up with the whole of its own tile, the
// bytes that it expects arrive, and both multiply them right.
template <class Config>
class SharedLoads : public ::testing::Test {};
using SharedConfigs =
    ::testing::Types<TestConfig<64, 64, 4, 2, 1, 1, false, 1, 96, 136, 48, 1, 40, 40, 1, 2, 1>,
                     TestConfig<128, 128, 2, 2, 2, 1, false, 2, 80, 256, 32, 1, 40, 40, 1, 2, 1>,
                     TestConfig<64, 64, 4, 2, 1, 2, false, 2, 96, 200, 32, 1, 40, 32, 1, 2, 1>,
                     TestConfig<72, 64, 3, 2, 2, 1, true, 1, 200, 264, 128, 1, 72, 64, 1, 2, 1>,
                     TestConfig<64, 128, 2, 2, 1, 1, false, 1, 72, 264, 24, 1, 40, 40, 1, 1, 2>,
                     TestConfig<16, 64, 3, 2, 1, 2, true, 2, 136, 72, 128, 1, 128, 128, 1, 1, 2>,
                     TestConfig<64, 64, 4, 4, 1, 1, false, 1, 96, 264, 48, 2, 40, 40, 1, 2, 1>,
                     TestConfig<64, 64, 4, 8, 1, 1, true, 1, 136, 264, 64, 4, 64, 64, 1, 1, 2>,
                     Swapped<24, 64, 4, 2, 1, false, 2, 136, 136, 64, 1, 2, 1>,
                     Swapped<48, 64, 4, 4, 2, false, 1, 136, 264, 128, 2, 1, 2>>;
TYPED_TEST_SUITE(SharedLoads, SharedConfigs);

TYPED_TEST(SharedLoads, GiveEachBlockOfAPairItsTile) {
  using P = typename TypeParam::First;
  constexpr int kRows = 2 * TypeParam::kBlockM - 11;
  const Operands<TypeParam, P> operands(TestMatrix(kRows, P::kK, 21), 22);
  using RingType = Ring<P::kKBlocks, P::kRowsBytes + P::kWeightBytes>;
  const RingType ring{kBase, kBarriers};
  constexpr int kRanks = TypeParam::kCluster;
  gridDim.x = kRanks;
  blockIdx.x = 0;
  const int units = ProductUnits<TypeParam>(0, kRows).units();
  for (int unit = 0; unit < units; ++unit) {
    machine.Reset(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      machine.rank = rank;
      const ProductUnits<TypeParam> walk(rank, kRows);
      Cursor<P::kKBlocks> weights, rows;
      produce_weights<TypeParam, P, true>(ring, weights, operands.maps(), walk.column(unit),
                                          walk.begin(), walk.end(), walk.loads());
      produce_rows<TypeParam, P>(ring, rows, operands.maps(), walk.row(unit), walk.begin(),
                                 walk.end(), walk.loads());
    }
    ExpectBarriersComplete();
    for (int rank = 0; rank < kRanks; ++rank) {
      machine.rank = rank;
      const ProductUnits<TypeParam> walk(rank, kRows);
      Accumulators<P> accumulators(kConsumers<TypeParam>);
      for (int t = 0; t < kConsumers<TypeParam>; ++t) {
        threadIdx.x = 128 + static_cast<unsigned>(t);
        Cursor<P::kKBlocks> cursor;
        accumulate<TypeParam, P, true>(AsArray(accumulators[static_cast<size_t>(t)]), ring, cursor,
                                       0, walk.end() - walk.begin(), PlaceOf<TypeParam>(t));
      }
      ExpectProduct<TypeParam, P>(accumulators, operands, walk.row(unit), walk.column(unit),
                                  walk.begin(), walk.end());
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

template <class Config>
class ClusterExchange : public ::testing::Test {
 protected:
  using First = typename Config::First;
  using Second = typename Config::Second;
  static constexpr u32 kExchange = 128 * 1024;

  // Every rank's columns of a C whose elements are small, as accumulators of the first product.
  Accumulators<First> AccumulatorsOf(const Matrix& c, int column) {
    Accumulators<First> d(kConsumers<Config>);
    for (int t = 0; t < kConsumers<Config>; ++t) {
      const WarpgroupPlace place = PlaceOf<Config>(t);
      for (int i = 0; i < First::kAccumulators; ++i) {
        const auto at = hardware::AccumulatorPlace(place.thread, i);
        const bool is_up = at.column >= First::kHalf;
        const int n = column + place.n * First::kHalf + at.column % First::kHalf;
        const int16_t value = static_cast<int16_t>(c.At(place.m * 64 + at.row, n));
        d[static_cast<size_t>(t)][static_cast<size_t>(i)] = is_up ? 1.0f : value;
      }
    }
    return d;
  }
};

using ClusterConfigs =
    ::testing::Types<TestConfig<16, 64, 3, 8, 1, 1, false, 1, 192, 64, 24, 1, 64, 8, 1>,
                     TestConfig<32, 64, 4, 4, 1, 2, false, 2, 120, 64, 32, 1, 72, 32, 1>,
                     TestConfig<128, 128, 2, 2, 2, 1, false, 1, 200, 128, 104, 1, 40, 24, 1>,
                     TestConfig<64, 64, 2, 2, 1, 2, true, 2, 256, 64, 128, 1, 200, 128, 1>,
                     TestConfig<8, 128, 2, 1, 1, 1, true, 1, 64, 64, 64, 1, 128, 128, 1>>;
TYPED_TEST_SUITE(ClusterExchange, ClusterConfigs);

TYPED_TEST(ClusterExchange, PutsEveryElementOfCWhereTheSecondProductReadsIt) {
  using First = typename TypeParam::First;
  using Second = typename TypeParam::Second;
  const Matrix c = TestMatrix(TypeParam::kBlockM, First::kN, 11);
  const Operands<TypeParam, Second> second(c, 12);
  machine.Reset(TypeParam::kCluster);
  const Epilogue<First, Integer16, Identity, false> epilogue{nullptr, nullptr, {}};
  using Writer = DsmShuffle<TypeParam, First::kN>;
  constexpr int kTail = Second::kKBlocks * TypeParam::kBlockK;
  for (int rank = 0; rank < TypeParam::kCluster; ++rank) {
    machine.rank = rank;
    machine.Expect(kOwnBarriers, Writer::kBytes);
    blockDim.x = 96;
    for (threadIdx.x = 0; kTail > First::kN && threadIdx.x < blockDim.x; ++threadIdx.x)
      clear_exchange_tail<TypeParam>(this->kExchange);
  }
  for (int rank = 0; rank < TypeParam::kCluster; ++rank) {
    machine.rank = rank;
    const int column = rank * First::kBlockN;
    const Accumulators<First> d = this->AccumulatorsOf(c, column);
    for (int warp = 0; warp < kConsumers<TypeParam> / 32; ++warp) {
      machine.RunWarp([&](int lane) {
        const int t = warp * 32 + lane;
        threadIdx.x = 128 + static_cast<unsigned>(t);
        const WarpgroupPlace place = PlaceOf<TypeParam>(t);
        write_accumulators<TypeParam, First>(
            AsArray(d[static_cast<size_t>(t)]), epilogue, {NoScaling{}, 0, place},
            Writer{this->kExchange, kOwnBarriers}, 0, column, place);
      });
    }
  }
  ExpectBarriersComplete();
  for (int rank = 0; rank < TypeParam::kCluster; ++rank) {
    machine.rank = rank;
    const int column = rank * Second::kBlockN;
    const auto d =
        RunTile<TypeParam, Second, false>(second, this->kExchange, 0, column, 0, Second::kKBlocks);
    ExpectProduct<TypeParam, Second>(d, second, 0, column, 0, Second::kKBlocks);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// A store goes to each peer's own copy of the same address, and nowhere else.
TEST(ClusterExchangeWriter, ReachesEveryPeer) {
  using Config = TestConfig<16, 64, 3, 4, 1, 1, false, 1, 64, 64, 16, 1, 64, 16, 1>;
  machine.Reset(4);
  machine.rank = 2;
  const DsmShuffle<Config, 64> writer{2048, kOwnBarriers};
  writer.group(3, 8, Word4{1, 2, 3, 4});
  writer.group(3, 64, Word4{9, 9, 9, 9});  // behind the last column: not written
  for (int rank = 0; rank < 4; ++rank) {
    machine.rank = rank;
    EXPECT_EQ(machine.Load<u32>(2048 + static_cast<u32>(swizzled_offset<Integer16>(16, 3, 8))), 1u);
    EXPECT_EQ(machine.Barrier(kOwnBarriers).arrived, 16);
  }
}

TEST(QuadTranspose, GivesEachLaneOneGroup) {
  for (int run = 0; run < 2; ++run) {
    machine.RunWarp([&](int lane) {
      threadIdx.x = static_cast<unsigned>(lane);
      u32 w[4];
      for (u32 g = 0; g < 4; ++g) w[g] = static_cast<u32>(lane) * 16 + g;
      const Word4 v = quad_transpose(w);
      if (!machine.count_bytes) return;
      const u32 quad = static_cast<u32>(lane) / 4 * 4, group = static_cast<u32>(lane) % 4;
      EXPECT_EQ(v.x, (quad + 0) * 16 + group);
      EXPECT_EQ(v.y, (quad + 1) * 16 + group);
      EXPECT_EQ(v.z, (quad + 2) * 16 + group);
      EXPECT_EQ(v.w, (quad + 3) * 16 + group);
    });
  }
}

TEST(ResidualRows, ReadsNothingOutsideTheMatrix) {
  constexpr int kColumns = 11, kRows = 3, kStride = 13;
  std::vector<u16> data(kStride * (kRows - 1) + kColumns);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<u16>(i + 1);
  const auto rows =
      ResidualRows<Integer16, kColumns, false, false>::of(data.data(), kStride, kRows);
  for (int row = 0; row < 6; ++row) {
    for (int column = 0; column < 24; column += 8) {
      const Word4 v = rows.group(row, column);
      const u32 words[4] = {v.x, v.y, v.z, v.w};
      for (int i = 0; i < 8; ++i) {
        const bool inside = row < kRows && column + i < kColumns;
        EXPECT_EQ(words[i / 2] >> 16 * (i % 2) & 0xFFFF,
                  inside ? static_cast<u32>(row * kStride + column + i + 1) : 0u);
      }
    }
  }
}

TEST(ResidualRows, RoundTheResultFirstWhereTheChainDoes) {
  using Plain = ResidualRows<Integer16, 8, false, true>;
  using Rounded = ResidualRows<Integer16, 8, true, true>;
  const u32 r = Integer16::pack(3, 10);  // Integer16 rounds toward zero
  EXPECT_EQ(Plain::add(-0.5f, 1.75f, r), Integer16::pack(2, 11));
  EXPECT_EQ(Rounded::add(-0.5f, 1.75f, r), Integer16::pack(3, 11));
}

TEST(GlobalWriter, WritesNothingOutsideTheMatrix) {
  constexpr int kColumns = 11, kRows = 3;
  for (int column = 0; column < 24; column += 8) {
    for (int row = 0; row < 6; ++row) {
      std::vector<u16> out((kRows + 3) * (kColumns + 2), kPoison);
      const GlobalWriter<Integer16, kColumns, false> writer{out.data(), kColumns + 2, kRows};
      writer.group(row, column, Word4{0x20001, 0x40003, 0x60005, 0x80007});
      for (int i = 0; i < static_cast<int>(out.size()); ++i) {
        const int r = i / (kColumns + 2), c = i % (kColumns + 2);
        const bool inside =
            r == row && row < kRows && c >= column && c < column + 8 && c < kColumns;
        EXPECT_EQ(out[static_cast<size_t>(i)], inside ? c - column + 1 : kPoison);
      }
    }
  }
}

}  // namespace
}  // namespace sinter
