// A convolution followed by a 1 x 1 convolution on the host's machine, in the dataflows that hand C
// over.
#include "tests/unit/device/filters.h"
#include "tests/unit/device/product_fixtures.h"

namespace sinter {
namespace {

// block_m, block_k, cluster, warpgroups n, n, block_n and split_k of the first, l, and of the
// second.
template <class F, int kBlockM, int kBlockK, int kCluster, int kWarpgroupsN, int kN, int kBlockN1,
          int kSplit1, int kL, int kBlockN2, int kSplit2>
struct ConvChain
    : TestConfig<kBlockM, kBlockK, 3, kCluster, 1, kWarpgroupsN, false, 1, kN, F::kStaged, kBlockN1,
                 kSplit1, kL, kBlockN2, kSplit2, 1, 1, false, Integer16, typename F::Rows> {
  using Shown = F;
};

template <class Config>
class ConvChains : public Products<Config> {
 protected:
  using First = typename Config::First;
  using Second = typename Config::Second;
  using F = typename Config::Shown;
  static constexpr u32 kExchange = 128 * 1024;
  const Operands<Config, First> first_ = OperandsOf<Config, F>(5);
  const std::vector<u16> no_bias_ = std::vector<u16>(First::kN);
  const TestEpilogue<First> epilogue_{{no_bias_.data(), no_bias_.data()}};
  const Matrix c_ = C();

  Matrix C() const {
    Matrix c;
    c.rows = F::kRows, c.columns = First::kN;
    for (int i = 0; i < c.rows * c.columns; ++i) {
      const float x = Finished<Config, First>(first_, no_bias_, i / c.columns, i % c.columns);
      c.data.push_back(static_cast<u16>(static_cast<int>(x)));
    }
    return c;
  }

  // A cluster of the machine computes the columns of C from `column` on for the row tile at `row`.
  // `writer_of` says where a rank writes them, `expected` how many bytes each block awaits.
  template <class WriterOf>
  void WriteC(int row, int column, int64_t expected, const WriterOf& writer_of) {
    machine.Reset(Config::kCluster);
    std::vector<Accumulators<First>> ranks;
    for (int rank = 0; rank < Config::kCluster; ++rank) {
      machine.rank = rank;
      ranks.push_back(RunTile<Config, First, true>(first_, 0, row, column + rank * First::kBlockN,
                                                   0, First::kKBlocks));
    }
    machine.Reset(Config::kCluster);
    for (int rank = 0; rank < Config::kCluster; ++rank) {
      machine.rank = rank;
      machine.Expect(kOwnBarriers, expected);
      blockDim.x = 128;
      for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)
        clear_exchange_tail<Config>(kExchange);
    }
    for (int rank = 0; rank < Config::kCluster; ++rank) {
      machine.rank = rank;
      WriteTile<Config, First>(ranks[static_cast<size_t>(rank)], epilogue_, writer_of(rank), 0,
                               column + rank * First::kBlockN);
    }
    ExpectBarriersComplete();
  }

  // Every block has columns [begin, end) of C's rows from `row`, where the second product looks.
  void ExpectExchanged(int row, int begin, int end) {
    for (int rank = 0; rank < Config::kCluster; ++rank) {
      machine.rank = rank;
      for (int r = 0; r < Config::kBlockM; ++r) {
        for (int column = begin; column < end; ++column) {
          const int at = swizzled_offset<Integer16>(Config::kBlockM, r, column - begin);
          ASSERT_EQ(machine.Load<u16>(kExchange + static_cast<u32>(at)), c_.At(row + r, column))
              << "rank " << rank << ": " << row + r << ", " << column;
        }
      }
    }
  }

  // A tile of C as one rank of those that share its K computes it.
  struct Taken {
    int row, column, rank, begin, end;
  };

  // C of all `taken`, through global memory, and E of it.
  void ExpectThroughMemory(const std::vector<Taken>& taken) {
    std::vector<u16> out(static_cast<size_t>((F::kRows + 1) * First::kN), kPoison);
    const GlobalWriter<Integer16, First::kN, First::kN % 8 == 0> writer{out.data(), First::kN,
                                                                        F::kRows};
    std::map<std::pair<int, int>, std::vector<Accumulators<First>>> tiles;
    for (const Taken& t : taken) {
      machine.Reset(1);
      auto& ranks = tiles[{t.row, t.column}];
      ranks.resize(First::kSplitK);
      ASSERT_TRUE(ranks[static_cast<size_t>(t.rank)].empty()) << "taken twice";
      ranks[static_cast<size_t>(t.rank)] =
          RunTile<Config, First, true>(first_, 0, t.row, t.column, t.begin, t.end);
    }
    for (const auto& [at, ranks] : tiles) {
      machine.Reset(First::kSplitK);
      if constexpr (First::kSplitK > 1)
        ReduceTile<Config, First>(ranks, epilogue_, writer, at.first, at.second);
      else
        WriteTile<Config, First>(ranks[0], epilogue_, writer, at.first, at.second);
    }
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], i < c_.data.size() ? c_.data[i] : kPoison) << i;
    this->template ExpectAllTiles<Second>(Operands<Config, Second>(c_, 12), F::kRows);
  }
};

using ConvChainConfigs = Forms<ConvChain<Same3, 32, 128, 2, 1, 72, 40, 2, 104, 56, 1>,
                               ConvChain<Dilated, 16, 64, 4, 1, 200, 56, 1, 48, 16, 2>,
                               ConvChain<Uneven, 64, 64, 2, 2, 96, 48, 1, 64, 32, 1>,
                               ConvChain<Forty, 32, 128, 2, 1, 72, 40, 2, 104, 56, 1>>;
TYPED_TEST_SUITE(ConvChains, ConvChainConfigs);

TYPED_TEST(ConvChains, ExchangeCInTheCluster) {
  using First = typename TypeParam::First;
  using Second = typename TypeParam::Second;
  const Operands<TypeParam, Second> second(this->c_, 12);
  using Writer = DsmShuffle<TypeParam, First::kN>;
  for (int row = 0; row < TypeParam::Shown::kRows; row += TypeParam::kBlockM) {
    this->WriteC(row, 0, Writer::kBytes, [&](int) {
      return Writer{this->kExchange, kOwnBarriers};
    });
    this->ExpectExchanged(row, 0, First::kN);
    for (int rank = 0; rank < TypeParam::kCluster; ++rank) {
      machine.rank = rank;
      const int column = rank * Second::kBlockN;
      const auto e = RunTile<TypeParam, Second, false>(second, this->kExchange, 0, column, 0,
                                                       Second::kKBlocks);
      ExpectProduct<TypeParam, Second>(e, second, row, column, 0, Second::kKBlocks);
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

template <class Config>
struct WithSlab : Config {
  static constexpr int kSlabColumns = 64;
};

TYPED_TEST(ConvChains, KeepTheFirstColumnsInASlab) {
  using First = typename TypeParam::First;
  using Slab = WithSlab<TypeParam>;
  std::vector<u16> rest(static_cast<size_t>((TypeParam::Shown::kRows + 1) * First::kN), kPoison);
  for (int row = 0; row < TypeParam::Shown::kRows; row += TypeParam::kBlockM) {
    const int rows = TypeParam::Shown::kRows - row;
    using Shuffle = DsmShuffle<Slab, 64>;
    const SlabWriter<Slab> writer{{this->kExchange, kOwnBarriers},
                                  {rest.data() + row * First::kN, First::kN, rows}};
    this->WriteC(row, 0, Shuffle::kBytes, [&](int) { return writer; });
    this->ExpectExchanged(row, 0, 64);
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (int i = 0; i < static_cast<int>(rest.size()); ++i) {
    const bool behind = i % First::kN >= 64 && i < TypeParam::Shown::kRows * First::kN;
    ASSERT_EQ(rest[static_cast<size_t>(i)],
              behind ? this->c_.data[static_cast<size_t>(i)] : kPoison);
  }
}

// Clusters that share a row tile by ranges of N, of whole K blocks of the second product.
template <class Config>
class ConvRanges : public ConvChains<Config> {};
using ConvRangesConfigs = Forms<ConvChain<Same3, 16, 64, 2, 1, 200, 32, 1, 48, 24, 1>,
                                ConvChain<Uneven, 64, 128, 4, 2, 328, 32, 1, 64, 16, 1>>;
TYPED_TEST_SUITE(ConvRanges, ConvRangesConfigs);

TYPED_TEST(ConvRanges, HaveTheirColumnsOfC) {
  using T = ClusterRangesTypes<TypeParam>;
  using Slab = DsmShuffle<TypeParam, T::kColumns>;
  const int row_tiles = ceil_div(TypeParam::Shown::kRows, TypeParam::kBlockM);
  for (int cluster = 0; cluster < row_tiles * T::kClusters; ++cluster) {
    blockIdx.x = static_cast<unsigned>(cluster * TypeParam::kCluster);
    const ClusterPlace<TypeParam> at(0);
    const int first = at.first_column();
    this->WriteC(at.row, first, Slab::kBytes, [&](int) {
      return RangeWriter<TypeParam>{{this->kExchange, kOwnBarriers}, first};
    });
    this->ExpectExchanged(at.row, first, first + T::kColumns);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(ConvChains, WalkTheGrid) {
  using First = typename TypeParam::First;
  const int row_tiles = ceil_div(TypeParam::Shown::kRows, TypeParam::kBlockM);
  std::vector<typename TestFixture::Taken> taken;
  gridDim.x = 3 * TypeParam::kCluster;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    const TileWalk<First> walk(static_cast<int>(blockIdx.x) % TypeParam::kCluster, row_tiles);
    for (int tile = walk.group; tile < walk.tiles(); tile += walk.groups)
      taken.push_back({walk.row_tile(tile) * TypeParam::kBlockM,
                       walk.column_tile(tile) * First::kBlockN, walk.rank, walk.begin(),
                       walk.end()});
  }
  this->ExpectThroughMemory(taken);
}

}  // namespace
}  // namespace sinter
