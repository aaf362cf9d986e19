#include "tests/support/window_graphs.h"

#include "tests/support/chains.h"

namespace sinter::testing {
namespace {

Dim Extent(int64_t extent) { return extent == 0 ? Dim::M() : Dim::Constant(extent); }

// Every call is valid: a refusal is a mistake of this file.
ValueId In(ChainBuilder& b, DType dtype, const std::vector<Dim>& dims) {
  return b.Input({dtype, dims}).value();
}

ValueId Image(ChainBuilder& b, const WindowShape& shape, DType dtype) {
  return In(
      b, dtype,
      {Extent(shape.batch), Extent(shape.height), Extent(shape.width), Extent(shape.channels)});
}

ValueId Wide(ChainBuilder& b, ValueId x) {
  return b.TypeOf(x).dtype == DType::kF32 ? x : b.Cast(x, DType::kF32).value();
}

// A number of each channel, spread over `like`.
ValueId OfChannels(ChainBuilder& b, DType dtype, ValueId like) {
  const std::vector<Dim> dims = b.TypeOf(like).dims;
  return b.Broadcast(Wide(b, In(b, dtype, {dims.back()})), dims).value();
}

ValueId Filtered(ChainBuilder& b, const WindowShape& shape, ValueId x) {
  const Dim height = Extent(shape.taps[0]), width = Extent(shape.taps[1]),
            channels = Extent(shape.channels);
  const bool last = shape.moves.filter == FilterLayout::kHWIO;
  const ValueId w = In(b, b.TypeOf(x).dtype,
                       last ? std::vector<Dim>{height, width, Extent(1), channels}
                            : std::vector<Dim>{channels, height, width, Extent(1)});
  return AddConv2d(b, x, w, shape.moves, shape.channels).value();
}

Chain Ended(ChainBuilder& b, ValueId output) {
  b.Output(output).IgnoreError();
  return b.Finish().value();
}

}  // namespace

Chain DepthwiseConv(const WindowShape& shape, DType dtype, bool around) {
  ChainBuilder b;
  ValueId x = Image(b, shape, dtype);
  if (around) {
    const ValueId scaled =
        b.Binary(BinaryKind::kMul, Wide(b, x), OfChannels(b, DType::kF32, x)).value();
    const ValueId moved = b.Binary(BinaryKind::kAdd, scaled, OfChannels(b, DType::kF32, x)).value();
    x = b.Cast(b.Unary(UnaryKind::kRelu, moved).value(), dtype).value();
  }
  const ValueId y = Filtered(b, shape, x);
  const ValueId sum = b.Binary(BinaryKind::kAdd, y, OfChannels(b, dtype, y)).value();
  ValueId result = AddSilu(b, sum).value();
  if (around) {
    const ValueId residual = In(b, dtype, b.TypeOf(result).dims);
    result = b.Binary(BinaryKind::kAdd, result, Wide(b, residual)).value();
  }
  return Ended(b, b.Cast(result, dtype).value());
}

Chain Pool(const WindowShape& shape, DType dtype, Pooling pooling) {
  ChainBuilder b;
  const ValueId x = Image(b, shape, dtype);
  const ValueId y =
      pooling == Pooling::kMax
          ? AddMaxPool2d(b, x, shape.taps, shape.moves).value()
          : AddAvgPool2d(b, x, shape.taps, shape.moves, pooling == Pooling::kAverage).value();
  return Ended(b, b.TypeOf(y).dtype == dtype ? y : b.Cast(y, dtype).value());
}

Chain NormOfDepthwiseConv(const WindowShape& shape, DType dtype) {
  ChainBuilder b;
  const ValueId y = Filtered(b, shape, Image(b, shape, dtype));
  const ValueId normal = AddLayerNorm(b, y, 1e-5).value();
  b.Output(b.Cast(normal, dtype).value()).IgnoreError();
  return Ended(b, b.Reduce(ReduceKind::kMean, y, {1, 2}).value());
}

Chain WindowsTurned(const WindowShape& shape, DType dtype, double fill) {
  ChainBuilder b;
  const ValueId x = Image(b, shape, dtype);
  const ValueId outside = b.Scalar(fill, dtype).value();
  const ValueId windows = b.Window(x, outside, shape.taps, shape.moves).value();
  return Ended(b, b.Transpose(windows, {0, 5, 1, 3, 2, 4}).value());
}

Chain WindowsTimes(const WindowShape& shape, DType dtype, bool each_tap) {
  ChainBuilder b;
  const ValueId x = Image(b, shape, dtype);
  const ValueId windows =
      Wide(b, b.Window(x, b.Scalar(0, dtype).value(), shape.taps, shape.moves).value());
  const std::vector<Dim> dims = b.TypeOf(windows).dims;
  std::vector<Dim> of = dims;
  if (each_tap) {
    of[5] = Dim::Constant(1);
  } else {
    of[3] = of[4] = Dim::Constant(1);
  }
  const ValueId factors = b.Broadcast(Wide(b, In(b, dtype, of)), dims).value();
  const ValueId products = b.Binary(BinaryKind::kMul, windows, factors).value();
  const ValueId sums = b.Reduce(ReduceKind::kSum, products, {3, 4}).value();
  return Ended(b, b.Cast(sums, dtype).value());
}

std::vector<WindowGraph> WindowGraphs() {
  std::vector<WindowGraph> graphs;
  const auto add = [&](const std::string& name, Chain chain, int64_t m = 2) {
    const bool rows = chain.UsesM();
    graphs.push_back({name, std::move(chain), rows ? m : 0});
  };
  Conv2d same, by_two, odd, hwio;
  same.pads = {1, 1, 1, 1};
  hwio = same;
  hwio.filter = FilterLayout::kHWIO;
  by_two = hwio;
  by_two.strides = {2, 2};
  odd.strides = {1, 2};
  odd.dilations = {2, 1};
  odd.pads = {3, 0, 1, 2};
  const DType floats[] = {DType::kBF16, DType::kF16, DType::kF32};
  for (const DType dtype : floats) {
    const std::string of = absl::StrCat(" ", NameOf(dtype));
    for (const int64_t channels : {16, 5}) {
      const std::string what = absl::StrCat(of, " ", channels);
      add("depthwise" + what, DepthwiseConv({0, 7, 9, channels, {3, 3}, hwio}, dtype));
      add("depthwise by two" + what, DepthwiseConv({2, 7, 8, channels, {3, 3}, by_two}, dtype));
      add("max" + what, Pool({0, 7, 8, channels, {3, 3}, by_two}, dtype, Pooling::kMax));
      add("average" + what, Pool({2, 5, 7, channels, {2, 3}, same}, dtype, Pooling::kAverage));
      add("average inside" + what,
          Pool({0, 5, 7, channels, {3, 3}, by_two}, dtype, Pooling::kAverageInside));
    }
    add("depthwise around" + of, DepthwiseConv({0, 5, 8, 24, {3, 3}, hwio}, dtype, true));
    add("depthwise odd" + of, DepthwiseConv({2, 9, 6, 8, {2, 3}, odd}, dtype));
    add("depthwise of one pixel" + of, DepthwiseConv({0, 1, 1, 8, {3, 3}, same}, dtype), 3);
    add("norm of depthwise" + of, NormOfDepthwiseConv({0, 3, 4, 32, {3, 3}, hwio}, dtype));
  }
  Conv2d wide = hwio;
  wide.pads = {3, 3, 3, 3};
  add("depthwise 7x7", DepthwiseConv({1, 9, 9, 8, {7, 7}, wide}, DType::kBF16));
  wide.pads = {2, 2, 2, 2};
  wide.strides = {2, 2};
  add("depthwise 5x5 by two", DepthwiseConv({1, 9, 11, 16, {5, 5}, wide}, DType::kF16));
  // Rows of 9 results and of 8: if a thread makes several of the former at once, they end past the
  // row.
  for (const int64_t width : {9, 8}) {
    for (const bool each_tap : {true, false}) {
      add(absl::StrCat("windows times ", each_tap ? "taps" : "pixels", " ", width),
          WindowsTimes({2, 5, width, 16, {3, 3}, same}, DType::kBF16, each_tap));
    }
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kS32, DType::kPred,
                            DType::kE4M3, DType::kS8}) {
    add(absl::StrCat("windows turned ", NameOf(dtype)),
        WindowsTurned({0, 4, 5, 6, {2, 3}, same}, dtype, 1));
  }
  return graphs;
}

}  // namespace sinter::testing
