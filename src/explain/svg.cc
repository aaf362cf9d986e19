// An explanation as SVG: kernels that are alike once, in the order of their first launch; arcs on
// the left for what kernels hand over through memory.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "src/base/format.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

constexpr double kLevelHeight = 17, kLevelWidth = 420;
constexpr double kLine = 15, kLaneGap = 9;
constexpr double kBeside = 560;  // drawings of ops up to this width have the levels beside them
constexpr size_t kShownTensors = 12, kDrawnReasons = 12, kShownRunnersUp = 3;
constexpr size_t kMostArcs = 80;
constexpr size_t kMostWhole = 8;  // different kernels whose clusters and launches are drawn

std::string BytesText(int64_t bytes) { return AmountText(static_cast<double>(bytes), "B"); }

// "plan of 2 kernels, m <= 128: predicted 11.50 us".
std::string TitleOf(const Explanation& e) {
  const double measured = MeasuredUs(e.plan);
  return absl::StrFormat(
      "plan of %s, %s: predicted %.2f us%s", Counted(e.plan.kernels.size(), "kernel"),
      e.plan.UsesM() ? absl::StrCat("m <= ", e.plan.bucket) : "without M", e.plan.PredictedUs(),
      measured > 0 ? absl::StrFormat(", measured %.2f us", measured) : "");
}

void DrawLevel(const LevelCost& level, double longest, Point at, Svg* svg) {
  const double part = longest > 0 ? std::clamp(level.us / longest, 0.0, 1.0) : 0;
  svg->Text({at.x + 52, at.y + 11}, level.level, "small", Anchor::kEnd);
  svg->Rectangle({at.x + 58, at.y + 2, std::max(1.0, kLevelWidth * part), kLevelHeight - 5},
                 level.bound ? "bound" : "level", 2);
  svg->Text({at.x + 64 + kLevelWidth * part, at.y + 11},
            absl::StrFormat("%.2f us%s", level.us, level.bound ? ", bound" : ""), "small");
}

double DrawLevels(const KernelDescription& kernel, double predicted_us, Point at, Svg* svg) {
  double longest = 0, y = at.y + 20;
  for (const LevelCost& level : kernel.levels) longest = std::max(longest, level.us);
  svg->Text({at.x, at.y + 12},
            absl::StrFormat("predicted time of each level; %s%.2f us",
                            kernel.sum.empty() ? "in all " : kernel.sum + " = ", predicted_us),
            "h3");
  for (const LevelCost& level : kernel.levels) {
    DrawLevel(level, longest, {at.x, y}, svg);
    y += kLevelHeight;
  }
  return y - at.y + 4;
}

double DrawTensors(absl::string_view what, const std::vector<TensorPicture>& tensors, Point at,
                   Svg* svg) {
  if (tensors.empty()) return 0;
  std::string text = absl::StrCat(what, " ");
  for (size_t i = 0; i < std::min(tensors.size(), kShownTensors); ++i) {
    const TensorPicture& t = tensors[i];
    absl::StrAppend(&text, i > 0 ? ", " : "", t.FullName(), " ", t.type, " ", BytesText(t.bytes));
    if (t.kernel >= 0) absl::StrAppend(&text, " of kernel ", t.kernel);
  }
  if (tensors.size() > kShownTensors) {
    absl::StrAppend(&text, " and ", tensors.size() - kShownTensors, " more");
  }
  return DrawLines(text, at, "small", svg);
}

double DrawSwatch(absl::string_view style, absl::string_view name, Point at, Svg* svg) {
  svg->Rectangle({at.x, at.y + 2, 12, 10}, style, 2);
  svg->Text({at.x + 16, at.y + 11}, name, "small");
  return 30 + TextWidth(name, "small");
}

class Drawing {
 public:
  explicit Drawing(const Explanation& e) : e_(e), reasons_(e.Reasons()) {}

  std::string Run() {
    PlaceArcs();
    // Drawn twice: panels lie behind their contents, whose size is known only afterwards.
    std::vector<double> heights;
    double width = kDrawingWidth / 2;
    for (size_t group = 0; group < e_.equal.size(); ++group) {
      Svg unseen;
      heights.push_back(DrawGroup(group, {0, 0}, &unseen) + 2 * kPad);
      width = std::max(width, unseen.Right() + 2 * kPad);
    }
    prose_width_ = std::min(Left() + width - kMargin, kDrawingWidth);
    double y = kMargin + DrawHead({kMargin, kMargin});
    for (size_t group = 0; group < e_.equal.size(); ++group) {
      svg_.Rectangle({Left(), y, width, heights[group]}, "panel", 8);
      DrawGroup(group, {Left() + kPad, y + kPad}, &svg_);
      panels_.push_back({Left(), y, width, heights[group]});
      y += heights[group] + kPad;
    }
    DrawArcs();
    y += DrawRunnersUp({kMargin, y});
    y += DrawLegend({kMargin, y}) + kMargin / 2;
    return svg_.Document(svg_.Right() + kMargin, y, TitleOf(e_));
  }

 private:
  struct Arc {
    int from = 0, to = 0, lane = 0;
  };

  double Left() const { return lanes_ == 0 ? kMargin : kMargin + kLaneGap * (lanes_ + 1); }

  // One arc for each pair of groups; arcs that overlap get separate lanes.
  void PlaceArcs() {
    std::set<std::pair<int, int>> pairs;
    for (const Explanation::Reason& reason : reasons_) {
      if (reason.bytes == 0 || reason.from_group == reason.to_group) continue;
      pairs.insert({reason.from_group, reason.to_group});
    }
    std::vector<int> ends;  // the last group that each lane's arcs reach
    for (const auto& [from, to] : pairs) {
      if (arcs_.size() == kMostArcs) break;
      const int top = std::min(from, to), bottom = std::max(from, to);
      size_t lane = 0;
      while (lane < ends.size() && ends[lane] >= top) ++lane;
      if (lane == ends.size()) ends.push_back(0);
      ends[lane] = bottom;
      arcs_.push_back({from, to, static_cast<int>(lane)});
    }
    lanes_ = static_cast<double>(ends.size());
  }

  void DrawArcs() {
    for (const Arc& arc : arcs_) {
      const Box& from = panels_[static_cast<size_t>(arc.from)];
      const Box& to = panels_[static_cast<size_t>(arc.to)];
      const double x = Left() - kLaneGap * (arc.lane + 1), shift = 3.0 * arc.lane;
      const double leave = from.Bottom() - 12 - shift, enter = to.y + 12 + shift;
      svg_.Line({from.x, leave}, {x, leave}, "via hbm");
      svg_.Line({x, leave}, {x, enter}, "via hbm");
      svg_.Arrow({x, enter}, {to.x, enter}, "hbm");
    }
  }

  // The title; which ops share kernels; the planner's notes.
  double DrawHead(Point at) {
    svg_.Text({at.x, at.y + 18}, TitleOf(e_), "h1");
    double y = at.y + 26;
    y += DrawLines(e_.computes, {at.x, y}, "strong", &svg_, prose_width_);
    if (e_.saved_bytes > 0) {
      y += DrawLines(absl::StrCat(BytesText(e_.saved_bytes), " saved by fusion"), {at.x, y},
                     "strong", &svg_);
    }
    y += DrawLines(e_.plan.note, {at.x, y}, "small", &svg_, prose_width_);
    y += DrawLines(absl::StrCat("digest ", e_.plan.PlanDigest().Hex()), {at.x, y}, "small", &svg_);
    return y + 8 - at.y;
  }

  double DrawGroup(size_t group, Point at, Svg* svg) const {
    const std::vector<int>& kernels = e_.equal[group];
    const auto first = static_cast<size_t>(kernels.front());
    const KernelDescription& told = e_.kernels[first];
    double y = at.y + DrawKernelHead(kernels, at, svg);
    y += DrawTensors("reads", told.reads, {at.x, y}, svg);
    y += DrawTensors("writes", told.writes, {at.x, y}, svg);
    y += DrawReasons(static_cast<int>(group), {at.x, y}, svg) + 10;
    if (told.products.has_value()) {
      y += DrawProducts(*told.products, {at.x, y}, svg);
      y += DrawWindows(*told.products, {at.x, y}, svg);
      if (e_.equal.size() <= kMostWhole) {
        y += DrawCluster(*told.products, {at.x, y}, svg);
        y += DrawLaunch(told.products->blocks, told.products->cluster, {at.x, y}, svg);
      }
    }
    if (told.attention.has_value()) {
      y += DrawAttention(*told.attention, {at.x, y}, svg);
      if (e_.equal.size() <= kMostWhole) y += DrawLaunch(told.attention->blocks, 1, {at.x, y}, svg);
    }
    y += DrawLines(told.not_drawn, {at.x, y}, "small", svg);
    Svg ops;
    const double height = DrawOps(told, {0, y}, &ops);
    DrawOps(told, {at.x, y}, svg);
    const bool beside = height > 0 && ops.Right() <= kBeside;
    const Point below{at.x, y + height}, right{at.x + ops.Right() + 60, y};
    const double levels =
        DrawLevels(told, e_.plan.kernels[first].prediction.total_us, beside ? right : below, svg);
    return y + (beside ? std::max(height, levels) : height + levels) - at.y;
  }

  // What the kernel computes, of which family and dataflow; its schedule, times and bytes.
  double DrawKernelHead(const std::vector<int>& kernels, Point at, Svg* svg) const {
    const auto first = static_cast<size_t>(kernels.front());
    const PlannedKernel& kernel = e_.plan.kernels[first];
    const KernelDescription& told = e_.kernels[first];
    svg->Text({at.x, at.y + 14},
              absl::StrCat(kernels.size() > 1 ? "kernels " : "kernel ", KernelNumbers(kernels),
                           kernels.size() > 1 ? "; the first: " : ": ", told.computes),
              "h2");
    double y = at.y + 20;
    y += DrawLines(told.kind, {at.x, y}, "small", svg);
    y += DrawLines(absl::StrCat(told.problem, "   [", told.schedule, "]"), {at.x, y}, "small", svg);
    const double us = kernel.prediction.total_us;
    std::string text = absl::StrFormat("predicted %.2f us", us);
    if (kernels.size() > 1) {
      absl::StrAppendFormat(&text, " each, %.2f us together",
                            us * static_cast<double>(kernels.size()));
    }
    if (kernel.measured_us > 0) {
      absl::StrAppendFormat(&text, ", measured %.2f us", kernel.measured_us);
    }
    if (told.border_bytes > 0) {
      absl::StrAppend(&text, "; ", BytesText(told.border_bytes), " read and written");
    }
    if (told.saved_bytes > 0) {
      absl::StrAppend(&text, ", ", BytesText(told.saved_bytes), " saved by fusion");
    }
    return y + DrawLines(text, {at.x, y}, "strong", svg) + 4 - at.y;
  }

  double DrawReasons(int group, Point at, Svg* svg) const {
    double y = at.y;
    size_t shown = 0;
    for (const Explanation::Reason& reason : reasons_) {
      if (reason.to_group != group) continue;
      if (++shown > kDrawnReasons) break;
      const std::vector<int>& from = e_.equal[static_cast<size_t>(reason.from_group)];
      y += DrawLines(
          absl::StrCat("apart from kernel ", KernelNumbers(from), ", ",
                       reason.bytes > 0 ? absl::StrCat(BytesText(reason.bytes), " handed over")
                                        : "nothing handed over",
                       reason.count > 1 ? absl::StrCat(" (", reason.count, " times)") : "", ": ",
                       reason.why),
          {at.x, y}, "small apart", svg);
    }
    return y - at.y;
  }

  double DrawRunnersUp(Point at) {
    double y = at.y;
    for (size_t i = 0; i < std::min(e_.plan.runners_up.size(), kShownRunnersUp); ++i) {
      const Candidate& c = e_.plan.runners_up[i];
      y += DrawLines(absl::StrCat("runner-up: ", c.name, ": ", c.why_not), {at.x, y}, "small",
                     &svg_, prose_width_);
    }
    return y + 8 - at.y;
  }

  // Of the parts that were drawn.
  double DrawLegend(Point at) {
    bool products = false, attention = false, ops = false, levels = false;
    for (const KernelDescription& told : e_.kernels) {
      products |= told.products.has_value();
      attention |= told.attention.has_value();
      ops |= !told.ops.empty();
      levels |= !told.levels.empty();
    }
    double y = at.y;
    if (products) y += DrawSwatches(ProductSwatches(), {at.x, y});
    if (attention) y += DrawSwatches(AttentionSwatches(), {at.x, y});
    if (ops) y += DrawCompositions({at.x, y});
    if (levels) y += DrawSwatches(LevelSwatches(), {at.x, y});
    return y - at.y;
  }

  // Pairs of a style and the name of the shapes that have it.
  using Swatches = std::vector<std::pair<const char*, const char*>>;

  static Swatches ProductSwatches() {
    return {{"rows", "rows"},
            {"weights", "weights"},
            {"c0", "a colour a cluster"},
            {"c0 later", "a later turn"},
            {"ring", "ring stage"},
            {"c", "c kept in the cluster"},
            {"partial", "partial sums"},
            {"warpgroup", "consumer warpgroup"},
            {"hbm", "HBM"},
            {"l2", "L2"},
            {"dsm", "DSM: distributed shared memory"}};
  }

  static Swatches AttentionSwatches() {
    return {{"rows", "q and the result"},
            {"weights", "k and v"},
            {"c0", "scores, a colour a block"},
            {"c0 later", "a later turn"},
            {"skipped", "scores that no row sees, skipped"},
            {"ring", "a tile of k or v in shared memory"},
            {"warpgroup", "consumer warpgroup"}};
  }

  static Swatches LevelSwatches() {
    return {{"level",
             "a bar's length is a level's predicted time, relative to the longest in the kernel"},
            {"bound", "the level that bounds the kernel"}};
  }

  double DrawSwatches(const Swatches& swatches, Point at) {
    double x = at.x, y = at.y;
    for (const auto& [style, name] : swatches) {
      if (x + 30 + TextWidth(name, "small") > at.x + kDrawingWidth) x = at.x, y += 18;
      x += DrawSwatch(style, name, {x, y}, &svg_);
    }
    return y + 22 - at.y;
  }

  double DrawCompositions(Point at) {
    constexpr absl::string_view kHead = "between ops through";
    svg_.Text({at.x, at.y + 11}, kHead, "small");
    double x = at.x + TextWidth(kHead, "small") + 8;
    constexpr const char* kMeanings[] = {
        "thread: registers", "warp: shuffles", "block: shared memory",
        "cluster: DSM (distributed shared memory)", "grid: L2, behind a barrier"};
    for (int i = 0; i < kCompositions; ++i) {
      const absl::string_view meaning = kMeanings[i];
      svg_.Line({x, at.y + 7}, {x + 18, at.y + 7},
                absl::StrCat("via via-", NameOf(Composition(i))));
      svg_.Text({x + 22, at.y + 11}, meaning, "small");
      x += 36 + TextWidth(meaning, "small");
    }
    return 22;
  }

  const Explanation& e_;
  const std::vector<Explanation::Reason> reasons_;
  Svg svg_;
  std::vector<Arc> arcs_;
  std::vector<Box> panels_;  // by group
  double lanes_ = 0;
  double prose_width_ = 0;  // of text outside the panels
};

}  // namespace

double DrawLines(absl::string_view text, Point at, absl::string_view style, Svg* svg,
                 double width) {
  double y = at.y;
  std::string line;
  const auto flush = [&] {
    svg->Text({at.x, y + 11}, line, style);
    line.clear();
    y += kLine;
  };
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line.empty() && TextWidth(absl::StrCat(line, " ", word), style) > width) flush();
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  if (!line.empty()) flush();
  return y - at.y;
}

std::string PlanSvg(const Explanation& e) { return Drawing(e).Run(); }

}  // namespace sinter
