#include "src/plan/picture/plan_svg.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "src/plan/family.h"
#include "src/plan/picture/picture_svg.h"
#include "src/plan/picture/plan_svg_parts.h"
#include "src/plan/plan_text.h"

namespace sinter {
namespace {

constexpr double kLevelHeight = 17, kLevelWidth = 420;

struct Level {
  const char* name;
  double us;
};

std::vector<Level> ProductLevels(const Prediction& p) {
  return {{"hbm", p.hbm_us},       {"l2", p.l2_us},         {"intake", p.intake_us},
          {"shared", p.shared_us}, {"tensor", p.tensor_us}, {"dsm", p.dsm_us},
          {"fixed", p.fixed_us}};
}

// The times that overlap, their combination, and the fixed time.
std::vector<Level> StitchLevels(const Prediction& p, const FusionTimes& times) {
  std::vector<Level> levels = {{"hbm", p.hbm_us}};
  if (p.l2_us > 0) levels.push_back({"l2", p.l2_us});
  if (times.known) levels.push_back({"issue", times.issue_us});
  if (times.known) levels.push_back({"latency", times.latency_us});
  levels.push_back({"together", p.total_us - p.fixed_us});
  levels.push_back({"fixed", p.fixed_us});
  return levels;
}

void DrawLevel(const Level& level, double longest, bool bound, Point at, Svg* svg) {
  const double part = longest > 0 ? std::clamp(level.us / longest, 0.0, 1.0) : 0;
  svg->Text({at.x + 52, at.y + 11}, level.name, "small", Anchor::kEnd);
  svg->Rectangle({at.x + 58, at.y + 2, std::max(1.0, kLevelWidth * part), kLevelHeight - 5},
                 bound ? "bound" : "level", 2);
  svg->Text({at.x + 64 + kLevelWidth * part, at.y + 11},
            absl::StrFormat("%.2f us%s", level.us, bound ? ", bound" : ""), "small");
}

double DrawKernel(size_t index, const PlannedKernel& kernel, Point at, Svg* svg) {
  double y = at.y + DrawKernelHead(absl::StrCat(index), kernel, at, svg);
  if (!CheckScheduleFields(kernel.spec.sequence, kernel.spec.schedule).ok()) {
    svg->Text({at.x, y + 12}, "a schedule that cannot be drawn", "small");
    return y + 24 - at.y;
  }
  const KernelPicture picture = PictureOf(kernel.spec);
  y += DrawProducts(picture, {at.x, y}, svg);
  y += DrawWindows(picture, {at.x, y}, svg);
  y += DrawCluster(picture, {at.x, y}, svg);
  y += DrawLaunch(picture, {at.x, y}, svg);
  return y + DrawLevels(kernel, FusionTimes(), {at.x, y}, svg) - at.y;
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

double DrawLevels(const PlannedKernel& kernel, const FusionTimes& times, Point at, Svg* svg) {
  const Prediction& p = kernel.prediction;
  const std::vector<Level> levels =
      kernel.spec.stitch == nullptr ? ProductLevels(p) : StitchLevels(p, times);
  double longest = 0, y = at.y + 20;
  for (const Level& level : levels) longest = std::max(longest, level.us);
  svg->Text(
      {at.x, at.y + 12},
      absl::StrFormat(
          "predicted time of each level; %s%.2f us%s",
          kernel.spec.stitch == nullptr ? "in all " : "together + fixed = ", p.total_us,
          kernel.measured_us > 0 ? absl::StrFormat(", measured %.2f us", kernel.measured_us) : ""),
      "h3");
  for (const Level& level : levels) {
    DrawLevel(level, longest, level.name == p.bound, {at.x, y}, svg);
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

std::string PlanSvg(const Plan& plan, const FusionPicture& picture) {
  if (!picture.kernels.empty()) return StitchPlanSvg(plan, picture);
  Svg svg;
  double y = kMargin + DrawPlanHead(plan, {kMargin, kMargin}, &svg);
  for (size_t i = 0; i < plan.kernels.size(); i++) {
    // Drawn twice: the panel lies behind its contents, and its height is known only afterwards.
    Svg unseen;
    const double height = DrawKernel(i, plan.kernels[i], {0, 0}, &unseen) + 2 * kPad;
    const double width = std::max(kDrawingWidth, unseen.Right());
    svg.Rectangle({kMargin, y, width + 2 * kPad, height}, "panel", 8);
    DrawKernel(i, plan.kernels[i], {kMargin + kPad, y + kPad}, &svg);
    y += height + kPad;
  }
  y += DrawLegend({kMargin, y}, &svg);
  return svg.Document(svg.Right() + kMargin, y + kMargin / 2, PlanTitle(plan));
}

}  // namespace sinter
