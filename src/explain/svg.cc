// An explanation as SVG.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "src/explain/render.h"
#include "src/explain/svg_parts.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

constexpr double kLevelHeight = 17, kLevelWidth = 420;

void DrawLevel(const LevelCost& level, double longest, Point at, Svg* svg) {
  const double part = longest > 0 ? std::clamp(level.us / longest, 0.0, 1.0) : 0;
  svg->Text({at.x + 52, at.y + 11}, level.level, "small", Anchor::kEnd);
  svg->Rectangle({at.x + 58, at.y + 2, std::max(1.0, kLevelWidth * part), kLevelHeight - 5},
                 level.bound ? "bound" : "level", 2);
  svg->Text({at.x + 64 + kLevelWidth * part, at.y + 11},
            absl::StrFormat("%.2f us%s", level.us, level.bound ? ", bound" : ""), "small");
}

double DrawKernel(const Explanation& e, size_t i, Point at, Svg* svg) {
  const PlannedKernel& kernel = e.plan.kernels[i];
  double y = at.y + DrawKernelHead(absl::StrCat(i), kernel, at, svg);
  if (!e.kernels[i].products.has_value()) {
    svg->Text({at.x, y + 12}, "a schedule that cannot be drawn", "small");
    return y + 24 - at.y;
  }
  const ProductsPicture& picture = *e.kernels[i].products;
  y += DrawProducts(picture, {at.x, y}, svg);
  y += DrawWindows(picture, {at.x, y}, svg);
  y += DrawCluster(picture, {at.x, y}, svg);
  y += DrawLaunch(picture, {at.x, y}, svg);
  return y + DrawLevels(kernel, e.kernels[i].levels, {at.x, y}, svg) - at.y;
}

double DrawLegend(Point at, Svg* svg) {
  constexpr std::pair<const char*, const char*> kItems[] = {
      {"rows", "rows"},
      {"weights", "weights"},
      {"c0", "a colour a cluster"},
      {"c0 later", "a later turn"},
      {"ring", "ring stage"},
      {"c", "c kept in the cluster"},
      {"partial", "partial sums"},
      {"warpgroup", "consumer warpgroup"},
      {"hbm", "HBM"},
      {"l2", "L2"},
      {"dsm", "DSM: distributed shared memory"},
      {"bound", "bound"}};
  double x = at.x, y = at.y;
  for (const auto& [style, name] : kItems) {
    const double width = 30 + 6.6 * static_cast<double>(absl::string_view(name).size());
    if (x + width > at.x + kDrawingWidth) x = at.x, y += 18;
    svg->Rectangle({x, y + 2, 12, 10}, style, 2);
    svg->Text({x + 16, y + 11}, name, "small");
    x += width;
  }
  return y + 24 - at.y;
}

}  // namespace

std::string PlanTitle(const Plan& plan) {
  const double measured = MeasuredUs(plan);
  return absl::StrFormat("%s plan, %s: predicted %.2f us%s", plan.name(),
                         plan.UsesM() ? absl::StrCat("m <= ", plan.bucket) : "without M",
                         plan.PredictedUs(),
                         measured > 0 ? absl::StrFormat(", measured %.2f us", measured) : "");
}

double DrawPlanHead(const Plan& plan, Point at, Svg* svg) {
  svg->Text({at.x, at.y + 18}, PlanTitle(plan), "h1");
  svg->Text({at.x, at.y + 38}, absl::StrCat("digest ", plan.PlanDigest().Hex()), "small");
  return 52;
}

double DrawKernelHead(const std::string& numbers, const PlannedKernel& kernel, Point at, Svg* svg) {
  const KernelSpec& spec = kernel.spec;
  svg->Text({at.x, at.y + 14}, absl::StrCat("kernel ", numbers, ": ", spec.family->KindText(spec)),
            "h2");
  const std::string method = spec.family->MethodText(spec);
  if (!method.empty()) svg->Text({at.x, at.y + 31}, method, "small");
  svg->Text({at.x, at.y + 46}, absl::StrCat(ProblemText(spec), "   [", ScheduleText(spec), "]"),
            "small");
  return 62;
}

double DrawLevels(const PlannedKernel& kernel, const std::vector<LevelCost>& levels, Point at,
                  Svg* svg) {
  const Prediction& p = kernel.prediction;
  double longest = 0, y = at.y + 20;
  for (const LevelCost& level : levels) longest = std::max(longest, level.us);
  svg->Text(
      {at.x, at.y + 12},
      absl::StrFormat(
          "predicted time of each level; %s%.2f us%s",
          kernel.spec.stitch == nullptr ? "in all " : "together + fixed = ", p.total_us,
          kernel.measured_us > 0 ? absl::StrFormat(", measured %.2f us", kernel.measured_us) : ""),
      "h3");
  for (const LevelCost& level : levels) {
    DrawLevel(level, longest, {at.x, y}, svg);
    y += kLevelHeight;
  }
  return y - at.y + 4;
}

double DrawLines(absl::string_view text, Point at, absl::string_view style, Svg* svg,
                 double width) {
  double y = at.y;
  std::string line;
  const auto flush = [&] {
    svg->Text({at.x, y + 11}, line, style);
    line.clear();
    y += 15;
  };
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line.empty() && TextWidth(absl::StrCat(line, " ", word), style) > width) flush();
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  if (!line.empty()) flush();
  return y - at.y;
}

std::string PlanSvg(const Explanation& e) {
  if (!e.equal.empty()) return GraphSvg(e);
  const Plan& plan = e.plan;
  Svg svg;
  double y = kMargin + DrawPlanHead(plan, {kMargin, kMargin}, &svg);
  for (size_t i = 0; i < plan.kernels.size(); i++) {
    // Drawn twice: the panel lies behind its contents, and its height is known only afterwards.
    Svg unseen;
    const double height = DrawKernel(e, i, {0, 0}, &unseen) + 2 * kPad;
    const double width = std::max(kDrawingWidth, unseen.Right());
    svg.Rectangle({kMargin, y, width + 2 * kPad, height}, "panel", 8);
    DrawKernel(e, i, {kMargin + kPad, y + kPad}, &svg);
    y += height + kPad;
  }
  y += DrawLegend({kMargin, y}, &svg);
  return svg.Document(svg.Right() + kMargin, y + kMargin / 2, PlanTitle(plan));
}

}  // namespace sinter
