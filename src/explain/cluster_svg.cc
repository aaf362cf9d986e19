// Draws one cluster of a kernel with its exchanges, and the whole launch.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

constexpr double kHead = 18, kLane = 58, kBlockGap = 6;
constexpr double kMemoryTop = 44, kBelowMemory = 12;
constexpr int64_t kMostBlocks = 16;    // of a cluster
constexpr int64_t kMostSquares = 528;  // blocks of a launch
constexpr int kColours = 6;

// Blocks of one cluster, side by side below the exchanges.
std::vector<Box> BlockBoxes(const ProductsPicture& k, Point at) {
  const int64_t count = std::clamp<int64_t>(k.cluster, 1, kMostBlocks);
  const double width =
      std::min(kWidestBlock, (kDrawingWidth - kBlockGap * AsDouble(count - 1)) / AsDouble(count));
  std::vector<Box> boxes;
  for (int64_t i = 0; i < count; i++) {
    boxes.push_back({at.x + AsDouble(i) * (width + kBlockGap), at.y, width, kBlockHeight});
  }
  return boxes;
}

// Whether `text` with the same space left and right of it stays inside a box.
bool Fits(absl::string_view text, absl::string_view style, const Box& box) {
  return TextWidth(text, style) + 2 * kInset <= box.width;
}

void DrawWarpgroups(const std::array<int, 2>& warpgroups, const Box& box, Svg* svg) {
  const double size = 14;
  for (int m = 0; m < warpgroups[0]; m++) {
    for (int n = 0; n < warpgroups[1]; n++) {
      svg->Rectangle(
          {box.x + kInset + n * (size + 2), box.y + 22 + m * (size / 2 + 1), size, size / 2},
          "warpgroup", 1);
    }
  }
}

// Where there is room: its colour says its name too.
void LabelPart(const SharedPart& part, const Box& box, Svg* svg) {
  const std::string label = absl::StrCat(part.name, " ", SizeText(AsDouble(part.bytes)));
  if (box.height < 11 || !Fits(label, "tiny", box)) return;
  svg->Text({box.x + 5, box.MiddleY() + 3.5}, label, "tiny");
}

// From top to bottom, to scale.
void DrawMemory(const std::vector<SharedPart>& parts, const Box& block, Svg* svg) {
  int64_t bytes = 0;
  for (const SharedPart& part : parts) bytes += part.bytes * part.count;
  double y = block.y + kMemoryTop;
  const double scale = (block.Bottom() - kBelowMemory - y) / std::max(1.0, AsDouble(bytes));
  for (const SharedPart& part : parts) {
    for (int64_t i = 0; i < part.count; i++) {
      const Box box{block.x + kInset, y, block.width - 2 * kInset, AsDouble(part.bytes) * scale};
      svg->Rectangle(box, part.name);
      LabelPart(part, box, svg);
      y += box.height;
    }
  }
}

Point TopOf(const Box& block) { return {block.MiddleX(), block.y}; }

// Every rank sends to every other one: drawn from the first rank to all, and back from its
// neighbour.
void DrawShuffle(const std::vector<Box>& blocks, absl::string_view style, Svg* svg) {
  for (size_t i = 1; i < blocks.size(); i++) {
    const double lift =
        18 + 34 * AsDouble(static_cast<int64_t>(i)) / AsDouble(static_cast<int64_t>(blocks.size()));
    svg->Arc(TopOf(blocks[0]), TopOf(blocks[i]), lift, style);
  }
  if (blocks.size() > 1)
    svg->Arc(TopOf(blocks[1]), {TopOf(blocks[0]).x + 6, blocks[0].y}, 12, style);
}

// Groups of `split` neighbours that add the parts of one tile.
void DrawParts(const std::vector<Box>& blocks, size_t split, Svg* svg) {
  for (size_t first = 0; split > 1 && first + split <= blocks.size(); first += split) {
    for (size_t i = 1; i < split; i++) {
      svg->Arc({TopOf(blocks[first + i]).x + 3, blocks[0].y},
               {TopOf(blocks[first]).x + 3, blocks[0].y},
               14 + 4 * AsDouble(static_cast<int64_t>(i)), "dsm");
    }
  }
}

// Every block stores C to L2, and blocks load the C that they need.
void DrawThroughL2(const HandOver& h, const std::vector<Box>& blocks, Point at, Svg* svg) {
  std::string text = "L2: c";
  for (const std::string& line : h.lines) absl::StrAppend(&text, ", ", line);
  const double width = std::max(blocks.back().Right() - at.x, TextWidth(text, "small") + 16);
  const Box bar{at.x, at.y, width, 20};
  svg->Rectangle(bar, "l2bar", 4);
  svg->Text({bar.x + 8, bar.y + 14}, text, "small");
  for (const Box& block : blocks) {
    svg->Arrow({block.MiddleX() - 8, block.y}, {block.MiddleX() - 8, bar.Bottom()}, "l2");
    svg->Arrow({block.MiddleX() + 8, bar.Bottom()}, {block.MiddleX() + 8, block.y}, "l2");
  }
}

void DrawExchanges(const ProductsPicture& k, const std::vector<Box>& blocks, Point at, Svg* svg) {
  for (const HandOver& h : k.hand_overs) {
    if (h.medium == Medium::kL2) DrawThroughL2(h, blocks, at, svg);
    if (h.medium == Medium::kDsm) DrawShuffle(blocks, StyleOf(h.medium), svg);
  }
  int split = 1;
  for (const ProductPicture& p : k.products) split = std::max(split, p.split_k);
  DrawParts(blocks, static_cast<size_t>(split), svg);
}

bool HasExchanges(const ProductsPicture& k) {
  for (const ProductPicture& p : k.products) {
    if (p.split_k > 1) return true;
  }
  for (const HandOver& h : k.hand_overs) {
    if (h.medium == Medium::kL2 || (h.medium == Medium::kDsm && k.cluster > 1)) return true;
  }
  return false;
}

std::string ClusterText(const ProductsPicture& k) {
  std::string text =
      k.cluster > 1 ? absl::StrCat("a cluster of ", k.cluster, " blocks") : "a block";
  absl::StrAppend(&text, ": ", k.warpgroups_m, " x ", k.warpgroups_n, " consumer warpgroups, ",
                  k.stages, " stages of ", SizeText(AsDouble(k.stage_bytes)), ", shared memory ",
                  SizeText(AsDouble(k.shared_bytes)), " to scale");
  for (const ProductPicture& p : k.products) {
    const std::string name = p.result.Argument();
    if (p.clusters > 1) {
      absl::StrAppend(&text, "; partial sums of ", name, " from ", p.clusters,
                      " clusters are added through L2");
    }
    if (p.split_k < 2) continue;
    absl::StrAppend(&text, "; partial sums of ", name, " from ", p.split_k,
                    " blocks are added through DSM");
  }
  return text;
}

constexpr double kSquare = 11, kFrame = 3, kLaunchRow = 20;

// Where the next cluster of `width` goes; wraps at the drawing's width.
Point NextPlace(Point last, double width, double left) {
  if (last.x + width > left + kDrawingWidth) return {left, last.y + kLaunchRow};
  return last;
}

}  // namespace

void DrawBlock(const DrawnBlock& block, const Box& box, Svg* svg) {
  svg->Rectangle(box, "block", 4);
  svg->Text({box.x + kInset, box.y + 14}, block.name, "small");
  DrawWarpgroups(block.warpgroups, box, svg);
  DrawMemory(block.shared, box, svg);
}

double DrawCluster(const ProductsPicture& picture, Point at, Svg* svg) {
  const double lane_height = HasExchanges(picture) ? kLane : 8;
  const double text = DrawLines(ClusterText(picture), {at.x, at.y}, "h3", svg);
  const Point lane{at.x, at.y + text + 3};
  const std::vector<Box> blocks = BlockBoxes(picture, {at.x, lane.y + lane_height});
  DrawExchanges(picture, blocks, lane, svg);
  const bool wide = Fits(absl::StrCat("block ", blocks.size() - 1), "small", blocks.back());
  for (size_t i = 0; i < blocks.size(); i++) {
    DrawBlock({absl::StrCat(wide ? "block " : "", i),
               {picture.warpgroups_m, picture.warpgroups_n},
               picture.shared},
              blocks[i], svg);
  }
  if (picture.cluster > 1) {
    const Box frame{at.x - 4, lane.y + lane_height - 4, blocks.back().Right() - at.x + 8,
                    kBlockHeight + 8};
    svg->Rectangle(frame, "cluster", 6);
  }
  return text + 3 + lane_height + kBlockHeight + 14;
}

double DrawLaunch(int64_t blocks, int64_t cluster, Point at, Svg* svg) {
  const int64_t size = std::max<int64_t>(1, cluster);
  const int64_t clusters = std::max<int64_t>(1, blocks / size);
  const int64_t shown = std::min(clusters, kMostSquares / size);
  const double width = AsDouble(cluster) * kSquare + 2;
  svg->Text(
      {at.x, at.y + 12},
      absl::StrCat("the launch: ", Counted(static_cast<uint64_t>(blocks), "block"),
                   cluster > 1 ? " in " + Counted(static_cast<uint64_t>(clusters), "cluster") : "",
                   shown < clusters ? absl::StrCat(" (the first ", shown, " drawn)") : ""),
      "h3");
  Point place{at.x, at.y + kHead + 2};
  for (int64_t i = 0; i < shown; i++) {
    place = NextPlace(place, width, at.x);
    for (int64_t b = 0; b < cluster; b++) {
      svg->Rectangle({place.x + 1 + AsDouble(b) * kSquare, place.y + 1, kSquare, kSquare},
                     absl::StrCat("tile c", i % kColours));
    }
    if (cluster > 1) svg->Rectangle({place.x, place.y, width, kSquare + 2}, "cluster", 2);
    place.x += width + kFrame;
  }
  return place.y + kLaunchRow - at.y;
}

}  // namespace sinter
