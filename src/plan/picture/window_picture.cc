#include "src/plan/picture/window_picture.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/draw/units.h"
#include "src/product/role_shape.h"

namespace sinter {
namespace {

constexpr size_t kMostSteps = 60;  // characters of the list of steps

// Steps of all taps, a row of the filter between bars: "0 1 2 | 3 4 5 | 6 7 8".
std::string StepsText(const WindowPicture& p) {
  std::string text;
  for (int64_t tap = 0; tap < p.window.taps[0] * p.window.taps[1]; tap++) {
    if (tap > 0) absl::StrAppend(&text, tap % p.window.taps[1] == 0 ? " | " : " ");
    if (text.size() > kMostSteps) return text + "..";
    absl::StrAppend(&text, p.StepsOf(tap));
  }
  return text;
}

}  // namespace

std::string WindowPicture::StepsOf(int64_t tap) const {
  const int64_t first = tap * window.StagedTap() / step_columns;
  const int64_t last = ((tap + 1) * window.StagedTap() - 1) / step_columns;
  return first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last);
}

std::optional<WindowPicture> WindowPictureOf(const KernelSpec& spec) {
  const MatrixProduct& p = spec.sequence.front();
  if (p.rows.source != Source::kWindow) return std::nullopt;
  const RoleShape stored = ShapeOf(spec.sequence, Role::kA);
  WindowPicture picture;
  picture.window = p.rows.window;
  picture.images = spec.sequence.m;
  picture.image_bytes = stored.rows * stored.RowBytes();
  picture.matrix_bytes = spec.sequence.rows() * p.k * p.rows.bytes();
  picture.step_columns = spec.schedule.block_k;
  return picture;
}

std::vector<std::string> WindowLines(const WindowPicture& p) {
  const PixelWindow& w = p.window;
  const auto by = [](const auto& sizes) { return absl::StrJoin(sizes, "x"); };
  return {absl::StrCat("A: ", by(w.taps), " taps on images of ", w.height, "x", w.width, "x",
                       w.channels, ", stride ", by(w.conv.strides), ", dilation ",
                       by(w.conv.dilations), ", padding ", absl::StrJoin(w.conv.pads, ",")),
          absl::StrCat(
              w.Pixels(0), "x", w.Pixels(1), " windows an image, ", p.images, " images of ",
              SizeText(static_cast<double>(p.image_bytes)),
              " in all; windows side by side: ", SizeText(static_cast<double>(p.matrix_bytes))),
          absl::StrCat("K steps by tap: ", StepsText(p))};
}

}  // namespace sinter
