// Draws the ops of a stitched kernel in rows by depth, and the memory that each hand-over goes
// through.
#include <algorithm>
#include <map>
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
constexpr double kLeastWidth = 150;
constexpr double kHead = 18, kLine = 12, kBelow = 8;  // heights in a box

std::string WithViews(absl::string_view source, const OpRead& read) {
  if (read.through.empty()) return std::string(source);
  return absl::StrCat(source, " (", absl::StrJoin(read.through, ", "), ")");
}

// Draws the first of several equal parts. A box is as wide as the longest line of any, so that none
// is cut.
class PartDrawing {
 public:
  PartDrawing(const ExplainedKernel& kernel, const std::vector<int>& ops)
      : kernel_(kernel), shown_(ops.begin(), ops.begin() + std::min(ops.size(), kShownOps)) {
    double width = kLeastWidth;
    std::map<int, double> heights;
    for (int i : shown_) {
      width = std::max(width, TextWidth(HeadOf(i), "strong") + 2 * kInset);
      const std::vector<std::string> lines = LinesOf(i);
      for (const std::string& line : lines) {
        width = std::max(width, TextWidth(line, "tiny") + 2 * kInset);
      }
      heights[i] = kHead + kLine * static_cast<double>(lines.size()) + kBelow;
    }
    layout_ = LayOutOps(kernel, shown_, width, heights);
  }

  double Draw(Point at, Svg* svg) const {
    for (const OpEdge& edge : layout_.edges) DrawEdge(edge, at, svg);
    for (int i : shown_) DrawOp(i, at, svg);
    return layout_.height + 22;
  }

 private:
  const OpPicture& op(int i) const { return kernel_.ops[static_cast<size_t>(i)]; }

  // With the composition's name where there is room for it: its colour says it too.
  void DrawEdge(const OpEdge& edge, Point at, Svg* svg) const {
    const std::vector<OpRead>& reads = op(edge.to).reads;
    const OpRead& read = reads[static_cast<size_t>(edge.read)];
    std::vector<Point> path = edge.path;
    for (Point& point : path) point = {point.x + at.x, point.y + at.y};
    svg->Lines(path, absl::StrCat("via via-", NameOf(read.by)));
    const double room =
        layout_.boxes.at(edge.to).width / static_cast<double>(reads.size()) - kInset;
    if (TextWidth(NameOf(read.by), "tiny") > room) return;
    svg->Text({path.back().x + 3, path.back().y - 3}, NameOf(read.by), "tiny");
  }

  void DrawOp(int i, Point at, Svg* svg) const {
    Box box = layout_.boxes.at(i);
    box.x += at.x;
    box.y += at.y;
    svg->Rectangle(box, absl::StartsWith(op(i).name, "reduce") ? "op reduces" : "op", 4);
    svg->Text({box.x + kInset, box.y + 14}, HeadOf(i), "strong");
    double y = box.y + kHead + 8;
    for (const std::string& line : LinesOf(i)) {
      svg->Text({box.x + kInset, y}, line, "tiny");
      y += kLine;
    }
  }

  std::string HeadOf(int i) const { return absl::StrCat("%", i, " ", op(i).name); }

  // Its type; inputs and outputs of the kernel; views between it and another op; bytes saved.
  std::vector<std::string> LinesOf(int i) const {
    std::vector<std::string> lines = {op(i).type};
    for (const OpRead& read : op(i).reads) {
      if (read.op < 0) {
        lines.push_back(
            WithViews(kernel_.reads[static_cast<size_t>(read.tensor)].ShortName(), read));
      } else if (!read.through.empty()) {
        lines.push_back(WithViews(absl::StrCat("%", read.op), read));
      }
    }
    for (int out : op(i).writes) {
      lines.push_back(absl::StrCat("> ", kernel_.writes[static_cast<size_t>(out)].ShortName()));
    }
    if (op(i).saved_bytes > 0) {
      lines.push_back(
          absl::StrCat("saves ", AmountText(static_cast<double>(op(i).saved_bytes), "B")));
    }
    return lines;
  }

  const ExplainedKernel& kernel_;
  const std::vector<int> shown_;
  OpLayout layout_;
};

}  // namespace

double DrawOps(const ExplainedKernel& kernel, Point at, Svg* svg) {
  double y = at.y;
  for (const auto& alike : kernel.parts) {
    const std::vector<int>& ops = alike.front();
    if (kernel.PartCount() > 1) {
      svg->Text({at.x, y + 12},
                alike.size() > 1 ? absl::StrCat(alike.size(), " packed parts are alike; the first:")
                                 : "a packed part:",
                "h3");
      y += 22;
    }
    y += PartDrawing(kernel, ops).Draw({at.x, y}, svg);
    if (ops.size() > kShownOps) {
      svg->Text({at.x, y}, absl::StrCat("and ", ops.size() - kShownOps, " more ops"), "small");
      y += 18;
    }
  }
  return y - at.y;
}

}  // namespace sinter
