// The ops of a stitch kernel, below one another by depth, and what each hand-over goes through.
#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/plan/fusion_picture.h"
#include "src/plan/picture_svg.h"
#include "src/plan/units.h"

namespace sinter {
namespace {

constexpr double kWidth = 164, kHeight = 46, kGapX = 26, kGapY = 34;  // of an op and around it
constexpr size_t kShownOps = 96;                                      // of one part
constexpr size_t kTinyColumns = 32;                                   // characters in an op's box
constexpr int kRow = static_cast<int>((kDrawingWidth + kGapX) / (kWidth + kGapX));

std::string Cut(std::string text) {
  if (text.size() > kTinyColumns) text = text.substr(0, kTinyColumns - 2) + "..";
  return text;
}

// The first of parts that are alike.
class PartDrawing {
 public:
  PartDrawing(const KernelFusion& fusion, const std::vector<int>& ops, Point at)
      : fusion_(fusion), shown_(ops.begin(), ops.begin() + std::min(ops.size(), kShownOps)) {
    Place(at);
  }

  double Draw(Svg* svg) const {
    for (int i : shown_) DrawEdges(i, svg);
    for (int i : shown_) DrawOp(i, svg);
    return height_;
  }

 private:
  // Ops of one depth side by side, as many as fit; deeper ones below.
  void Place(Point at) {
    std::map<int, int> depth;
    std::map<int, std::vector<int>> rows;
    for (int i : shown_) {
      int own = 0;
      for (const OpRead& read : fusion_.ops[static_cast<size_t>(i)].reads) {
        if (read.op >= 0) own = std::max(own, depth[read.op] + 1);
      }
      depth[i] = own;
      rows[own].push_back(i);
    }
    double y = at.y;
    for (const auto& [own, ops] : rows) {
      for (size_t n = 0; n < ops.size(); ++n) {
        const int column = static_cast<int>(n) % kRow;
        if (n > 0 && column == 0) y += kHeight + kGapY / 2;
        boxes_[ops[n]] = {at.x + column * (kWidth + kGapX), y, kWidth, kHeight};
      }
      y += kHeight + kGapY;
    }
    height_ = y - at.y;
  }

  void DrawEdges(int i, Svg* svg) const {
    const OpPicture& op = fusion_.ops[static_cast<size_t>(i)];
    const Box& to = boxes_.at(i);
    const auto slots = static_cast<double>(op.reads.size());
    double slot = 0.5;
    for (const OpRead& read : op.reads) {
      const Point end{to.x + to.width * slot / slots, to.y};
      slot += 1;
      if (read.op < 0) continue;
      const Box& from = boxes_.at(read.op);
      const std::string style = absl::StrCat("via via-", NameOf(read.by));
      svg->Line({from.MiddleX(), from.Bottom()}, {end.x, end.y - 10}, style);
      svg->Line({end.x, end.y - 10}, end, style);
      svg->Text({end.x + 3, end.y - 3}, NameOf(read.by), "tiny");
    }
  }

  void DrawOp(int i, Svg* svg) const {
    const OpPicture& op = fusion_.ops[static_cast<size_t>(i)];
    const Box& box = boxes_.at(i);
    svg->Rectangle(box, absl::StartsWith(op.name, "reduce") ? "op reduces" : "op", 4);
    svg->Text({box.x + 6, box.y + 14}, Cut(absl::StrCat("%", i, " ", op.name)), "strong");
    svg->Text({box.x + 6, box.y + 26}, Cut(op.type), "tiny");
    svg->Text({box.x + 6, box.y + 38}, Cut(EndsOf(op)), "tiny");
  }

  std::string EndsOf(const OpPicture& op) const {
    std::string text;
    for (const OpRead& read : op.reads) {
      if (read.op >= 0) continue;
      absl::StrAppend(&text, text.empty() ? "" : " ",
                      fusion_.reads[static_cast<size_t>(read.tensor)].place);
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

  const KernelFusion& fusion_;
  const std::vector<int> shown_;
  std::map<int, Box> boxes_;
  double height_ = 0;
};

}  // namespace

double DrawFusion(const KernelFusion& fusion, Point at, Svg* svg) {
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
