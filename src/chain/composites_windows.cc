// Ops that read windows of pixels: depthwise convolutions, pooling.
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/chain/composites.h"
#include "src/chain/expander.h"

namespace sinter {
namespace {

constexpr int kHeightAxis = 1, kWidthAxis = 2, kChannelAxis = 3;
const std::vector<int32_t> kTapAxes = {3, 4};  // of a window's result

class WindowExpander : public Expander {
 public:
  using Expander::Expander;

  // Adds the window after its operands have been checked, under the composite's own name. `of`:
  // what errors say the taps are those of.
  ValueId Window(ValueId x, double fill, const std::array<int64_t, 2>& taps, const Conv2d& conv,
                 absl::string_view of = "the window") {
    if (!ok()) return -1;
    const ValueId outside = Take(builder().Scalar(fill, Type(x).dtype));
    if (!ok()) return -1;
    const absl::StatusOr<TensorType> type = InferWindow(Type(x), Type(outside), taps, conv, of);
    if (!type.ok()) Fail(type.status());
    return ok() ? Take(builder().Window(x, outside, taps, conv)) : -1;
  }
  ValueId OverTaps(ReduceKind kind, ValueId window) {
    return ok() ? Take(builder().Reduce(kind, window, kTapAxes)) : -1;
  }

  // The filter, a number of each channel for each tap, as f32 [height, width, channels].
  ValueId Filter(ValueId w, const Conv2d& conv) {
    if (!ok()) return -1;
    const std::vector<Dim> dims = Type(w).dims;
    const auto at = [&](int axis) { return dims[static_cast<size_t>(axis)]; };
    const Dim height = at(conv.height_axis()), width = at(conv.height_axis() + 1);
    const Dim channels = at(conv.out_axis());
    const bool last = conv.filter == FilterLayout::kHWIO;
    ValueId v = Reshape(w, last ? std::vector<Dim>{height, width, channels}
                                : std::vector<Dim>{channels, height, width});
    if (!last && ok()) v = Take(builder().Transpose(v, {1, 2, 0}));
    return Widen(v);
  }

  // Each window has a pixel, and s32 counts them all.
  void CheckInside(const TensorType& x, const std::array<int64_t, 2>& taps, const Conv2d& conv) {
    constexpr const char* kSides[] = {"top", "bottom", "left", "right"};
    constexpr const char* kAxes[] = {"height", "width"};
    constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max();
    for (size_t side = 0; side < 4; ++side) {
      const size_t axis = side / 2;
      if (conv.pads[side] < taps[axis]) continue;
      Fail(InvalidField(absl::StrCat("pad ", kSides[side]), conv.pads[side],
                        absl::StrCat("below the ", kAxes[axis], " of the window, ", taps[axis]),
                        ": a window of pads alone has no mean; pads may be counted"));
    }
    for (size_t axis = 0; axis < 2; ++axis) {
      const int64_t padded =
          x.dims[kHeightAxis + axis].value + conv.pads[2 * axis] + conv.pads[2 * axis + 1];
      if (padded <= kMostPixels) continue;
      Fail(InvalidField(absl::StrCat(kAxes[axis], " of x with its padding"), padded,
                        absl::StrCat("at most ", kMostPixels),
                        ": the pixels inside are counted in s32; pads may be counted"));
    }
  }

  // How many of the taps of each result pixel lie inside the image, f32 [p, q, 1].
  ValueId TapsInside(const TensorType& x, const TensorType& result,
                     const std::array<int64_t, 2>& taps, const Conv2d& conv) {
    const Dim p = result.dims[kHeightAxis], q = result.dims[kWidthAxis];
    const ValueId rows =
                      InsideOf(x.dims[kHeightAxis].value, {p, q, Dim::Constant(1)}, 0, taps, conv),
                  columns =
                      InsideOf(x.dims[kWidthAxis].value, {p, q, Dim::Constant(1)}, 1, taps, conv);
    return Mul(rows, columns);
  }

 private:
  // min(i stride + taps, pixels + low) - max(i stride, low), i the place along `axis`.
  ValueId InsideOf(int64_t pixels, const std::vector<Dim>& dims, int axis,
                   const std::array<int64_t, 2>& taps, const Conv2d& conv) {
    if (!ok()) return -1;
    const int64_t low = conv.pads[static_cast<size_t>(2 * axis)];
    const auto number = [&](int64_t v) {
      return ok() ? Take(builder().Scalar(static_cast<double>(v), DType::kS32)) : -1;
    };
    const ValueId i = Take(builder().Iota(dims, axis, DType::kS32));
    const ValueId first = Mul(i, number(conv.strides[static_cast<size_t>(axis)]));
    const ValueId behind = Add(first, number(taps[static_cast<size_t>(axis)]));
    const ValueId end = Binary(BinaryKind::kMin, behind, number(pixels + low));
    return Widen(Sub(end, Binary(BinaryKind::kMax, first, number(low))));
  }
};

absl::StatusOr<ValueId> AddDepthwise(ChainBuilder& b, ValueId x, ValueId w, const Conv2d& conv) {
  WindowExpander e(b, "conv2d");
  if (!e.CheckFloat("x", x) || !e.CheckFloat("w", w)) return e.Finish(-1);
  if (!IsValid(conv.filter)) {
    e.Fail(InvalidField("filter", static_cast<int32_t>(conv.filter), "OHWI or HWIO"));
    return e.Finish(-1);
  }
  const TensorType filter = e.Type(w);
  const auto at = [](int axis) { return static_cast<size_t>(axis); };
  if (filter.dims[at(conv.height_axis())].symbolic ||
      filter.dims[at(conv.height_axis() + 1)].symbolic) {
    e.Fail(InvalidField("height or width of w", "M", "constant"));
  }
  if (!e.ok()) return e.Finish(-1);
  const std::array<int64_t, 2> taps{filter.dims[at(conv.height_axis())].value,
                                    filter.dims[at(conv.height_axis() + 1)].value};
  const ValueId window = e.Widen(e.Window(x, 0, taps, conv, "w"));
  const ValueId factors = e.ok() ? e.Spread(e.Filter(w, conv), window) : -1;
  return e.Finish(e.OverTaps(ReduceKind::kSum, e.Mul(window, factors)));
}

}  // namespace

absl::StatusOr<ValueId> AddConv2d(ChainBuilder& b, ValueId x, ValueId w, const Conv2d& conv,
                                  int64_t groups) {
  const auto has = [&](ValueId id, int axis, int64_t extent) {
    return b.Contains(id) && b.TypeOf(id).rank() == 4 &&
           b.TypeOf(id).dims[static_cast<size_t>(axis)] == Dim::Constant(extent);
  };
  if (groups > 1 && has(x, kChannelAxis, groups) && has(w, conv.out_axis(), groups) &&
      has(w, conv.in_axis(), 1)) {
    return AddDepthwise(b, x, w, conv);
  }
  Conv2d grouped = conv;
  grouped.groups = groups;
  return b.Convolve(x, w, grouped);
}

absl::StatusOr<ValueId> AddMaxPool2d(ChainBuilder& b, ValueId x, const std::array<int64_t, 2>& taps,
                                     const Conv2d& conv) {
  WindowExpander e(b, "max_pool2d");
  if (!e.CheckFloat("x", x)) return e.Finish(-1);
  const double least = -std::numeric_limits<double>::infinity();
  return e.Finish(e.OverTaps(ReduceKind::kMax, e.Window(x, least, taps, conv)));
}

absl::StatusOr<ValueId> AddAvgPool2d(ChainBuilder& b, ValueId x, const std::array<int64_t, 2>& taps,
                                     const Conv2d& conv, bool count_pads) {
  WindowExpander e(b, "avg_pool2d");
  if (!e.CheckFloat("x", x)) return e.Finish(-1);
  for (size_t axis = 0; axis < 2; ++axis) {
    if (conv.dilations[axis] == 1) continue;
    e.Fail(InvalidField(absl::StrCat("dilation ", axis), conv.dilations[axis], "1",
                        ": a mean takes neighbouring pixels"));
  }
  const ValueId window = e.Widen(e.Window(x, 0, taps, conv));
  if (count_pads || conv.pads == Conv2d().pads) {
    return e.Finish(e.OverTaps(ReduceKind::kMean, window));
  }
  if (e.ok()) e.CheckInside(e.Type(x), taps, conv);
  const ValueId sum = e.OverTaps(ReduceKind::kSum, window);
  if (!e.ok()) return e.Finish(-1);
  const TensorType image = e.Type(x), result = e.Type(sum);  // adds move what Type refers to
  const ValueId count = e.TapsInside(image, result, taps, conv);
  return e.Finish(e.Binary(BinaryKind::kDiv, sum, e.Spread(count, sum)));
}

}  // namespace sinter
