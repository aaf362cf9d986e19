// Draws the ops of a stitch kernel in rows by depth, and the memory that each hand-over goes
// through.
#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/draw/units.h"
#include "src/explain/op_layout.h"
#include "src/explain/svg_parts.h"

namespace sinter {
namespace {

constexpr size_t kShownOps = 96;  // of one part
constexpr double kInset = 6;      // of text in a box

// Shortens `text` to at most `width` pixels.
std::string Cut(std::string text, absl::string_view style, double width) {
  if (TextWidth(text, style) <= width) return text;
  while (!text.empty() && TextWidth(text + "..", style) > width) text.pop_back();
  return text + "..";
}

std::string WithViews(absl::string_view source, const OpRead& read) {
  if (read.through.empty()) return std::string(source);
  return absl::StrCat(source, " (", absl::StrJoin(read.through, ", "), ")");
}

// Draws the first of several equal parts.
class PartDrawing {
 public:
  PartDrawing(const ExplainedKernel& fusion, const std::vector<int>& ops, Point at)
      : fusion_(fusion),
        shown_(ops.begin(), ops.begin() + std::min(ops.size(), kShownOps)),
        layout_(LayOutOps(fusion, shown_)),
        at_(at) {}

  double Draw(Svg* svg) const {
    for (const OpEdge& edge : layout_.edges) DrawEdge(edge, svg);
    for (int i : shown_) DrawOp(i, svg);
    return layout_.height + kBelow;
  }

 private:
  static constexpr double kBelow = 34;

  void DrawEdge(const OpEdge& edge, Svg* svg) const {
    const OpPicture& op = fusion_.ops[static_cast<size_t>(edge.to)];
    const OpRead& read = op.reads[static_cast<size_t>(edge.read)];
    std::vector<Point> path = edge.path;
    for (Point& point : path) point = {point.x + at_.x, point.y + at_.y};
    svg->Lines(path, absl::StrCat("via via-", NameOf(read.by)));
    const double room =
        layout_.boxes.at(edge.to).width / static_cast<double>(op.reads.size()) - 2 * kInset;
    svg->Text({path.back().x + 3, path.back().y - 3},
              Cut(WithViews(NameOf(read.by), read), "tiny", room), "tiny");
  }

  void DrawOp(int i, Svg* svg) const {
    const OpPicture& op = fusion_.ops[static_cast<size_t>(i)];
    Box box = layout_.boxes.at(i);
    box.x += at_.x;
    box.y += at_.y;
    svg->Rectangle(box, absl::StartsWith(op.name, "reduce") ? "op reduces" : "op", 4);
    const double x = box.x + kInset, room = box.width - 2 * kInset;
    svg->Text({x, box.y + 14}, Cut(absl::StrCat("%", i, " ", op.name), "strong", room), "strong");
    svg->Text({x, box.y + 26}, Cut(op.type, "tiny", room), "tiny");
    svg->Text({x, box.y + 38}, Cut(EndsOf(op), "tiny", room), "tiny");
  }

  std::string EndsOf(const OpPicture& op) const {
    std::string text;
    for (const OpRead& read : op.reads) {
      if (read.op >= 0) continue;
      absl::StrAppend(&text, text.empty() ? "" : " ",
                      WithViews(fusion_.reads[static_cast<size_t>(read.tensor)].place, read));
    }
    for (int out : op.writes) {
      absl::StrAppend(&text, " > ", fusion_.writes[static_cast<size_t>(out)].place);
    }
    if (op.saved_bytes > 0) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", "saves ",
                      AmountText(static_cast<double>(op.saved_bytes), "B"));
    }
    return text;
  }

  const ExplainedKernel& fusion_;
  const std::vector<int> shown_;
  const OpLayout layout_;
  const Point at_;
};

}  // namespace

double DrawOps(const ExplainedKernel& fusion, Point at, Svg* svg) {
  double y = at.y;
  for (const auto& alike : fusion.parts) {
    const std::vector<int>& ops = alike.front();
    if (fusion.PartCount() > 1) {
      svg->Text({at.x, y + 12},
                alike.size() > 1 ? absl::StrCat(alike.size(), " packed parts are alike; the first:")
                                 : "a packed part:",
                "h3");
      y += 22;
    }
    y += PartDrawing(fusion, ops, {at.x, y}).Draw(svg);
    if (ops.size() > kShownOps) {
      svg->Text({at.x, y}, absl::StrCat("and ", ops.size() - kShownOps, " more ops"), "small");
      y += 18;
    }
  }
  return y - at.y;
}

}  // namespace sinter
