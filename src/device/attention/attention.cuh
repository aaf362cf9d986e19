// Attention: softmax(terms(q k^T)) v of one batch and one set of rows at a time. A block takes
// items, which are rows of a batch, one after another. One thread loads; each other warpgroup has
// 64 rows of the item, its scores and its sums in registers. It takes tiles of keys from the last
// one back, so that only the first that it takes may have keys that are none. Probabilities are
// rounded to the element type before they are divided by their sum, which is of f32.
//
// Config, which codegen writes:
//   Element, Result: types of q, k, v and of the result
//   kHead, kValueHead: extents of what is summed in a score, and of a row of the result
//   kRows, kKeys: of a batch
//   kWarpgroups, kBlockKeys, kStages, kQueryStages: the schedule; kResident: blocks on an SM
//   kSplits: blocks of a cluster, each of which takes a range of an item's tiles of keys
//   kScale: exp2(kScale * score) where kPlain; else Terms gives what exp takes
//   kPlain: there are no terms, and kScale is above 0
//   kHidden: a row may be hidden in the first tiles of keys
//   kCausal, kDiagonal: keys behind row + kDiagonal are hidden
//   kZeroUnseen: a row whose keys are all hidden is 0; else NaN
//   kZeroOverflowed: a row whose scores are all below kLeastScore is 0, too
//   kOutRow, kOutVectors: elements between rows of the result; whether 16 bytes of it are aligned
//   Terms: see NoTerms
//   load_q(map, b, ...), load_k, load_v; out_at(b): where a batch lies
#pragma once
#include "attention/join.cuh"
#include "attention/powers.cuh"
#include "attention/terms.cuh"
#include "pipeline/ring.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "tile/layout.cuh"
#include "tile/quad.cuh"

namespace sinter {

SINTER_DEVICE float negative_infinity() { return __uint_as_float(0xff800000u); }

struct AttentionArguments {
  const TensorMap *q, *k, *v;
  void* out;
  const void* terms[2];
  int batches;
};

// Where a thread's scores are, as floats: its first row, and its first key.
struct ScorePlace {
  float first_row, first_key;
  SINTER_DEVICE float row(int i) const { return first_row + static_cast<float>(i / 2 % 2 * 8); }
  SINTER_DEVICE float key(int i) const {
    return first_key + static_cast<float>(8 * (i / 4) + i % 2);
  }
};

// Scores as they are. Others place themselves at a batch and the thread's two rows, load what they
// need of the keys from `first` on, and apply themselves to the score at an index and its place.
struct NoTerms {
  SINTER_DEVICE void place(const AttentionArguments&, int, int, int) {}
  template <bool kLast>
  SINTER_DEVICE void load(int) {}
  SINTER_DEVICE float apply(float x, int, const ScorePlace&) const { return x; }
};

template <class Config>
struct AttentionShape {
  using Element = typename Config::Element;
  static constexpr int kBlockRows = Config::kWarpgroups * kWarpgroupRows;
  static constexpr int kTiles = ceil_div(Config::kRows, kBlockRows);
  static constexpr int kKeyTiles = ceil_div(Config::kKeys, Config::kBlockKeys);
  static constexpr int kHeadTiles = ceil_div(Config::kHead, Element::kSwizzleSpan);
  static constexpr int kValueTiles = ceil_div(Config::kValueHead, Element::kSwizzleSpan);
  static constexpr int kWidest = kHeadTiles > kValueTiles ? kHeadTiles : kValueTiles;
  static constexpr int kQueryBytes = kHeadTiles * kBlockRows * kRowBytes;
  static constexpr int kKeyBytes = kHeadTiles * Config::kBlockKeys * kRowBytes;
  static constexpr int kValueBytes = kValueTiles * Config::kBlockKeys * kRowBytes;
  static constexpr int kStageBytes = kWidest * Config::kBlockKeys * kRowBytes;
  using KeyRing = Ring<Config::kStages, kStageBytes>;
  using QueryRing = Ring<Config::kQueryStages, kQueryBytes>;
  static constexpr int kRingAt = Config::kQueryStages * kQueryBytes;
  static constexpr int kBarriersAt = kRingAt + Config::kStages * kStageBytes;
  static constexpr int kJoinAt = kBarriersAt + KeyRing::kBarrierBytes + QueryRing::kBarrierBytes;
  static constexpr int kJoinedRows = Config::kRows < kBlockRows ? Config::kRows : kBlockRows;
  using Join =
      SplitJoin<Config::kSplits, kJoinedRows, Config::kValueHead, 128 * Config::kWarpgroups>;
  static constexpr int kSharedBytes = kJoinAt + (Config::kSplits > 1 ? Join::kBytes : 0);
  static constexpr int kConsumerWarps = 4 * Config::kWarpgroups;
  // With one consumer warpgroup, every thread has enough registers from the start. With more, the
  // loading warpgroup gives some of its own away.
  static constexpr int kLoaders = Config::kWarpgroups == 1 ? 32 : 128;
  static constexpr int kThreads = 128 * Config::kWarpgroups + kLoaders;
  static constexpr int kLoaderRegisters = 24;
  static constexpr int kLaunchRegisters = 65536 / (kThreads * Config::kResident) / 8 * 8;
  static constexpr int kRegisters =
      (kLaunchRegisters * (Config::kWarpgroups + 1) - kLoaderRegisters) / Config::kWarpgroups / 8 *
      8;
  static constexpr int kScoreGroups = Config::kBlockKeys / 8;
  static constexpr int kValueGroups = Config::kValueHead / 8;
  // With several tiles at least two: ptxas serialises a product whose only step replaces its
  // accumulators while the product of values runs. Columns past the head are zeros.
  static constexpr int kLeastSteps = kKeyTiles > 1 ? 2 : 1;
  static constexpr int kNeededSteps = ceil_div(Config::kHead, Element::kWgmmaK);
  static constexpr int kHeadSteps = kNeededSteps > kLeastSteps ? kNeededSteps : kLeastSteps;
  static constexpr int kKeySteps = Config::kBlockKeys / Element::kWgmmaK;
};

// The tiles of keys that a block multiplies with an item, from the last one back.
struct KeyTiles {
  int first, last;
};

// `row`: the item's first one. Ranges are the same for all items: a causal mask may hide all of
// one.
template <class Config>
SINTER_DEVICE KeyTiles key_tiles(int row) {
  using S = AttentionShape<Config>;
  if constexpr (Config::kSplits > 1) {
    const int split = static_cast<int>(cluster_rank());
    return {split * S::kKeyTiles / Config::kSplits,
            (split + 1) * S::kKeyTiles / Config::kSplits - 1};
  } else if constexpr (Config::kCausal) {
    const int seen = row + S::kBlockRows + Config::kDiagonal;
    const int tiles = ceil_div(seen, Config::kBlockKeys);
    return {0, (tiles < 1 ? 1 : tiles < S::kKeyTiles ? tiles : S::kKeyTiles) - 1};
  } else {
    return {0, S::kKeyTiles - 1};
  }
}

template <class Config, class S = AttentionShape<Config>>
SINTER_DEVICE void attention_load(const AttentionArguments& args,
                                  const typename S::QueryRing& queries,
                                  const typename S::KeyRing& ring) {
  constexpr int kSpan = S::Element::kSwizzleSpan;
  Cursor<Config::kQueryStages> query;
  Cursor<Config::kStages> cursor;
  const auto load = [&](bool keys, int b, int tile) {
    const u32 full = ring.full(cursor.stage), to = ring.address(cursor.stage);
    mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);
    mbarrier_arrive_expect(full, keys ? S::kKeyBytes : S::kValueBytes);
#pragma unroll
    for (int s = 0; s < S::kWidest; ++s) {
      const u32 at = to + s * Config::kBlockKeys * kRowBytes;
      if (keys && s < S::kHeadTiles)
        Config::load_k(at, args.k, s * kSpan, tile * Config::kBlockKeys, b, full);
      if (!keys && s < S::kValueTiles)
        Config::load_v(at, args.v, s * kSpan, tile * Config::kBlockKeys, b, full);
    }
    cursor.advance();
  };
#pragma unroll 1
  for (int item = blockIdx.x / Config::kSplits; item < args.batches * S::kTiles;
       item += gridDim.x / Config::kSplits) {
    const int b = item / S::kTiles, row = item % S::kTiles * S::kBlockRows;
    const u32 full = queries.full(query.stage);
    mbarrier_wait(queries.empty(query.stage), query.parity ^ 1);
    mbarrier_arrive_expect(full, S::kQueryBytes);
#pragma unroll
    for (int s = 0; s < S::kHeadTiles; ++s)
      Config::load_q(queries.address(query.stage) + s * S::kBlockRows * kRowBytes, args.q,
                     s * kSpan, row, b, full);
    query.advance();
    const KeyTiles tiles = key_tiles<Config>(row);
    load(true, b, tiles.last);
#pragma unroll 1
    for (int tile = tiles.last - 1; tile >= tiles.first; --tile) {
      load(true, b, tile);
      load(false, b, tile + 1);
    }
    load(false, b, tiles.first);
  }
}

// What a thread has of the rows of a warpgroup: two rows, of which it holds every fourth pair of
// columns.
template <class Config>
struct AttentionRows {
  using S = AttentionShape<Config>;
  using Element = typename Config::Element;
  static constexpr int kScores = Config::kBlockKeys / 2, kSums = Config::kValueHead / 2;
  using ScoreMma = Wgmma<Config::kBlockKeys, Element, false, false>;
  using ValueMma = RegisterWgmma<Config::kValueHead, Element, true>;
  using Powers = typename PowersOf<Config, Config::kPlain>::Type;

  float scores[kScores], sums[kSums];
  u32 powers[S::kKeySteps][4];  // of one tile, rounded
  float largest[2], total[2];
  typename Config::Terms terms;

  SINTER_DEVICE void begin() {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) largest[h] = negative_infinity(), total[h] = 0;
  }

  SINTER_DEVICE void multiply_keys(u64 q, u64 k) {
#pragma unroll
    for (int step = 0; step < S::kHeadSteps; ++step)
      ScoreMma::mma(scores, q + (k_major_step(S::kBlockRows, 0, step) >> 4),
                    k + (k_major_step(Config::kBlockKeys, 0, step) >> 4), step != 0);
    wgmma_commit();
  }
  SINTER_DEVICE void multiply_values(u64 v) {
#pragma unroll
    for (int step = 0; step < S::kKeySteps; ++step)
      ValueMma::mma(sums, powers[step],
                    v + (n_major_step<Element>(Config::kBlockKeys, 0, step) >> 4), 1);
    wgmma_commit();
  }

  // Of the score at index i: its key.
  static SINTER_DEVICE int key_of(int first, int i) {
    return first + 8 * (i / 4) + 2 * static_cast<int>(threadIdx.x % 4) + i % 2;
  }

  // What powers of scores are about, where `most` is the largest. Where all of a row is hidden so
  // far, powers are 0 and not NaN.
  static SINTER_DEVICE float shift_of(float most) {
    const float shown = Config::kHidden && most == negative_infinity() ? 0.f : most;
    return Config::kZeroOverflowed ? fmaxf(shown, Config::kLeastScore) : shown;
  }

  // Turns scores of the keys from `first` on into powers, of f32, and gives the factors by which
  // earlier sums are to be multiplied. kLast: keys may end in the tile.
  template <bool kLast>
  SINTER_DEVICE void soften(int row, int first, float (&factors)[2]) {
    if constexpr (!Config::kPlain) {
      const ScorePlace place{static_cast<float>(row), static_cast<float>(key_of(first, 0))};
#pragma unroll
      for (int i = 0; i < kScores; ++i) scores[i] = terms.apply(scores[i], i, place);
    }
    if constexpr (Config::kCausal) {
      const int last = row - accumulator_row(threadIdx.x % 128) + Config::kDiagonal;
      // One tile takes no branch: nearly all of its items have hidden keys, and with the branch
      // ptxas takes too many registers.
      if (S::kKeyTiles == 1 || first + Config::kBlockKeys - 1 > last) {
#pragma unroll
        for (int i = 0; i < kScores; ++i)
          if (key_of(first, i) > row + i / 2 % 2 * 8 + Config::kDiagonal)
            scores[i] = negative_infinity();
      }
    }
    if constexpr (kLast && Config::kKeys % Config::kBlockKeys != 0) {
#pragma unroll
      for (int i = 0; i < kScores; ++i)
        if (key_of(first, i) >= Config::kKeys) scores[i] = negative_infinity();
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = largest[h];
#pragma unroll
      for (int i = 2 * h; i < kScores; i += 4) most = fmaxf(most, fmaxf(scores[i], scores[i + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
      const Powers powers(shift_of(most));
      factors[h] = powers.factor(largest[h]);
      float sum = 0;
#pragma unroll
      for (int i = 2 * h; i < kScores; i += 4)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          scores[i + c] = powers.of(scores[i + c]);
          sum += scores[i + c];
        }
      largest[h] = most;
      total[h] = fmaf(total[h], factors[h], sum);
    }
  }

  SINTER_DEVICE void rescale(const float (&factors)[2]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] *= factors[i / 2 % 2];
  }
  SINTER_DEVICE void round() {
#pragma unroll
    for (int step = 0; step < S::kKeySteps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        powers[step][i] = Element::pack(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1]);
  }

  // The totals of rows, of which each thread has some columns'.
  SINTER_DEVICE void add_totals() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      total[h] += __shfl_xor_sync(0xFFFFFFFFu, total[h], 1);
      total[h] += __shfl_xor_sync(0xFFFFFFFFu, total[h], 2);
    }
  }
  static SINTER_DEVICE float inverse_of(float total) {
    return Config::kZeroUnseen && total == 0 ? 0.f : 1.f / total;
  }

  // Pushes what the block's keys gave the rows, adds what all keys gave the columns that the block
  // owns, divides and stores. `first_row`: of the item; `row`: the thread's.
  SINTER_DEVICE void join(typename S::Join& all, typename Config::Result::Stored* out,
                          int first_row, int row, bool first_item, bool last_item) {
    using Result = typename Config::Result;
    const int left = Config::kRows - first_row,
              rows = left < S::kJoinedRows ? left : S::kJoinedRows;
    const int lane = static_cast<int>(threadIdx.x % 4);
    add_totals();
    all.begin(first_item, rows);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = row - first_row + 8 * h;
      if (at >= rows) continue;
#pragma unroll
      for (int g = 0; g < S::kValueGroups; ++g)
        all.push(at, g, lane, sums[4 * g + 2 * h], sums[4 * g + 2 * h + 1]);
      if (lane == 0) all.push_totals(at, largest[h], total[h]);
    }
    all.template take<Powers>(rows, shift_of, [&](int at, int column, Float4 x, float sum) {
      const float by = inverse_of(sum);
      auto* const to = reinterpret_cast<typename Result::Pair*>(
          out + static_cast<long long>(first_row + at) * Config::kOutRow + column);
      to[0] = Result::pack(x.x * by, x.y * by);
      to[1] = Result::pack(x.z * by, x.w * by);
    });
    all.end(last_item);
  }

  // Divides by the totals and stores. `out`: of the batch. Rows past the last one are not stored.
  SINTER_DEVICE void store(typename Config::Result::Stored* out, int row) {
    using Result = typename Config::Result;
    float inverse[2];
    add_totals();
#pragma unroll
    for (int h = 0; h < 2; ++h) inverse[h] = inverse_of(total[h]);
    const int lane = static_cast<int>(threadIdx.x % 4);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      typename Result::Stored* const at =
          out + static_cast<long long>(row + 8 * h) * Config::kOutRow;
      const bool inside = row + 8 * h < Config::kRows;
      if constexpr (Config::kOutVectors && Result::kBytes == 2 && S::kValueGroups % 4 == 0) {
#pragma unroll
        for (int g = 0; g < S::kValueGroups; g += 4) {
          u32 words[4];
#pragma unroll
          for (int i = 0; i < 4; ++i)
            words[i] = Result::pack(sums[4 * (g + i) + 2 * h] * inverse[h],
                                    sums[4 * (g + i) + 2 * h + 1] * inverse[h]);
          const Word4 whole = quad_transpose(words);
          if (inside) *reinterpret_cast<Word4*>(at + 8 * (g + lane)) = whole;
        }
      } else {
#pragma unroll
        for (int g = 0; g < S::kValueGroups; ++g) {
          const float x = sums[4 * g + 2 * h] * inverse[h];
          const float y = sums[4 * g + 2 * h + 1] * inverse[h];
          if (inside)
            *reinterpret_cast<typename Result::Pair*>(at + 8 * g + 2 * lane) = Result::pack(x, y);
        }
      }
    }
  }
};

template <class Config, class S = AttentionShape<Config>>
SINTER_DEVICE void attention_consume(const AttentionArguments& args,
                                     const typename S::QueryRing& queries,
                                     const typename S::KeyRing& ring, typename S::Join join,
                                     int warpgroup) {
  using Element = typename Config::Element;
  Cursor<Config::kQueryStages> query;
  Cursor<Config::kStages> cursor;
  AttentionRows<Config> rows;
  const bool elected = threadIdx.x % 32 == 0;
  const auto release = [&](u32 barrier) {
    if (elected) mbarrier_arrive(barrier);
  };
  const auto keys_at = [&](u32 stage) {
    return descriptor(ring.address(stage), kKMajorLeading, kKMajorStride);
  };
  const auto values_at = [&](u32 stage) {
    return descriptor(ring.address(stage), n_major_leading(Config::kBlockKeys), kNMajorStride);
  };
  const int first_item = static_cast<int>(blockIdx.x) / Config::kSplits;
  const int item_step = static_cast<int>(gridDim.x) / Config::kSplits;
#pragma unroll 1
  for (int item = first_item; item < args.batches * S::kTiles; item += item_step) {
    const int b = item / S::kTiles, first_row = item % S::kTiles * S::kBlockRows;
    const int row = first_row + warpgroup * kWarpgroupRows + accumulator_row(threadIdx.x % 128);
    const KeyTiles tiles = key_tiles<Config>(first_row);
    const int first = tiles.first;
    int last = tiles.last;
    asm volatile("" : "+r"(last));  // unknown: two tiles in a row would need twice the registers
    rows.begin();
    rows.terms.place(args, b, row < Config::kRows ? row : Config::kRows - 1,
                     row + 8 < Config::kRows ? row + 8 : Config::kRows - 1);
    rows.terms.template load<true>(last * Config::kBlockKeys);
    const u64 q = descriptor(queries.address(query.stage) + warpgroup * kWarpgroupRows * kRowBytes,
                             kKMajorLeading, kKMajorStride);
    float factors[2];
    mbarrier_wait(queries.full(query.stage), query.parity);
    mbarrier_wait(ring.full(cursor.stage), cursor.parity);
    wgmma_fence();
    rows.multiply_keys(q, keys_at(cursor.stage));
    wgmma_wait<0>();
    release(ring.empty(cursor.stage));
    cursor.advance();
    if (last == first) release(queries.empty(query.stage));
    rows.template soften<true>(row, last * Config::kBlockKeys, factors);
    // Terms of the next tile are on their way while products run.
    if (last > first) rows.terms.template load<false>((last - 1) * Config::kBlockKeys);
    rows.round();
#pragma unroll 1
    for (int tile = last - 1; tile >= first; --tile) {
      const u32 keys = cursor.stage;
      mbarrier_wait(ring.full(keys), cursor.parity);
      wgmma_fence();
      rows.multiply_keys(q, keys_at(keys));
      cursor.advance();
      const u32 values = cursor.stage;
      mbarrier_wait(ring.full(values), cursor.parity);
      wgmma_fence();
      rows.multiply_values(values_at(values));
      cursor.advance();
      wgmma_wait<1>();
      release(ring.empty(keys));
      if (tile == first) release(queries.empty(query.stage));
      rows.template soften<false>(row, tile * Config::kBlockKeys, factors);
      rows.terms.template load<false>((tile > first ? tile - 1 : first) * Config::kBlockKeys);
      wgmma_wait<0>();
      release(ring.empty(values));
      rows.rescale(factors);
      rows.round();
    }
    mbarrier_wait(ring.full(cursor.stage), cursor.parity);
    wgmma_fence();
    rows.multiply_values(values_at(cursor.stage));
    wgmma_wait<0>();
    release(ring.empty(cursor.stage));
    cursor.advance();
    query.advance();
    auto* const out = static_cast<typename Config::Result::Stored*>(args.out) + Config::out_at(b);
    if constexpr (Config::kSplits > 1) {
      rows.join(join, out, first_row, row, item == first_item,
                item + item_step >= args.batches * S::kTiles);
    } else {
      rows.store(out, row);
    }
  }
}

extern __shared__ unsigned char dynamic_shared[];

template <class Config>
SINTER_DEVICE void attention(const AttentionArguments& args) {
  using S = AttentionShape<Config>;
  const u32 base = (shared_address(dynamic_shared) + 1023u) & ~1023u;
  const u32 barriers = base + S::kBarriersAt;
  const typename S::QueryRing queries{base, barriers + S::KeyRing::kBarrierBytes};
  const typename S::KeyRing ring{base + S::kRingAt, barriers};
  typename S::Join join{base + S::kJoinAt, base + S::kJoinAt + S::Join::kInboxBytes};
  if (threadIdx.x == 0) {
    queries.init(S::kConsumerWarps);
    ring.init(S::kConsumerWarps);
    if constexpr (Config::kSplits > 1) join.init();
    mbarrier_init_fence();
  }
  if constexpr (Config::kSplits > 1) {
    join.split = cluster_rank();
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  launch_dependents();
  wait_for_predecessors();
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == Config::kWarpgroups) {
    if constexpr (Config::kWarpgroups > 1) registers_decrease<S::kLoaderRegisters>();
    if (threadIdx.x % 128 == 0) attention_load<Config>(args, queries, ring);
    return;
  }
  if constexpr (Config::kWarpgroups > 1)
    registers_increase<(S::kRegisters < 240 ? S::kRegisters : 240)>();
  attention_consume<Config>(args, queries, ring, join, warpgroup);
}

}  // namespace sinter
