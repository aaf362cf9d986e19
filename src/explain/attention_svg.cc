// Draws a kernel of attention: the scores of one batch between its operands, a block.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/numbers.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

constexpr double kScoresWidth = 320, kScoresHeight = 150, kEdge = 76, kThickness = 34, kApart = 10;
constexpr double kBesideScores = 60, kBlockText = 460;
constexpr int64_t kMostItems = 32, kMostTiles = 64;  // drawn
constexpr int64_t kBlockColours = 6;

std::string SizesText(int64_t rows, int64_t columns) { return absl::StrCat(rows, " x ", columns); }

void DrawMatrix(const Box& box, absl::string_view style, absl::string_view name,
                const std::string& sizes, Svg* svg) {
  svg->Rectangle(box, style, 2);
  svg->Text({box.MiddleX(), box.MiddleY() - 2}, name, "strong", Anchor::kMiddle);
  svg->Text({box.MiddleX(), box.MiddleY() + 10}, sizes, "tiny", Anchor::kMiddle);
}

// Items from top to bottom in the colours of the blocks that take them, tiles of keys from left to
// right.
void DrawScores(const AttentionPicture& a, const Box& box, Svg* svg) {
  const int64_t items = std::clamp<int64_t>(a.Items(), 1, kMostItems);
  const int64_t tiles = std::clamp<int64_t>(a.Tiles(), 1, kMostTiles);
  const double width = box.width / AsDouble(tiles), height = box.height / AsDouble(items);
  const int64_t blocks = std::max<int64_t>(a.blocks, 1);
  for (int64_t i = 0; i < items; ++i) {
    const std::string taken =
        absl::StrCat("tile c", i % blocks % kBlockColours, i >= blocks ? " later" : "");
    for (int64_t t = 0; t < tiles; ++t) {
      svg->Rectangle({box.x + AsDouble(t) * width, box.y + AsDouble(i) * height, width, height},
                     a.IsSkipped(i, t) ? "skipped" : taken);
    }
  }
}

// q on the left, k above and v below the keys, the result on the right.
double DrawBatch(const AttentionPicture& a, Point at, Svg* svg) {
  const Box keys{at.x + kEdge + kApart, at.y, kScoresWidth, kThickness};
  const Box scores{keys.x, keys.Bottom() + kApart, kScoresWidth, kScoresHeight};
  const Box values{keys.x, scores.Bottom() + kApart, kScoresWidth, kThickness};
  DrawMatrix(keys, "weights", "k", SizesText(a.keys, a.head), svg);
  DrawMatrix({at.x, scores.y, kEdge, kScoresHeight}, "rows", "q", SizesText(a.rows, a.head), svg);
  DrawScores(a, scores, svg);
  DrawMatrix({scores.Right() + kApart, scores.y, kEdge, kScoresHeight}, "rows", "out",
             SizesText(a.rows, a.value_head), svg);
  DrawMatrix(values, "weights", "v", SizesText(a.keys, a.value_head), svg);
  return values.Bottom() + 6 - at.y;
}

std::string BlockText(const AttentionPicture& a) {
  return absl::StrCat("a block: ", Counted(static_cast<uint64_t>(a.warpgroups), "warpgroup"),
                      " of 64 rows, ", a.stages, " tiles of k or v in shared memory, which is ",
                      SizeText(AsDouble(a.shared_bytes)), ", to scale; ",
                      Counted(static_cast<uint64_t>(a.resident), "block"), " on an SM");
}

double DrawOneBlock(const AttentionPicture& a, Point at, Svg* svg) {
  const double text = DrawLines(BlockText(a), at, "h3", svg, kBlockText) + 6;
  DrawBlock({"block 0", {a.warpgroups, 1}, a.shared},
            {at.x, at.y + text, kWidestBlock, kBlockHeight}, svg);
  return text + kBlockHeight;
}

std::string ItemsText(const AttentionPicture& a) {
  const bool cut = a.Items() > kMostItems || a.Tiles() > kMostTiles;
  const int64_t blocks = std::max<int64_t>(a.blocks, 1);
  return absl::StrCat(
      "scores ", SizesText(a.rows, a.keys), ": ", Counted(static_cast<uint64_t>(a.Items()), "item"),
      " of ", a.item_rows, " rows, each ", Counted(static_cast<uint64_t>(a.Tiles()), "tile"),
      " of ", a.tile_keys, " keys", cut ? " (first ones drawn)" : "", "; a block takes up to ",
      CeilDiv(a.items, blocks), " of ", a.items, " items, which are ", blocks,
      " apart, and starts with the last tile of each");
}

}  // namespace

double DrawAttention(const AttentionPicture& picture, Point at, Svg* svg) {
  double y = at.y;
  y += DrawLines(absl::StrCat(picture.formula, ", for each of ", picture.batches, " batches"),
                 {at.x, y}, "strong", svg) +
       6;
  const double width = 2 * (kEdge + kApart) + kScoresWidth;
  const double block = DrawOneBlock(picture, {at.x + width + kBesideScores, y}, svg);
  y += std::max(DrawBatch(picture, {at.x, y}, svg), block) + 6;
  return y + DrawLines(ItemsText(picture), {at.x, y}, "small", svg) + 6 - at.y;
}

}  // namespace sinter
