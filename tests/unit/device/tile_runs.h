// One tile on the host's machine, in any form of product: what producers place, consumers multiply
// and writers store, compared with the exact product.
#pragma once

#include "tests/unit/device/forms.h"
#include "tests/unit/device/kernel_configs.h"

namespace sinter {

using hardware::Images;
using hardware::machine;
using hardware::Matrix;
using hardware::Taps;

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

// What a product multiplies, and the maps that its producers load from.
template <class Config, class P>
struct Operands {
  Matrix rows, weights, up;
  Matrix columns;  // the rows as stored in memory if they are transposed
  Images images;   // in whose place `rows` stand; of a convolution
  Taps taps;       // in whose place `weights` stand; of one whose taps are padded
  TensorMap rows_map, weights_map, up_map;
  Operands(Matrix a, uint32_t seed)
      : rows(std::move(a)),
        weights(TestWeights<Config, P>(seed)),
        up(TestWeights<Config, P>(seed + 1)),
        rows_map{&rows},
        weights_map{&weights},
        up_map{&up} {
    rows.box_rows = Config::kBlockM / P::kRowsShare;
    rows.bytes = weights.bytes = up.bytes = Config::Element::kBytes;
    if (P::Rows::kTransposed) Transpose();
  }
  Operands(Matrix a, Images pixels, uint32_t seed) : Operands(std::move(a), seed) {
    images = std::move(pixels);
    rows_map = {nullptr, &images};
  }
  Operands(Matrix a, Images pixels, Matrix filters, Taps padded)
      : Operands(std::move(a), std::move(pixels), 0) {
    weights = std::move(filters);
    taps = std::move(padded);
    weights_map = {nullptr, nullptr, &taps};
  }
  Operands(const Operands&) = delete;
  void Transpose() {
    columns = {rows.columns, rows.rows, Config::kBlockK / P::kRowsShare, 2, {}};
    for (int k = 0; k < rows.columns; ++k) {
      for (int row = 0; row < rows.rows; ++row) columns.data.push_back(rows.At(row, k));
    }
    rows_map = {&columns};
  }
  // Makes rows and weights end after `k`: the launch's K.
  void EndAt(int k) {
    Matrix shorter = TestMatrix(rows.rows, k, 9);
    shorter.box_rows = rows.box_rows;
    rows = std::move(shorter);
    for (Matrix* w : {&weights, &up}) {
      w->rows = k;
      w->data.resize(static_cast<size_t>(k * w->columns));
    }
    Transpose();
  }
  ProductMaps maps() const { return {&rows_map, &weights_map, P::kWidth == 2 ? &up_map : nullptr}; }
};

// The stage bytes that arrived are the bytes that were expected.
inline void ExpectBarriersComplete() {
  for (const auto& [barrier, bytes] : machine.barriers())
    EXPECT_EQ(bytes.expected, bytes.arrived) << "barrier " << barrier;
}

// One consumer thread's sums over `count` stages, as consume_tile() takes them.
template <class Config, class P, bool kRowsInRing, class RingType, class Scales>
void Accumulate(float (&sums)[P::kAccumulators], const RingType& ring, u32 rows, int count,
                WarpgroupPlace place, const Scales& scales) {
  Cursor<P::kKBlocks> cursor;
  if constexpr (P::Element::kPromoted)
    accumulate_promoted<Config, P>(sums, ring, cursor, count, place, scales);
  else if constexpr (P::Element::kExact)
    accumulate_exact<Config, P, kRowsInRing>(sums, ring, cursor, rows, count, place);
  else
    accumulate<Config, P, kRowsInRing>(sums, ring, cursor, rows, count, place);
}

// Runs a tile's K blocks [begin, end) through a ring that holds them all.
template <class Config, class P, bool kRowsInRing, class Scales = NoBlockScales>
Accumulators<P> RunTile(const Operands<Config, P>& operands, u32 rows_at, int row, int column,
                        int begin, int end, const Scales& scales = {}) {
  constexpr int kStageBytes = (kRowsInRing ? P::kRowsBytes : 0) + P::kWeightBytes;
  const Ring<P::kKBlocks, kStageBytes> ring{kBase, kBarriers};
  Cursor<P::kKBlocks> weights, rows;
  produce_weights<Config, P, kRowsInRing>(ring, weights, operands.maps(), column, begin, end);
  if (kRowsInRing)
    produce_rows<Config, P>(ring, rows, operands.maps(), row, begin, end, {}, column);
  ExpectBarriersComplete();
  Accumulators<P> accumulators(kConsumers<Config>);
  for (int t = 0; t < kConsumers<Config>; ++t) {
    threadIdx.x = 128 + static_cast<unsigned>(t);
    const WarpgroupPlace place = PlaceOf<Config>(t);
    Accumulate<Config, P, kRowsInRing>(AsArray(accumulators[static_cast<size_t>(t)]), ring, rows_at,
                                       end - begin, place,
                                       scales.template held<Config, P>(row, column, place));
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
    const int half = at.column % P::kHalf;
    // A box's row of a set of 32, as the map of permuted weights says: pairs, then fours of pairs.
    const int in_set = half / 32 * 32 + half % 2 + 8 * (half / 2 % 4) + 2 * (half / 8 % 4);
    return {place.m * 64 + at.row, place.n * P::kHalf + (P::kPermuted ? in_set : half),
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

// What the epilogue makes of element (row, column), whose sums are multiplied by `scale` and, of
// up, by `up_scale`.
template <class Config, class P>
float Finished(const Operands<Config, P>& o, const std::vector<u16>& bias, int row, int column,
               float scale = 1, float up_scale = 1) {
  float x = scale * Dot<Config>(o.rows, o.weights, row, column, 0, P::kK) +
            Integer16::unpack(bias[static_cast<size_t>(column)]);
  if (P::kWidth == 1) return Fold::apply(x);
  const float up = up_scale * Dot<Config>(o.rows, o.up, row, column, 0, P::kK) +
                   Integer16::unpack(bias[static_cast<size_t>(column)]);
  return Fold::apply(x) * static_cast<float>(static_cast<int>(up) % 7);
}

// Up to the gate's factor, which must fit 16 bits with it: the test's epilogue is the library's
// with the up half reduced first. Scales are powers of two.
template <class P, class Scaling = NoScaling>
struct TestEpilogue : Epilogue<P, Integer16, Fold, true, Scaling> {
  using Library = Epilogue<P, Integer16, Fold, true, Scaling>;
  float apply(float x, float up, float scale, const ColumnTerms& terms) const {
    if (P::kWidth == 1) return Library::apply(x, up, scale, terms);
    const float of_up = scale * terms.factor_up;
    const float reduced = static_cast<float>(static_cast<int>(up * of_up + terms.bias_up) % 7);
    return Library::apply(x, (reduced - terms.bias_up) / of_up, scale, terms);
  }
};

inline std::vector<u16> TestBias(int columns) { return TestMatrix(1, columns, 77).data; }

// What a thread does with its accumulators `d` once they are done.
template <class Config, class P, class EpilogueType, class Writer, class Matrix = NoMatrix>
void WriteOwn(const float (&d)[P::kAccumulators], const EpilogueType& epilogue,
              const Writer& writer, int row, int column, WarpgroupPlace place,
              const Matrix& matrix = {}) {
  const HeldScaling<typename EpilogueType::Scaling> scaling(epilogue.scaling, row, place);
  HeldTerms<EpilogueType, TermWindow<Config, P, EpilogueType, Matrix::kPresent>> terms(
      epilogue, column + place.n * P::kHalf, place.thread);
  HeldMatrix<Config, P, Matrix> held(matrix, row, column, place);
  write_accumulators<Config, P>(d, epilogue, terms, scaling, writer, row, column, place, held);
}

template <class Config, class P, class EpilogueType, class Writer, class Matrix = NoMatrix>
void WriteTile(const Accumulators<P>& accumulators, const EpilogueType& epilogue,
               const Writer& writer, int row, int column, const Matrix& matrix = {}) {
  for (int warp = 0; warp < kConsumers<Config> / 32; ++warp) {
    machine.RunWarp([&](int lane) {
      const int t = warp * 32 + lane;
      threadIdx.x = 128 + static_cast<unsigned>(t);
      const auto& d = AsArray(accumulators[static_cast<size_t>(t)]);
      const WarpgroupPlace place = PlaceOf<Config>(t);
      if constexpr (Config::kSwapped) {
        const SwappedWriter<Config, P, EpilogueType, Writer, Matrix> swapped(
            epilogue, writer, matrix, row, column, place);
        swapped.fetch();
        swapped.write(d);
        return;
      }
      WriteOwn<Config, P>(d, epilogue, writer, row, column, place, matrix);
    });
  }
}

// Sums the ranks' accumulators through their shared memory and writes every rank's rows.
template <class Config, class P, class EpilogueType, class Writer, class Matrix = NoMatrix>
void ReduceTile(const std::vector<Accumulators<P>>& ranks, const EpilogueType& epilogue,
                const Writer& writer, int row, int column, const Matrix& matrix = {}) {
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
        const auto ahead = Parts::beside(reduce, reduce.first_unit(), matrix, row, column);
        Parts::sum(reduce, epilogue, reduce.terms_of(reduce.first_unit(), epilogue, column), writer,
                   row, column, matrix, ahead);
        continue;
      }
      if constexpr (Matrix::kPresent) reduce.fetch(matrix, row, column);
      reduce.sum(epilogue, reduce.scale_of(reduce.first_unit(), epilogue, row),
                 reduce.terms_of(reduce.first_unit(), epilogue, column), writer, row, column,
                 matrix, reduce.beside(reduce.first_unit(), matrix, row, column));
    }
  }
}

}  // namespace sinter
