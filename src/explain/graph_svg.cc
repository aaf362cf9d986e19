// A plan with stitch kernels as SVG: equal kernels once, in the order of their first launch; arcs
// on the left for hand-overs.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/draw/units.h"
#include "src/explain/render.h"
#include "src/explain/svg_parts.h"

namespace sinter {
namespace {

constexpr double kLine = 15, kLane = 9;
constexpr size_t kShownTensors = 12, kShownReasons = 12, kShownRunnersUp = 3;
constexpr size_t kMostArcs = 80;
constexpr double kLeastWidth = 700;  // of a panel: the legend's

std::string Bytes(int64_t bytes) { return AmountText(static_cast<double>(bytes), "B"); }

class GraphDrawing {
 public:
  explicit GraphDrawing(const Explanation& e) : plan_(e.plan), picture_(e), reasons_(e.Reasons()) {}

  std::string Run() {
    PlaceArcs();
    // Drawn twice: panels lie behind their contents, whose size is known only afterwards.
    std::vector<double> heights;
    double width = kLeastWidth;
    for (size_t group = 0; group < picture_.equal.size(); ++group) {
      Svg unseen;
      heights.push_back(DrawGroup(group, {0, 0}, &unseen) + 2 * kPad);
      width = std::max(width, unseen.Right() + 2 * kPad);
    }
    prose_width_ = Left() + width - kMargin;
    double y = kMargin + DrawPlanHead(plan_, {kMargin, kMargin}, &svg_) + DrawSummary();
    for (size_t group = 0; group < picture_.equal.size(); ++group) {
      svg_.Rectangle({Left(), y, width, heights[group]}, "panel", 8);
      DrawGroup(group, {Left() + kPad, y + kPad}, &svg_);
      panels_.push_back({Left(), y, width, heights[group]});
      y += heights[group] + kPad;
    }
    DrawArcs();
    y += DrawRunnersUp(y) + DrawCompositions({kMargin, y}) + kMargin;
    return svg_.Document(svg_.Right() + kMargin, y, PlanTitle(plan_));
  }

 private:
  struct Arc {
    int from = 0, to = 0, lane = 0;
  };

  double Left() const { return kMargin + kLane * (lanes_ + 1); }

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
      const double x = Left() - kLane * (arc.lane + 1), shift = 3.0 * arc.lane;
      const double leave = from.Bottom() - 12 - shift, enter = to.y + 12 + shift;
      svg_.Line({from.x, leave}, {x, leave}, "via hbm");
      svg_.Line({x, leave}, {x, enter}, "via hbm");
      svg_.Arrow({x, enter}, {to.x, enter}, "hbm");
    }
  }

  // Draws the planner's notes below the head.
  double DrawSummary() {
    const double top = kMargin + 52;
    const size_t kernels = plan_.kernels.size(), different = picture_.equal.size();
    svg_.Text({kMargin, top + 12},
              absl::StrCat(kernels, kernels == 1 ? " kernel" : " kernels",
                           different < kernels ? absl::StrCat(", ", different, " different") : "",
                           "; ", Bytes(picture_.saved_bytes), " saved by fusion"),
              "strong");
    return kLine + 16 +
           DrawLines(plan_.note, {kMargin, top + 6 + kLine}, "small", &svg_, prose_width_);
  }

  double DrawGroup(size_t group, Point at, Svg* svg) const {
    const std::vector<int>& kernels = picture_.equal[group];
    const auto first = static_cast<size_t>(kernels.front());
    const PlannedKernel& kernel = plan_.kernels[first];
    const ExplainedKernel& fusion = picture_.kernels[first];
    double y = at.y + DrawKernelHead(KernelNumbers(kernels), kernel, at, svg);
    y += DrawTimes(kernels.size(), kernel, fusion, {at.x, y}, svg);
    y += DrawTensors("reads", fusion.reads, {at.x, y}, svg);
    y += DrawReasons(static_cast<int>(group), {at.x, y}, svg);
    y += 10;
    y += DrawOps(fusion, {at.x, y}, svg);
    y += DrawTensors("writes", fusion.writes, {at.x, y}, svg);
    return y + DrawLevels(kernel, fusion.levels, {at.x, y + 6}, svg) + 6 - at.y;
  }

  static double DrawTimes(size_t count, const PlannedKernel& kernel, const ExplainedKernel& fusion,
                          Point at, Svg* svg) {
    const double us = kernel.prediction.total_us;
    std::string text = absl::StrFormat("predicted %.2f us", us);
    if (count > 1) {
      absl::StrAppendFormat(&text, " each, %.2f us together", us * static_cast<double>(count));
    }
    if (kernel.measured_us > 0) {
      absl::StrAppendFormat(&text, ", measured %.2f us", kernel.measured_us);
    }
    absl::StrAppend(&text, "; ", Bytes(fusion.border_bytes), " at the border, ",
                    Bytes(fusion.saved_bytes), " saved by fusion");
    svg->Text({at.x, at.y + 8}, text, "strong");
    return kLine + 6;
  }

  static double DrawTensors(absl::string_view what, const std::vector<TensorPicture>& tensors,
                            Point at, Svg* svg) {
    std::string text = absl::StrCat(what, " ");
    for (size_t i = 0; i < std::min(tensors.size(), kShownTensors); ++i) {
      const TensorPicture& t = tensors[i];
      absl::StrAppend(&text, i > 0 ? ", " : "", t.place, " ", t.type, " ", Bytes(t.bytes));
      if (t.kernel >= 0) absl::StrAppend(&text, " of kernel ", t.kernel);
    }
    if (tensors.size() > kShownTensors) {
      absl::StrAppend(&text, " and ", tensors.size() - kShownTensors, " more");
    }
    return DrawLines(text, at, "small", svg);
  }

  double DrawReasons(int group, Point at, Svg* svg) const {
    double y = at.y;
    size_t shown = 0;
    for (const Explanation::Reason& reason : reasons_) {
      if (reason.to_group != group) continue;
      if (++shown > kShownReasons) break;
      const std::vector<int>& from = picture_.equal[static_cast<size_t>(reason.from_group)];
      y += DrawLines(
          absl::StrCat("not fused with kernel ", KernelNumbers(from), ", ",
                       reason.bytes > 0 ? absl::StrCat(Bytes(reason.bytes), " handed over")
                                        : "nothing handed over",
                       reason.count > 1 ? absl::StrCat(" (", reason.count, " times)") : "", ": ",
                       reason.why),
          {at.x, y}, "small apart", svg);
    }
    return y - at.y;
  }

  double DrawRunnersUp(double y) {
    double height = 0;
    for (size_t i = 0; i < std::min(plan_.runners_up.size(), kShownRunnersUp); ++i) {
      const Candidate& c = plan_.runners_up[i];
      height += DrawLines(absl::StrCat("runner-up: ", c.name, ": ", c.why_not),
                          {kMargin, y + height}, "small", &svg_, prose_width_);
    }
    runners_height_ = height + 8;
    return runners_height_;
  }

  double DrawCompositions(Point at) {
    double x = at.x;
    const double y = at.y + runners_height_;
    svg_.Text({x, y + 11}, "handed over through", "small");
    x += 124;
    constexpr const char* kMeanings[] = {
        "thread: registers", "warp: shuffles", "block: shared memory",
        "cluster: DSM (distributed shared memory)", "grid: L2, behind a barrier"};
    for (int i = 0; i < kCompositions; ++i) {
      const absl::string_view meaning = kMeanings[i];
      svg_.Line({x, y + 7}, {x + 18, y + 7}, absl::StrCat("via via-", NameOf(Composition(i))));
      svg_.Text({x + 22, y + 11}, meaning, "small");
      x += 36 + 6.4 * static_cast<double>(meaning.size());
    }
    return 24;
  }

  const Plan& plan_;
  const Explanation& picture_;
  const std::vector<Explanation::Reason> reasons_;
  Svg svg_;
  std::vector<Arc> arcs_;
  std::vector<Box> panels_;  // by group
  double lanes_ = 0, runners_height_ = 0;
  double prose_width_ = 0;  // of text outside the panels
};

}  // namespace

std::string GraphSvg(const Explanation& e) { return GraphDrawing(e).Run(); }

}  // namespace sinter
