// The producers: two warps that fill the ring by TMA, one with weights and one with rows. Lane 0 of
// each issues the loads. Weights are constants, so their warp runs ahead as far as the ring goes,
// across tiles and products. Rows may have to be awaited, so their warp follows. Both walk the same
// stages. A stage's bytes may arrive before they are expected.
#pragma once
#include "pipeline/ring.cuh"
#include "ptx/tma.cuh"
#include "tile/product.cuh"

namespace sinter {

constexpr int kWeightsWarp = 0, kRowsWarp = 1;

// Tensor maps of one product. `up` is used when the product has two weight matrices.
struct ProductMaps {
  const TensorMap* rows;
  const TensorMap* weights;
  const TensorMap* up;
};

// What a block of a pair loads for both blocks: its half, 0 or 1, and the multicast mask of both.
struct PairLoads {
  int half = 0;
  u16 blocks = 1;
};

// Loads one box into this block, or into both blocks of a pair.
template <int kShare>
SINTER_DEVICE void load_box(u32 destination, const TensorMap* map, int x, int y, u32 full,
                            PairLoads pair) {
  if constexpr (kShare == 1)
    tma_load(destination, map, x, y, full);
  else
    tma_load_shared(destination, map, x, y, full, pair.blocks);
}
// The same of a place in a map of other dimensions.
template <int kShare, class Place>
SINTER_DEVICE void load_box(u32 destination, const TensorMap* map, Place at, u32 full,
                            PairLoads pair) {
  if constexpr (kShare == 1)
    tma_load(destination, map, at, full);
  else
    tma_load_shared(destination, map, at, full, pair.blocks);
}

// Which channels of which tap subtile `subtile` along K has. Taps have whole subtiles.
template <class Config, class P>
struct TapChannels {
  static constexpr int kSpan = Config::Element::kSwizzleSpan;
  static constexpr int kTiles = ceil_div(P::Rows::kTapChannels, kSpan);
  int tap, channel;
  SINTER_DEVICE explicit TapChannels(int subtile)
      : tap(subtile / kTiles), channel(subtile % kTiles * kSpan) {}
};

// The first channel of the bundle of groups that `column` lies in.
template <class P>
SINTER_DEVICE int bundle_channel(int column) {
  using W = typename P::Rows;
  if constexpr (W::kGroups == 1)
    return 0;
  else
    return column / (P::kN / W::kGroups * W::kBundle) * W::kTapChannels;
}

// The first channel of the group that `column` lies in, from that of its bundle.
template <class P>
SINTER_DEVICE int group_channel(int column) {
  using W = typename P::Rows;
  if constexpr (W::kBundle == 1)
    return 0;
  else
    return column / (P::kN / W::kGroups) % W::kBundle * W::kGroupChannels;
}

// Loads a box of weights whose taps are padded, into this block or both blocks of a pair: channels
// from `channel` + `skip` on of columns from `column` on. Behind the last channel, and behind the
// last tap, are zeros.
template <class Config, class P>
SINTER_DEVICE void load_tap(u32 destination, const TensorMap* map, TapChannels<Config, P> at,
                            int skip, int column, u32 full, PairLoads pair) {
  const TapPlace place = Config::kWeightsTransposed ? TapPlace{column, at.channel + skip, at.tap}
                                                    : TapPlace{at.channel + skip, at.tap, column};
  load_box<P::kWeightsShare>(destination, map, place, full, pair);
}

// load_weights() where taps are padded. A box has channels of one tap. Of a convolution in groups
// it has columns of one group, and zeros before and behind that one's channels.
template <class Config, class P>
SINTER_DEVICE void load_tap_weights(const TensorMap* map, u32 address, u32 full, int k_block,
                                    int column, u32 row, PairLoads pair) {
  constexpr int kShare = P::kWeightsShare, kSpan = Config::Element::kSwizzleSpan;
  constexpr int kPart = Config::kBlockK / kShare;      // rows along K of a block
  constexpr int kBox = kPart < kSpan ? kPart : kSpan;  // of a box
  const int part = kShare == 1 ? 0 : pair.half;
  if constexpr (Config::kWeightsTransposed) {
#pragma unroll
    for (int y = 0; y < kPart; y += kBox) {
      const int k = part * kPart + y;
      const TapChannels<Config, P> at(k_block * P::kSubtiles + k / kSpan);
#pragma unroll
      for (int s = 0; s < P::kHalf / kSpan; ++s)
        load_tap(address + ((row / kSpan + s) * Config::kBlockK + k) * kRowBytes, map, at,
                 k % kSpan, column + s * kSpan, full, pair);
    }
  } else {
#pragma unroll
    for (int s = 0; s < P::kSubtiles; ++s) {
      const TapChannels<Config, P> at(k_block * P::kSubtiles + s);
#pragma unroll
      for (int y = part * (P::kHalf / kShare), i = 0; i < P::kHalf / kShare / P::kWeightsBox; ++i) {
        load_tap(address + (s * P::kColumns + row + y) * kRowBytes, map, at,
                 -group_channel<P>(column + y), column + y, full, pair);
        y += P::kWeightsBox;
      }
    }
  }
}

// Loads the weights of K block `k_block` for the tile whose columns begin at `column`. Order in the
// stage: K-major, [subtile of K][warpgroup][matrix][column]; N-major, [warpgroup][matrix][subtile
// of columns][K]. Where a pair shares weights, a block loads its half of each box, along the
// columns or along K.
template <class Config, class P>
SINTER_DEVICE void load_weights(const ProductMaps& maps, u32 address, u32 full, int k_block,
                                int column, PairLoads pair) {
  constexpr int kShare = P::kWeightsShare, kSpan = Config::Element::kSwizzleSpan;
  const int part = kShare == 1 ? 0 : pair.half;
  const int k = k_block * Config::kBlockK;
#pragma unroll
  for (int g = 0; g < Config::kWarpgroupsN; ++g) {
#pragma unroll
    for (int w = 0; w < P::kWidth; ++w) {
      const TensorMap* map = w == 0 ? maps.weights : maps.up;
      const int x = column + g * P::kHalf;
      const u32 row = g * P::kWarpN + w * P::kHalf;
      if constexpr (P::kPadsTaps) {
        load_tap_weights<Config, P>(map, address, full, k_block, x, row, pair);
      } else if (Config::kWeightsTransposed) {
#pragma unroll
        for (int s = 0; s < P::kHalf / kSpan; ++s) {
          const int y = part * (Config::kBlockK / kShare);
          load_box<kShare>(address + ((row / kSpan + s) * Config::kBlockK + y) * kRowBytes, map,
                           x + s * kSpan, k + y, full, pair);
        }
      } else {
#pragma unroll
        for (int s = 0; s < P::kSubtiles; ++s) {
          const int y = part * (P::kHalf / kShare);
          const u32 to = address + (s * P::kColumns + row + y) * kRowBytes;
          if constexpr (P::kPermuted)
            load_box<kShare>(to, map, PermutedPlace{k + s * kSpan, (x + y) / kPermutedSet}, full,
                             pair);
          else
            load_box<kShare>(to, map, k + s * kSpan, x + y, full, pair);
        }
      }
    }
  }
}

// Streams the weights of one tile's K blocks [begin, end). With kRows, a stage has rows before the
// weights. One thread.
template <class Config, class P, bool kRows, class RingType, class CursorType>
SINTER_DEVICE void produce_weights(const RingType& ring, CursorType& cursor,
                                   const ProductMaps& maps, int column, int begin, int end,
                                   PairLoads pair = {}) {
#pragma unroll 1
  for (int k = begin; k < end; ++k, cursor.advance()) {
    mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);
    mbarrier_arrive_expect(ring.full(cursor.stage), (kRows ? P::kRowsBytes : 0) + P::kWeightBytes);
    load_weights<Config, P>(maps, ring.address(cursor.stage) + (kRows ? P::kRowsBytes : 0),
                            ring.full(cursor.stage), k, column, pair);
  }
}

// The pixel under the first tap for result row `row`, rows of all images counted through. It lies
// in the map's box for every row.
template <class Window>
SINTER_DEVICE WindowStart window_start(int row) {
  const int image = row / (Window::kPixelsY * Window::kPixelsX);
  const int y = row / Window::kPixelsX % Window::kPixelsY, x = row % Window::kPixelsX;
  return {x * Window::kStrideX - Window::kPadLeft, y * Window::kStrideY - Window::kPadTop, image};
}

// Loads subtile `subtile` along K of the rows under a window, channels from `first` on. Behind the
// last tap it loads channels behind the last one, which are zeros.
template <class Config, class P>
SINTER_DEVICE void load_window(u32 destination, const TensorMap* map, WindowStart at, int first,
                               int subtile, u32 full, PairLoads pair) {
  using W = typename P::Rows;
  const TapChannels<Config, P> of(subtile);
  int tap = of.tap, channel = first + of.channel;
  if (tap >= W::kTapsY * W::kTapsX) tap = 0, channel = W::kChannels;
  const u16 x = static_cast<u16>(tap % W::kTapsX * W::kDilationX);
  const u16 y = static_cast<u16>(tap / W::kTapsX * W::kDilationY);
  if constexpr (P::kRowsShare == 1)
    tma_load_window(destination, map, channel, at, x, y, full);
  else
    tma_load_window_shared(destination, map, channel, at, x, y, full, pair.blocks);
}

template <class Config, class P, bool kExpects, class RingType, class CursorType>
SINTER_DEVICE void produce_window(const RingType& ring, CursorType& cursor, const ProductMaps& maps,
                                  int row, int column, int begin, int end, PairLoads pair) {
  const int first = bundle_channel<P>(column);
  const int part = P::kRowsShare == 1 ? 0 : pair.half * (Config::kBlockM / P::kRowsShare);
  const WindowStart at = window_start<typename P::Rows>(row + part);
#pragma unroll 1
  for (int k = begin; k < end; ++k, cursor.advance()) {
    mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);
    if constexpr (kExpects) mbarrier_arrive_expect(ring.full(cursor.stage), P::kRowsBytes);
#pragma unroll
    for (int s = 0; s < P::kSubtiles; ++s)
      load_window<Config, P>(ring.address(cursor.stage) + (s * Config::kBlockM + part) * kRowBytes,
                             maps.rows, at, first, k * P::kSubtiles + s, ring.full(cursor.stage),
                             pair);
  }
}

// Rows that are transposed, as N-major weights: [subtile of rows][K]. A pair shares boxes along K.
template <class Config, class P, class RingType, class CursorType>
SINTER_DEVICE void produce_transposed(const RingType& ring, CursorType& cursor,
                                      const ProductMaps& maps, int row, int begin, int end,
                                      PairLoads pair) {
  constexpr int kShare = P::kRowsShare, kSpan = Config::Element::kSwizzleSpan;
  const int part = kShare == 1 ? 0 : pair.half * (Config::kBlockK / kShare);
#pragma unroll 1
  for (int k = begin; k < end; ++k, cursor.advance()) {
    mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);
#pragma unroll
    for (int s = 0; s < Config::kBlockM / kSpan; ++s)
      load_box<kShare>(ring.address(cursor.stage) + (s * Config::kBlockK + part) * kRowBytes,
                       maps.rows, row + s * kSpan, k * Config::kBlockK + part,
                       ring.full(cursor.stage), pair);
  }
}

// Streams the rows of one tile's K blocks [begin, end). One thread. `column`: the tile's first, of
// a convolution in groups. Where a pair shares them, a block loads its half of the rows. kExpects:
// a stage has rows alone, so nobody else says how many bytes it awaits.
template <class Config, class P, bool kExpects = false, class RingType, class CursorType>
SINTER_DEVICE void produce_rows(const RingType& ring, CursorType& cursor, const ProductMaps& maps,
                                int row, int begin, int end, PairLoads pair = {}, int column = 0) {
  if constexpr (P::Rows::kIsWindow) {
    produce_window<Config, P, kExpects>(ring, cursor, maps, row, column, begin, end, pair);
  } else if constexpr (P::Rows::kTransposed) {
    produce_transposed<Config, P>(ring, cursor, maps, row, begin, end, pair);
  } else {
    constexpr int kShare = P::kRowsShare, kSpan = Config::Element::kSwizzleSpan;
    const int part = kShare == 1 ? 0 : pair.half * (Config::kBlockM / kShare);
#pragma unroll 1
    for (int k = begin; k < end; ++k, cursor.advance()) {
      mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);
      if constexpr (kExpects) mbarrier_arrive_expect(ring.full(cursor.stage), P::kRowsBytes);
#pragma unroll
      for (int s = 0; s < P::kSubtiles; ++s)
        load_box<kShare>(ring.address(cursor.stage) + (s * Config::kBlockM + part) * kRowBytes,
                         maps.rows, k * Config::kBlockK + s * kSpan, row + part,
                         ring.full(cursor.stage), pair);
    }
  }
}

}  // namespace sinter
