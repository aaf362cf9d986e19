// Draws the products of a kernel: operands, tiles, hand-over; the windows of a convolution.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/format.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

constexpr double kOperands = 124, kGap = 32, kTiles = 250, kHandOver = 150;  // least widths
constexpr double kAboveTiles = 8, kTilesHeight = 150, kLabel = 58, kBetween = 8;
constexpr int64_t kMostRows = 32, kMostColumns = 64;  // tiles drawn
constexpr int kProductColours = 6;

// The cluster that takes the tile in row r and column c, and in which turn.
struct Owner {
  int64_t cluster = 0, turn = 0;
};

Owner OwnerOf(const ProductsPicture& k, const ProductPicture& p, int64_t r, int64_t c) {
  if (k.cluster_owns_rows) {
    const int64_t taken = r * k.ranges + (k.ranges > 1 ? c / k.cluster : 0);
    const int64_t clusters = std::max<int64_t>(1, k.blocks / std::max<int64_t>(1, k.cluster));
    return {taken % clusters, taken / clusters};
  }
  const int64_t blocks = int64_t{std::max(1, p.split_k)} * TilesOf(p.share);
  const int64_t groups = std::max<int64_t>(1, k.blocks / blocks);
  const int64_t columns = (p.column_tiles + TilesN(p.share) - 1) / TilesN(p.share);
  const int64_t unit = r / TilesM(p.share) * columns + c / TilesN(p.share);
  return {unit % groups * blocks / std::max<int64_t>(1, k.cluster), unit / groups};
}

// Edges grow slowly with the matrix, so that 64 and 16384 fit side by side.
double EdgeOf(int64_t extent) {
  const double doublings = std::log2(static_cast<double>(std::max<int64_t>(extent, 1)));
  return std::clamp(10 + 5.5 * (doublings - 3), 10.0, 84.0);
}

std::string SizesText(const MatrixPicture& m) { return absl::StrCat(m.rows, " x ", m.columns); }

void DrawOperand(const MatrixPicture& m, Point at, double most, Svg* svg) {
  const Box box{at.x, at.y, EdgeOf(m.columns) * 0.6, std::min(most, EdgeOf(m.rows) * 0.5)};
  svg->Rectangle(box, m.role == Role::kA ? "rows" : "weights", 2);
  svg->Text({at.x + kLabel, at.y + 10}, m.Label(), "strong");
  svg->Text({at.x + kLabel, at.y + 22}, SizesText(m), "tiny");
  svg->Text({at.x + kLabel, at.y + 32}, SizeText(static_cast<double>(m.bytes)), "tiny");
}

void DrawOperands(const ProductPicture& p, Point at, Svg* svg) {
  const double step = kTilesHeight / static_cast<double>(std::max<size_t>(3, p.operands.size()));
  double y = at.y;
  for (const MatrixPicture& m : p.operands) {
    DrawOperand(m, {at.x, y}, step - 8, svg);
    y += step;
  }
  double below = at.y + kTilesHeight + 16;
  for (absl::string_view line : absl::StrSplit(p.operands_from, ", ")) {
    const bool first = below < at.y + kTilesHeight + 17;
    svg->Text({at.x, below}, absl::StrCat(first ? "from " : "", line), "small");
    below += 14;
  }
}

void DrawTiles(const ProductsPicture& k, const ProductPicture& p, const Box& box, Svg* svg) {
  const int64_t rows = std::clamp<int64_t>(p.row_tiles, 1, kMostRows);
  const int64_t columns = std::clamp<int64_t>(p.column_tiles, 1, kMostColumns);
  const double w = box.width / static_cast<double>(columns);
  const double h = box.height / static_cast<double>(rows);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < columns; c++) {
      const Owner owner = OwnerOf(k, p, r, c);
      svg->Rectangle(
          {box.x + static_cast<double>(c) * w, box.y + static_cast<double>(r) * h, w, h},
          absl::StrCat("tile c", owner.cluster % kProductColours, owner.turn > 0 ? " later" : ""));
    }
  }
}

std::string TileText(const ProductPicture& p) {
  return absl::StrCat("tile ", p.tile_rows, " x ", p.tile_columns,
                      p.width == 2 ? " (gate and up)" : "", ", ", p.row_tiles, " x ",
                      p.column_tiles, " tiles");
}

std::string WorkText(const ProductPicture& p) {
  std::string text = p.SplitText();
  if (p.share != Share::kNone) absl::StrAppend(&text, "; 2 blocks share the ", NameOf(p.share));
  if (p.turns > 1)
    absl::StrAppend(&text, "; up to ", p.turns, " tiles a ", p.split_k > 1 ? "group" : "block");
  return text;
}

// Of the operands of a product with their labels.
double OperandsWidth(const ProductPicture& p) {
  double width = kOperands;
  for (const MatrixPicture& m : p.operands) {
    width = std::max(width, kLabel + TextWidth(m.Label(), "strong"));
  }
  return width;
}

double DrawProduct(const ProductsPicture& k, const ProductPicture& p, Point at, Svg* svg) {
  DrawOperands(p, {at.x, at.y + kAboveTiles}, svg);
  const Box tiles{at.x + OperandsWidth(p) + kGap, at.y + kAboveTiles, kTiles, kTilesHeight};
  svg->Arrow({tiles.x - kGap + 4, tiles.MiddleY()}, {tiles.x - 4, tiles.MiddleY()}, "hbm");
  DrawTiles(k, p, tiles, svg);
  const bool cut = p.row_tiles > kMostRows || p.column_tiles > kMostColumns;
  double y = tiles.Bottom() + 5;
  y += DrawLines(
      absl::StrCat(p.result.Argument(), "  ", SizesText(p.result), cut ? " (first tiles)" : ""),
      {tiles.x, y}, "strong", svg);
  for (const std::string& text : {TileText(p), WorkText(p)}) {
    y += DrawLines(text, {tiles.x, y}, "small", svg, kTiles + kHandOver - kGap);
  }
  return y - at.y;
}

std::string HandOverTitle(const HandOver& h) {
  return absl::StrCat("c through ", NameOf(h.medium));
}

// The width that the hand-over's texts need.
double HandOverWidth(const HandOver& h) {
  double width = std::max(kHandOver, TextWidth(HandOverTitle(h), "strong") + kBetween);
  for (const std::string& line : h.lines) {
    width = std::max(width, TextWidth(line, "small") + kBetween);
  }
  return width;
}

void DrawHandOver(const HandOver& h, Point at, Svg* svg) {
  const double width = HandOverWidth(h);
  const double y = at.y + kAboveTiles + kTilesHeight / 2, middle = at.x + width / 2;
  const absl::string_view style = StyleOf(h.medium);
  svg->Line({at.x + 12, y}, {at.x + width - 22, y}, absl::StrCat("thick ", style));
  svg->Arrow({at.x + width - 24, y}, {at.x + width - 12, y}, style);
  svg->Text({middle, y - 12}, HandOverTitle(h), "strong", Anchor::kMiddle);
  double below = y + 20;
  for (const std::string& line : h.lines) {
    svg->Text({middle, below}, line, "small", Anchor::kMiddle);
    below += 14;
  }
}

// ---- The windows of a convolution: an image with the first two, and which steps of K load which
// tap

constexpr double kImage = 110, kImageTop = 22, kCellWidth = 44, kCellHeight = 16, kLabels = 240;
constexpr double kBelow = 14, kImageGap = 24;
constexpr int64_t kMostTaps = 7;    // of an axis, drawn with their steps
constexpr int64_t kMostDrawn = 16;  // of an axis, drawn in the image

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
  const int64_t rows = std::min(w.taps[0], kMostTaps), columns = std::min(w.taps[1], kMostTaps);
  double width = kCellWidth;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t s = 0; s < columns; s++) {
      width = std::max(width, TextWidth(p.StepsOf(r * w.taps[1] + s), "tiny") + kBetween);
    }
  }
  svg->Text({at.x, at.y - 6}, "K steps by tap", "small");
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t s = 0; s < columns; s++) {
      const Box cell{at.x + width * AsDouble(s), at.y + kCellHeight * AsDouble(r), width,
                     kCellHeight};
      svg->Rectangle(cell, "tile c1");
      svg->Text({cell.MiddleX(), cell.MiddleY() + 3.5}, p.StepsOf(r * w.taps[1] + s), "tiny",
                Anchor::kMiddle);
    }
  }
}

}  // namespace

absl::string_view StyleOf(Medium medium) {
  switch (medium) {
    case Medium::kDsm:
      return "dsm";
    case Medium::kL2:
      return "l2";
    case Medium::kRegister:
    case Medium::kShared:
      return "onchip";
    case Medium::kNone:
      break;
  }
  return "hbm";
}

double DrawProducts(const ProductsPicture& picture, Point at, Svg* svg) {
  double x = at.x, top = at.y, height = 0;
  for (const ProductPicture& p : picture.products) {
    top += DrawLines(p.formula, {at.x, top}, "strong", svg);
  }
  for (size_t i = 0; i < picture.products.size(); i++) {
    if (i > 0) {
      DrawHandOver(picture.hand_overs[i - 1], {x, top}, svg);
      x += HandOverWidth(picture.hand_overs[i - 1]);
    }
    const ProductPicture& p = picture.products[i];
    height = std::max(height, DrawProduct(picture, p, {x, top}, svg));
    x += OperandsWidth(p) + kGap + kTiles;
  }
  const double y = top + kAboveTiles + kTilesHeight / 2;
  svg->Arrow({x + 8, y}, {x + 44, y}, picture.result_to == "L2" ? "l2" : "hbm");
  svg->Text({x + 26, y - 8}, picture.result_to, "strong", Anchor::kMiddle);
  return top + height + 12 - at.y;
}

double DrawWindows(const ProductsPicture& picture, Point at, Svg* svg) {
  if (!picture.window.has_value()) return 0;
  double y = at.y + 12;
  for (const std::string& line : picture.window->Lines()) {
    svg->Text({at.x, y}, line, "small");
    y += kBelow;
  }
  const Point top{at.x, y + kImageTop - 12};
  const double right = DrawImage(picture.window->window, top, svg);
  DrawTaps(*picture.window, {std::max(right + kImageGap, at.x + kLabels), top.y}, svg);
  return top.y + std::max(kImage, kCellHeight * AsDouble(kMostTaps)) + kImageGap - at.y;
}

}  // namespace sinter
