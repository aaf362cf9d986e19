// Draws the window of a convolution: an image with the first two windows, and which steps of K load
// which tap.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/explain/svg_parts.h"

namespace sinter {
namespace {

constexpr double kImage = 110, kTop = 22, kCellWidth = 44, kCellHeight = 16, kLabels = 240;
constexpr double kBelow = 14, kGap = 24;
constexpr int64_t kMostTaps = 7;    // of an axis, drawn with their steps
constexpr int64_t kMostDrawn = 16;  // of an axis, drawn in the image

double AsDouble(int64_t value) { return static_cast<double>(value); }

// Where a pixel of the padded image is drawn.
struct PixelGrid {
  Point at;
  double pixel;  // edge
  const PixelWindow& window;
  Box PixelAt(int64_t y, int64_t x) const {
    return {at.x + pixel * AsDouble(x), at.y + pixel * AsDouble(y), pixel, pixel};
  }
};

void DrawWindow(const PixelGrid& grid, int64_t left, absl::string_view style, Svg* svg) {
  const PixelWindow& w = grid.window;
  for (int64_t r = 0; r < std::min(w.taps[0], kMostDrawn); r++) {
    for (int64_t s = 0; s < std::min(w.taps[1], kMostDrawn); s++) {
      svg->Rectangle(grid.PixelAt(r * w.conv.dilations[0], left + s * w.conv.dilations[1]), style);
    }
  }
}

// The image to scale, its padding dashed around it. Returns the drawing's right end.
double DrawImage(const PixelWindow& w, Point at, Svg* svg) {
  const int64_t height = w.height + w.conv.pads[0] + w.conv.pads[1];
  const int64_t width = w.width + w.conv.pads[2] + w.conv.pads[3];
  const double pixel = kImage / AsDouble(std::max(height, width));
  const PixelGrid grid{at, pixel, w};
  const Box first = grid.PixelAt(w.conv.pads[0], w.conv.pads[2]);
  svg->Rectangle({first.x, first.y, pixel * AsDouble(w.width), pixel * AsDouble(w.height)}, "rows");
  if (w.Pixels(1) > 1) DrawWindow(grid, w.conv.strides[1], "tile c0 later", svg);
  DrawWindow(grid, 0, "tile c1 later", svg);
  svg->Rectangle({at.x, at.y, pixel * AsDouble(width), pixel * AsDouble(height)}, "cluster");
  return at.x + pixel * AsDouble(width);
}

void DrawTaps(const WindowPicture& p, Point at, Svg* svg) {
  const PixelWindow& w = p.window;
  svg->Text({at.x, at.y - 6}, "K steps by tap", "small");
  for (int64_t r = 0; r < std::min(w.taps[0], kMostTaps); r++) {
    for (int64_t s = 0; s < std::min(w.taps[1], kMostTaps); s++) {
      const Box cell{at.x + kCellWidth * AsDouble(s), at.y + kCellHeight * AsDouble(r), kCellWidth,
                     kCellHeight};
      svg->Rectangle(cell, "tile c1");
      svg->Text({cell.MiddleX(), cell.MiddleY() + 3.5}, p.StepsOf(r * w.taps[1] + s), "tiny",
                Anchor::kMiddle);
    }
  }
}

}  // namespace

double DrawWindows(const ProductsPicture& picture, Point at, Svg* svg) {
  if (!picture.window.has_value()) return 0;
  double y = at.y + 12;
  for (const std::string& line : picture.window->Lines()) {
    svg->Text({at.x, y}, line, "small");
    y += kBelow;
  }
  const Point top{at.x, y + kTop - 12};
  const double right = DrawImage(picture.window->window, top, svg);
  DrawTaps(*picture.window, {std::max(right + kGap, at.x + kLabels), top.y}, svg);
  return top.y + std::max(kImage, kCellHeight * AsDouble(kMostTaps)) + kGap - at.y;
}

}  // namespace sinter
