#include "src/plan/report/plan_report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "src/plan/picture/picture_text.h"
#include "src/plan/plan_text.h"
#include "src/plan/report/cost_report.h"
#include "src/plan/report/intermediate_split.h"

namespace sinter {
namespace {

constexpr int kBar = 20, kColumns = 100;

std::string Bar(double us, double longest) {
  const double part = longest > 0 ? std::clamp(us / longest, 0.0, 1.0) : 0;
  const auto marks = static_cast<size_t>(std::lround(kBar * part));
  return std::string(marks, '#') + std::string(kBar - marks, ' ');
}

std::string LevelLine(const LevelCost& level, double longest) {
  std::string line =
      absl::StrFormat("  %-8s %7.2f |%s| %-22s %s", level.level, level.us, Bar(level.us, longest),
                      level.amount, level.rate.empty() ? "" : absl::StrCat("at ", level.rate));
  line.resize(line.find_last_not_of(' ') + 1);
  if (level.bound) absl::StrAppend(&line, "  <- bound");
  return line + "\n";
}

std::string LevelTable(const std::vector<LevelCost>& levels) {
  double longest = 0;
  for (const LevelCost& level : levels) longest = std::max(longest, level.us);
  std::string text = absl::StrFormat("  %-8s %7s\n", "level", "us");
  for (const LevelCost& level : levels) text += LevelLine(level, longest);
  return text;
}

// Wraps `text` at kColumns; later lines are indented.
std::string Wrapped(absl::string_view text, size_t indent) {
  std::string out, line;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, line, "\n", std::string(indent, ' '));
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  return absl::StrCat(out, line, "\n");
}

}  // namespace

std::string MeasuredText(double predicted_us, double measured_us) {
  std::string text = absl::StrFormat("predicted %.2f us", predicted_us);
  if (!(measured_us > 0)) return text + " (sinter tune measures it)";
  absl::StrAppendFormat(&text, ", measured %.2f us", measured_us);
  if (!(predicted_us > 0)) return text;
  const double more = 100 * (measured_us / predicted_us - 1);
  absl::StrAppendFormat(&text, ": %.1f %% %s than predicted", std::abs(more),
                        more < 0 ? "less" : "more");
  return text;
}

std::string KernelReport(size_t index, const PlannedKernel& kernel, const DeviceModel& model,
                         const KernelFusion* fusion) {
  const KernelSpec& spec = kernel.spec;
  std::string text = KernelHeadText(index, kernel);
  if (CheckScheduleFields(spec.sequence, spec.schedule).ok()) {
    absl::StrAppend(&text, DrawText(PictureOf(spec)));
    const std::string split = IntermediateText(spec.sequence, spec.schedule);
    if (!split.empty()) absl::StrAppend(&text, "  ", split, "\n");
  }
  if (fusion != nullptr) text += KernelFusionText(*fusion);
  const Prediction& p = kernel.prediction;
  const bool stitch = spec.stitch != nullptr;
  const FusionTimes times = fusion == nullptr ? FusionTimes() : fusion->times;
  absl::StrAppend(
      &text, LevelTable(stitch ? StitchLevelsOf(kernel, times, model) : LevelsOf(kernel, model)),
      "  ", stitch ? "together + fixed: " : "", MeasuredText(p.total_us, kernel.measured_us),
      "; bound by ", p.bound.empty() ? "nothing" : p.bound, "\n");
  return text;
}

std::string RunnersUpReport(const std::vector<Candidate>& runners_up) {
  if (runners_up.empty()) return "";
  const size_t shown = std::min(runners_up.size(), kRunnersUpShown);
  std::string text = shown == runners_up.size()
                         ? "runners-up:\n"
                         : absl::StrCat("runners-up, the first ", shown, " of ", runners_up.size(),
                                        " (sinter plan -v, and JSON, have them all):\n");
  for (size_t i = 0; i < shown; i++) {
    const Candidate& c = runners_up[i];
    absl::StrAppend(&text, absl::StrFormat("%4d %8.2f us  ", i + 1, c.predicted_us),
                    Wrapped(c.name, 17), std::string(17, ' '), Wrapped(c.why_not, 17));
  }
  return text;
}

}  // namespace sinter
