// Rows times weights, or times gate and up, by mma.sync: for chips from sm_80 on, with no
// instruction that later ones lack.
#pragma once
#include "ptx/mma.cuh"
#include "ptx/sync.cuh"
#include "tile/operand_tile.cuh"

namespace sinter {

extern __shared__ __align__(128) unsigned char mma_shared[];

// Weights are [n, k], or [k, n] where not Config::kAlongK. Element 1 is up's.
template <class Config>
struct MmaOperands {
  const typename Config::Element::Stored* rows;  // [m, k]
  const typename Config::Element::Stored* weights[2];
  typename Config::Result::Stored* out;  // [m, n]
};

// Loads four elements of a vector, kStride apart; 0: one for all. The vector has `left` elements
// from `from` on; zeros stand for those after them. kVector: `from` is a multiple of four elements.
template <class Element, bool kVector, long long kStride = 1>
SINTER_DEVICE void load_four(const typename Element::Stored* from, int left, float (&to)[4]) {
  struct alignas(4 * sizeof(typename Element::Stored)) Four {
    typename Element::Stored of[4];
  };
  Four four = {};
  if constexpr (kVector && kStride == 1) {
    four = *reinterpret_cast<const Four*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < left) four.of[i] = from[i * kStride];
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = Element::unpack(four.of[i]);
}

// A block takes every gridDim.x-th tile of kBlockM rows and kBlockN columns of each matrix. Its
// warps have parts of kWarpM by kWarpN, each part kSlices warps that divide every step of K among
// them. Copies fill a ring of stages; sums meet in its place and are added in the order of slices.
template <class Config>
struct MmaProduct {
  using Element = typename Config::Element;
  using Result = typename Config::Result;
  using Sum = typename Element::Sum;
  static constexpr int kMatrices = Config::kPair ? 2 : 1, kSlices = Config::kSlices;
  static constexpr int kStages = Config::kStages;
  static constexpr int kBlockM = Config::kBlockM, kBlockN = Config::kBlockN;
  static constexpr int kWarpM = Config::kWarpM, kWarpN = Config::kWarpN;
  static constexpr int kWarpsM = kBlockM / kWarpM, kWarpsN = kBlockN / kWarpN;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN * kSlices;
  using Rows = OperandTile<Element, kBlockM, kSlices, true>;
  using Weights = OperandTile<Element, kBlockN, kSlices, Config::kAlongK>;
  static constexpr int kRowsBytes = kSlices * Rows::kSliceBytes;
  static constexpr int kWeightBytes = kSlices * Weights::kSliceBytes;
  static constexpr int kStageBytes = kRowsBytes + kMatrices * kWeightBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static constexpr int kStepK = kSlices * Rows::kSliceK;
  static constexpr int kSteps = ceil_div(Config::kK, kStepK);
  static constexpr int kTilesM = kWarpM / 16, kTilesN = kWarpN / 8;
  static constexpr int kParts = kRowBytes / kStepBytes;  // of a slice's step, an mma each
  static constexpr int kPad = kBlockN + 8;               // words of a row of sums
  static_assert(4 * kMatrices * kSlices * kBlockM * kPad <= kSharedBytes,
                "sums take the place of stages");

  template <class End>
  static SINTER_DEVICE void run(const MmaOperands<Config>& o, const End& end, int m) {
    launch_dependents();
    wait_for_predecessors();
    // Tiles of kWalk rows of tiles are neighbours, so that what they read of weights is in L2.
    constexpr int kTilesOfRow = ceil_div(Config::kN, kBlockN), kBand = Config::kWalk * kTilesOfRow;
    const int block = static_cast<int>(blockIdx.x), first = block / kBand * Config::kWalk;
    const int band = min(ceil_div(m, kBlockM) - first, Config::kWalk);
    if (band <= 0) return;  // the launch has fewer rows than the plan
    const int row = (first + block % kBand % band) * kBlockM;
    const int column = block % kBand / band * kBlockN;
    if (column >= Config::kN) return;
    const u32 ring = shared_address(mma_shared);
    Sum sums[kMatrices][kTilesM][kTilesN][4] = {};
    multiply(sources(o, row, column, m), ring, sums);
    wait_copies<0>();
    meet();  // all have read the ring to its end
    keep(ring, sums);
    meet();
    store(o, end, ring, row, column, m);
  }

 private:
  using Sums = Sum[kMatrices][kTilesM][kTilesN][4];

  // What the block's threads did before, all see after it.
  static SINTER_DEVICE void meet() {
    jitter();
    __syncthreads();
  }
  static SINTER_DEVICE int thread() { return static_cast<int>(threadIdx.x); }
  static SINTER_DEVICE int lane() { return thread() % 32; }
  static SINTER_DEVICE int slice() { return thread() / 32 % kSlices; }
  static SINTER_DEVICE int first_row() { return thread() / 32 / kSlices % kWarpsM * kWarpM; }
  static SINTER_DEVICE int first_column() { return thread() / 32 / kSlices / kWarpsM * kWarpN; }

  // ---- Loads

  // What a thread copies of an operand's part of each stage: of every kTurn-th line the chunk of
  // one number.
  template <class Tile, bool kAlongK, long long kStride>
  struct Source {
    static constexpr int kTurn = kThreads / Tile::kChunks;
    static_assert(kThreads % Tile::kChunks == 0, "a thread has chunks of one number");
    const typename Element::Stored* from;
    int lines;  // that there are from this one on
    int k;      // kAlongK: of a line's K, what there is from here on

    static SINTER_DEVICE int line() { return thread() / Tile::kChunks; }
    static SINTER_DEVICE int chunk() { return thread() % Tile::kChunks; }

    // `first`: the tile's first row or column, of `count`.
    SINTER_DEVICE Source(const typename Element::Stored* matrix, int first, int count) {
      const int in_line = chunk() * Element::kVector;
      k = Config::kK - in_line;
      if constexpr (kAlongK) {
        from = matrix + (first + line()) * kStride + in_line;
        lines = count - first - line();
      } else {
        from = matrix + line() * kStride + first + in_line;
        lines = first + in_line < count ? Config::kK - line() : 0;
      }
    }
    // Zeros where there is nothing. Then it stands at the next step.
    SINTER_DEVICE void copy(u32 to) {
#pragma unroll
      for (int i = 0; i < Tile::kLines; i += kTurn) {
        if (Tile::kLines % kTurn != 0 && line() >= Tile::kLines) break;
        copy_async(to + Tile::place(line() + i, chunk()), from + i * kStride,
                   i < lines && (!kAlongK || k > 0) ? 16 : 0);
      }
      from += kAlongK ? kStepK : kStepK * kStride;
      (kAlongK ? k : lines) -= kStepK;
    }
  };
  using RowSource = Source<Rows, true, Config::kRowStride>;
  using WeightSource = Source<Weights, Config::kAlongK, Config::kWeightStride>;

  struct Sources {
    RowSource rows;
    WeightSource weights[kMatrices];

    SINTER_DEVICE void copy(u32 stage) {
      rows.copy(stage);
#pragma unroll
      for (int i = 0; i < kMatrices; ++i) {
        weights[i].copy(stage + kRowsBytes + i * kWeightBytes);
      }
    }
  };
  static SINTER_DEVICE Sources sources(const MmaOperands<Config>& o, int row, int column, int m) {
    const RowSource rows(o.rows, row, m);
    const WeightSource weights(o.weights[0], column, Config::kN);
    if constexpr (Config::kPair) {
      return {rows, {weights, WeightSource(o.weights[1], column, Config::kN)}};
    } else {
      return {rows, {weights}};
    }
  }

  // ---- Products

  // What a warp multiplies at once: 32 bytes of K.
  struct Fragments {
    u32 rows[kTilesM][4], weights[kMatrices][kTilesN / 2][4];
  };

  static SINTER_DEVICE void load(Fragments& to, u32 stage, const typename Rows::Lane& rows,
                                 const typename Weights::Lane& weights, int part) {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) load_matrices<false>(to.rows[i], stage + rows.at(i, part));
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
#pragma unroll
      for (int j = 0; j < kTilesN / 2; ++j) {
        load_matrices<!Config::kAlongK>(
            to.weights[matrix][j],
            stage + kRowsBytes + matrix * kWeightBytes + weights.at(j, part));
      }
    }
  }

  static SINTER_DEVICE void add(Sums& sums, const Fragments& of) {
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) {
        const u32(&w)[4] = of.weights[matrix][j / 2];
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) {
          multiply_add<Element>(sums[matrix][i][j], of.rows[i], w[j % 2 * 2], w[j % 2 * 2 + 1]);
        }
      }
    }
  }

  // Adds all of K. Fragments are loaded while those before them are multiplied, across stages too.
  static SINTER_DEVICE void multiply(Sources sources, u32 ring, Sums& sums) {
    const auto rows = Rows::template lane_of<true>(slice(), first_row(), lane());
    const auto weights = Weights::template lane_of<false>(slice(), first_column(), lane());
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
      if (step < kSteps) sources.copy(ring + step * kStageBytes);
      commit_copies();
    }
    u32 read = ring, write = ring + (kStages - 1) * kStageBytes;
    Fragments fragments[2];
    wait_copies<kStages - 2>();
    meet();
    load(fragments[0], read, rows, weights, 0);
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      Sums of_step = {};  // of promoted sums: tensor cores keep few bits of a long sum
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if (part == kParts - 1) {
          wait_copies<kStages - 2>();
          meet();  // the next stage is there, and all have read this one
          read = next(ring, read);
        }
        load(fragments[(part + 1) % 2], read, rows, weights, (part + 1) % kParts);
        if (part == 0) {
          if (step + kStages - 1 < kSteps) sources.copy(write);
          commit_copies();
          write = next(ring, write);
        }
        add(Element::kPromoted ? of_step : sums, fragments[part % 2]);
      }
      if constexpr (Element::kPromoted) {
#pragma unroll
        for (int i = 0; i < kMatrices * kTilesM * kTilesN * 4; ++i) {
          (&sums[0][0][0][0])[i] += (&of_step[0][0][0][0])[i];
        }
      }
    }
  }

  static SINTER_DEVICE u32 next(u32 ring, u32 stage) {
    stage += kStageBytes;
    return stage == ring + kSharedBytes ? ring : stage;
  }

  // ---- Results

  static SINTER_DEVICE u32 place_of_sum(u32 ring, int part, int row, int column) {
    return ring + ((part * kBlockM + row) * kPad + column) * 4;
  }
  static SINTER_DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
  static SINTER_DEVICE u32 bits_of(int x) { return static_cast<u32>(x); }

  // Puts a warp's sums into the ring's place.
  static SINTER_DEVICE void keep(u32 ring, const Sums& sums) {
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const Sum* const two = &sums[matrix][i][j][2 * half];
            store_shared(place_of_sum(ring, matrix * kSlices + slice(),
                                      first_row() + 16 * i + 8 * half + lane() / 4,
                                      first_column() + 8 * j + lane() % 4 * 2),
                         __uint_as_float(bits_of(two[0])), __uint_as_float(bits_of(two[1])));
          }
        }
      }
    }
  }

  // The sums of four columns, of all slices.
  static SINTER_DEVICE void total(u32 ring, int matrix, int row, int column, float (&of)[4]) {
    Sum sum[4] = {};
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const Word4 part = load_shared_words(place_of_sum(ring, matrix * kSlices + i, row, column));
      add_bits(sum[0], part.x);
      add_bits(sum[1], part.y);
      add_bits(sum[2], part.z);
      add_bits(sum[3], part.w);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) of[i] = static_cast<float>(sum[i]);
  }
  static SINTER_DEVICE void add_bits(float& to, u32 bits) { to += __uint_as_float(bits); }
  static SINTER_DEVICE void add_bits(int& to, u32 bits) { to += static_cast<int>(bits); }

  template <class End>
  static SINTER_DEVICE void store(const MmaOperands<Config>& o, const End& end, u32 ring, int row,
                                  int column, int m) {
    constexpr int kQuads = kBlockN / 4;
    const int count = min(m - row, kBlockM) * kQuads;
#pragma unroll 2
    for (int i = thread(); i < count; i += kThreads) {
      const int in_row = i / kQuads, in_column = i % kQuads * 4;
      const int at = row + in_row, at_column = column + in_column;
      if (at_column >= Config::kN) continue;
      float y[4], up[4] = {};
      total(ring, 0, in_row, in_column, y);
      if constexpr (Config::kPair) total(ring, 1, in_row, in_column, up);
      end.apply(at, at_column, y, up);
      auto* const to = o.out + at * Config::kOutStride + at_column;
      if constexpr (Config::kN % 4 == 0 && Config::kOutStride % 4 == 0) {
        struct alignas(4 * sizeof(typename Result::Stored)) Four {
          typename Result::Pair of[2];
        };
        *reinterpret_cast<Four*>(to) = {Result::pack(y[0], y[1]), Result::pack(y[2], y[3])};
      } else {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (at_column + c < Config::kN) to[c] = one_of(y[c]);
        }
      }
    }
  }
  static SINTER_DEVICE typename Result::Stored one_of(float x) {
    if constexpr (sizeof(typename Result::Stored) == 4) {
      return x;
    } else {
      return static_cast<typename Result::Stored>(Result::pack(x, 0));
    }
  }
};

}  // namespace sinter
