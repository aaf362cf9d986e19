// Filters over images, as the plan, the device library and the definition of a convolution have
// them.
#pragma once

#include "src/product/code/kernel_source.h"
#include "tests/support/sequences.h"
#include "tests/unit/device/tile_runs.h"

namespace sinter {

// A pair of numbers, one per axis or one per side of an axis: pads before and after.
template <int kFirst, int kSecond>
struct Two {
  static constexpr int kY = kFirst, kX = kSecond;
  static constexpr int kBefore = kFirst, kBehind = kSecond;
};

constexpr int result_pixels(int pixels, int pad, int taps, int dilation, int stride) {
  return (pixels + pad - dilation * (taps - 1) - 1) / stride + 1;
}

template <int kImages_, class Size, int kChannels, class Extent, class PadsY = Two<0, 0>,
          class PadsX = Two<0, 0>, class Strides = Two<1, 1>, class Dilations = Two<1, 1>,
          int kGroups_ = 1>
struct Filter {
  static constexpr int kImages = kImages_, kGroups = kGroups_;
  static constexpr int kGroupChannels = kChannels / kGroups;
  static constexpr int kBundle =
      kGroups == 1 || kGroupChannels >= 64
          ? 1
          : (kGroups * kGroupChannels <= 64 ? kGroups : 64 / kGroupChannels);
  static constexpr int kPixelsY = result_pixels(Size::kY, PadsY::kBefore + PadsY::kBehind,
                                                Extent::kY, Dilations::kY, Strides::kY);
  static constexpr int kPixelsX = result_pixels(Size::kX, PadsX::kBefore + PadsX::kBehind,
                                                Extent::kX, Dilations::kX, Strides::kX);
  static constexpr int kRows = kImages * kPixelsY * kPixelsX;
  static constexpr int kColumns = Extent::kY * Extent::kX * kGroupChannels;
  static constexpr int kTap = round_up(kBundle * kGroupChannels, 64),
                       kStaged = Extent::kY * Extent::kX * kTap;
  using Rows =
      Window<kChannels, kPixelsY, kPixelsX, Extent::kY, Extent::kX, Strides::kY, Strides::kX,
             Dilations::kY, Dilations::kX, PadsY::kBefore, PadsX::kBefore, kGroups, kBundle>;

  static PixelWindow window() {
    PixelWindow w;
    w.height = Size::kY, w.width = Size::kX, w.channels = kChannels;
    w.taps = {Extent::kY, Extent::kX};
    w.conv.strides = {Strides::kY, Strides::kX};
    w.conv.dilations = {Dilations::kY, Dilations::kX};
    w.conv.pads = {PadsY::kBefore, PadsY::kBehind, PadsX::kBefore, PadsX::kBehind};
    w.conv.groups = kGroups;
    return w;
  }
};

// As generated source spells the window.
template <class W>
std::string WindowText() {
  std::vector<int> arguments = {W::kChannels,  W::kPixelsY, W::kPixelsX, W::kTapsY,
                                W::kTapsX,     W::kStrideY, W::kStrideX, W::kDilationY,
                                W::kDilationX, W::kPadTop,  W::kPadLeft};
  if (W::kGroups > 1) arguments.insert(arguments.end(), {W::kGroups, W::kBundle});
  return absl::StrCat("Window<", absl::StrJoin(arguments, ", "), ">");
}

// The code of a product of First over the filter's windows.
template <class Config, class F>
ProductCode CodeOf() {
  using First = typename Config::First;
  ProductCode code{.sequence = MakeSequence(F::kImages, MakeProduct(First::kN, F::kColumns))};
  code.sequence.rows_per_m = F::kPixelsY * F::kPixelsX;
  Operand& rows = code.sequence[0].rows;
  rows.source = Source::kWindow;
  rows.window = F::window();
  SetLayout(&code.sequence, Config::kWeightsTransposed ? Layout::kIO : Layout::kOI);
  Schedule& s = code.schedule;
  s.dataflow = Dataflow::kProduct;
  s.block_m = Config::kBlockM;
  s.block_k = Config::kBlockK;
  s.stages = Config::kStages;
  s.warpgroups_m = Config::kWarpgroupsM;
  s.warpgroups_n = Config::kWarpgroupsN;
  s.cluster = Config::kCluster;
  s.swapped = Config::kSwapped;
  s.share = First::kRowsShare == 2      ? Share::kRows
            : First::kWeightsShare == 2 ? Share::kWeights
                                        : Share::kNone;
  s.first = {First::kBlockN, First::kSplitK};
  return code;
}

// The launch recipe of that product, of as many images as the filter has.
template <class Config, class F>
LaunchRecipe RecipeOf() {
  const ProductCode code = CodeOf<Config, F>();
  const auto source = ProductSource(code);
  EXPECT_TRUE(source.ok() && source->find(WindowText<typename F::Rows>()) != std::string::npos)
      << WindowText<typename F::Rows>() << " is not in\n"
      << source.value_or("");
  ProductBinding binding;
  const PixelWindow w = F::window();
  binding.operands = {
      {Role::kA, 0, 0, w.channels},
      {Role::kW, 1, 0, code.sequence.layout() == Layout::kIO ? code.sequence[0].n : F::kColumns},
      {Role::kOut, 2, 0, code.sequence[0].n}};
  binding.rows = F::kRows;
  binding.rows_per_m = code.sequence.rows_per_m;
  const auto recipe = ProductRecipe(code, binding);
  EXPECT_TRUE(recipe.ok()) << recipe.status();
  return recipe.value_or(LaunchRecipe());
}

// Images under the recipe's map.
inline hardware::Images ImagesUnder(const TensorMapTemplate& map, int count, uint32_t seed) {
  hardware::Images images;
  images.count = count;
  images.channels = static_cast<int>(map.dims[0].value);
  images.width = static_cast<int>(map.dims[1].value);
  images.height = static_cast<int>(map.dims[2].value);
  images.box_pixels = static_cast<int>(map.box[1]);
  for (int i = 0; i < 2; ++i) {
    images.lower[i] = map.walk->lower[i];
    images.upper[i] = map.walk->upper[i];
    images.strides[i] = static_cast<int>(map.walk->strides[i]);
  }
  images.data = TestMatrix(count * images.height * images.width, images.channels, seed).data;
  return images;
}

// Filters under the recipe's map.
inline Taps TapsUnder(const TensorMapTemplate& map, uint32_t seed) {
  Taps taps;
  for (int i = 0; i < 3; ++i) {
    taps.extents[i] = static_cast<int>(map.dims[static_cast<size_t>(i)].value);
    taps.box[i] = static_cast<int>(map.box[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(map.stride_bytes[0], 2 * map.dims[0].value);
  EXPECT_EQ(map.stride_bytes[1], 2 * map.dims[0].value * map.dims[1].value);
  taps.data = TestMatrix(taps.extents[2] * taps.extents[1], taps.extents[0], seed).data;
  return taps;
}

// The filters as the GEMM reads them: zeros after each tap's channels, or around the channels of a
// group.
template <class Config, class F>
hardware::Matrix StagedFilters(const Taps& taps) {
  constexpr int kN = Config::First::kN;
  hardware::Matrix m;
  const bool io = Config::kWeightsTransposed;
  m.rows = io ? F::kStaged : kN, m.columns = io ? kN : F::kStaged;
  for (int i = 0; i < m.rows * m.columns; ++i) {
    const int k = io ? i / kN : i % F::kStaged, n = io ? i % kN : i / F::kStaged;
    const int group = n / (kN / F::kGroups) % F::kBundle;
    const int tap = k / F::kTap, channel = k % F::kTap - group * F::kGroupChannels;
    m.data.push_back(io ? taps.At(n, channel, tap) : taps.At(channel, tap, n));
  }
  return m;
}

// The matrix that a convolution multiplies: for each result pixel the pixels under its taps, side
// by side, with zeros after each tap's channels. `first`: the first channel of a tile.
template <class F>
hardware::Matrix RowsOf(const hardware::Images& images, int first = 0) {
  using W = typename F::Rows;
  hardware::Matrix rows;
  rows.rows = F::kRows, rows.columns = F::kStaged;
  for (int n = 0; n < F::kImages; ++n)
    for (int p = 0; p < F::kPixelsY; ++p)
      for (int q = 0; q < F::kPixelsX; ++q)
        for (int r = 0; r < W::kTapsY; ++r)
          for (int s = 0; s < W::kTapsX; ++s)
            for (int c = 0; c < F::kTap; ++c)
              rows.data.push_back(images.At(n, p * W::kStrideY + r * W::kDilationY - W::kPadTop,
                                            q * W::kStrideX + s * W::kDilationX - W::kPadLeft,
                                            first + c));
  return rows;
}

// The operands of First over the filter's images.
template <class Config, class F>
Operands<Config, typename Config::First> OperandsOf(uint32_t seed) {
  const LaunchRecipe recipe = RecipeOf<Config, F>();
  hardware::Images images = ImagesUnder(recipe.tensor_maps[0], F::kImages, seed);
  hardware::Matrix rows = RowsOf<F>(images);
  if constexpr (F::kTap == F::Rows::kChannels && F::kGroups == 1) {
    return {std::move(rows), std::move(images), seed + 1};
  } else {
    Taps taps = TapsUnder(recipe.tensor_maps[1], seed + 1);
    hardware::Matrix filters = StagedFilters<Config, F>(taps);
    return {std::move(rows), std::move(images), std::move(filters), std::move(taps)};
  }
}

// Filters that the tests share.
using Same3 = Filter<3, Two<7, 5>, 64, Two<3, 3>, Two<1, 1>, Two<1, 1>>;
using Bare3 = Filter<2, Two<6, 9>, 64, Two<3, 3>>;
using Strided7 = Filter<2, Two<11, 13>, 64, Two<7, 7>, Two<3, 3>, Two<3, 3>, Two<2, 2>>;
using Dilated = Filter<2, Two<12, 9>, 64, Two<3, 3>, Two<1, 1>, Two<3, 3>, Two<2, 1>, Two<1, 3>>;
using Uneven = Filter<3, Two<6, 5>, 128, Two<2, 3>, Two<0, 1>, Two<2, 0>, Two<1, 3>>;
using Column = Filter<2, Two<9, 4>, 64, Two<1, 3>, Two<0, 0>, Two<1, 1>>;
using Outside = Filter<2, Two<3, 4>, 64, Two<2, 2>, Two<3, 0>, Two<0, 3>>;
using Halved = Filter<2, Two<8, 7>, 128, Two<1, 1>, Two<0, 0>, Two<0, 0>, Two<2, 2>>;
using OnePixel = Filter<3, Two<1, 1>, 64, Two<3, 3>, Two<1, 1>, Two<1, 1>>;
using Whole = Filter<3, Two<4, 3>, 64, Two<4, 3>>;

// Channels that end inside a subtile.
using Eight = Filter<2, Two<7, 6>, 8, Two<3, 3>, Two<1, 1>, Two<1, 1>>;
using Stem = Filter<2, Two<9, 11>, 8, Two<7, 7>, Two<3, 3>, Two<3, 3>, Two<2, 2>>;
using TwentyFour = Filter<2, Two<6, 7>, 24, Two<3, 2>, Two<1, 1>, Two<0, 1>, Two<1, 2>>;
using Forty = Filter<3, Two<5, 7>, 40, Two<3, 3>, Two<1, 1>, Two<1, 1>, Two<1, 1>, Two<2, 1>>;
using SeventyTwo = Filter<2, Two<6, 5>, 72, Two<3, 3>, Two<1, 1>, Two<1, 1>>;
using ManyChannels = Filter<2, Two<5, 6>, 136, Two<2, 3>, Two<0, 1>, Two<1, 1>>;

// In groups: of 8 channels, of 24, of which the last has no neighbour, of 48 in a line, of more
// than a subtile.
using GroupsOf8 =
    Filter<2, Two<7, 6>, 128, Two<3, 3>, Two<1, 1>, Two<1, 1>, Two<1, 1>, Two<1, 1>, 16>;
using GroupsOf24 =
    Filter<2, Two<6, 7>, 72, Two<3, 2>, Two<1, 1>, Two<0, 1>, Two<1, 2>, Two<1, 1>, 3>;
using GroupsOf48 =
    Filter<2, Two<1, 19>, 192, Two<1, 8>, Two<0, 0>, Two<4, 4>, Two<1, 1>, Two<1, 1>, 4>;
using GroupsOf112 =
    Filter<1, Two<5, 6>, 224, Two<3, 3>, Two<1, 1>, Two<1, 1>, Two<2, 2>, Two<1, 1>, 2>;

}  // namespace sinter
