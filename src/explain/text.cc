// An explanation as text.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/format.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

constexpr int kBar = 20;
constexpr size_t kColumns = 100;
constexpr size_t kShownNumbers = 6;
constexpr size_t kShownOps = 48;  // of one part
constexpr size_t kShownReasons = 40;
constexpr size_t kRunnersUpShown = 3;

std::string BoundText(const Prediction& p) { return p.bound.empty() ? "nothing" : p.bound; }

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

std::string Trimmed(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

// "plan  m<=128  ..", "without M" for a chain without M; which ops share kernels; the digest.
std::string HeadText(const Explanation& e) {
  const Plan& plan = e.plan;
  return absl::StrFormat(
      "plan  %s  predicted %.2f us  workspace %d B%s%s\n%s\ndigest %s\n",
      plan.UsesM() ? absl::StrCat("m<=", plan.bucket) : "without M", plan.PredictedUs(),
      plan.workspace_bytes, plan.IsStandIn() ? "  stand-ins" : "",
      plan.IsBatchInvariant() ? "  batch-invariant" : "", e.computes, plan.PlanDigest().Hex());
}

// "kernel 0  chain  ..", then its schedule, launch and operands.
std::string KernelHeadText(const Explanation& e, size_t i) {
  const KernelDescription& kernel = e.kernels[i];
  std::string out =
      absl::StrFormat("kernel %d  %s  %s\n  schedule   %s\n", i,
                      NameOf(e.plan.kernels[i].spec.family), kernel.problem, kernel.schedule);
  for (const auto& [name, text] : kernel.lines)
    absl::StrAppendFormat(&out, "  %-10s %s\n", name, text);
  return out;
}

std::string Bar(double us, double longest) {
  const double part = longest > 0 ? std::clamp(us / longest, 0.0, 1.0) : 0;
  const auto marks = static_cast<size_t>(std::lround(kBar * part));
  return std::string(marks, '#') + std::string(kBar - marks, ' ');
}

std::string LevelTable(const std::vector<LevelCost>& levels) {
  double longest = 0;
  for (const LevelCost& level : levels) longest = std::max(longest, level.us);
  std::string text = absl::StrFormat("  %-8s %7s\n", "level", "us");
  for (const LevelCost& level : levels) {
    absl::StrAppend(&text,
                    Trimmed(absl::StrFormat("  %-8s %7.2f |%s| %-22s %s", level.level, level.us,
                                            Bar(level.us, longest), level.amount,
                                            level.rate.empty() ? "" : "at " + level.rate)),
                    level.bound ? "  <- bound\n" : "\n");
  }
  return text;
}

std::string OpLine(const KernelDescription& kernel, int index) {
  const OpPicture& op = kernel.ops[static_cast<size_t>(index)];
  std::string line = absl::StrFormat("    %%%-3d %-14s %-22s", index, op.name, op.type);
  std::vector<std::string> ends;
  for (const OpRead& read : op.reads) ends.push_back(ReadText(kernel, read));
  if (!ends.empty()) absl::StrAppend(&line, " <- ", absl::StrJoin(ends, ", "));
  for (int out : op.writes) {
    absl::StrAppend(&line, " -> ", kernel.writes[static_cast<size_t>(out)].ShortName());
  }
  if (op.saved_bytes > 0) absl::StrAppend(&line, "  saves ", BytesText(op.saved_bytes));
  return Trimmed(line) + "\n";
}

std::string EdgesText(const KernelDescription& kernel) {
  std::vector<std::string> counts;
  for (int i = 0; i < kCompositions; ++i) {
    const int count = kernel.edges[static_cast<size_t>(i)];
    if (count > 0) counts.push_back(absl::StrCat(count, " ", NameOf(Composition(i))));
  }
  return counts.empty() ? "no fused edges" : "fused edges: " + absl::StrJoin(counts, ", ");
}

std::string PartText(const KernelDescription& kernel, const std::vector<std::vector<int>>& alike) {
  std::string text;
  if (kernel.PartCount() > 1) {
    absl::StrAppend(&text, "   ", alike.size(),
                    alike.size() == 1 ? " part:\n" : " parts alike; the first:\n");
  }
  const std::vector<int>& ops = alike.front();
  for (size_t i = 0; i < std::min(ops.size(), kShownOps); ++i) text += OpLine(kernel, ops[i]);
  if (ops.size() > kShownOps) {
    absl::StrAppend(&text, "    and ", ops.size() - kShownOps, " more ops\n");
  }
  return text;
}

std::string DeviceText(const Explanation& e) {
  const PlanOrigin& o = e.origin;
  std::string text = absl::StrCat("device: ", o.device, " (model ", o.model, ", ", o.arch, ")",
                                  o.no_gpu.empty() ? "" : ", ", o.no_gpu, "\n");
  if (o.chosen != e.plan.PlanDigest()) {
    absl::StrAppend(&text, "chosen by planning: ", o.chosen.Hex(), "\n");
  }
  return text;
}

std::string KernelOriginText(const KernelOrigin& kernel) {
  const std::string from =
      kernel.origin == "compiled"   ? FormatText("compiled in %.0f ms", kernel.compile_us / 1e3)
      : kernel.origin == "stand-in" ? "of the library's own (stand-in)"
                                    : absl::StrCat("from the cache (", kernel.origin, ")");
  return absl::StrCat("  kernel ", KernelNumbers(kernel.kernels), ": ",
                      kernel.digest.Hex().substr(0, 16), " ", from,
                      kernel.registers > 0 ? ", " + Counted(kernel.registers, "register") : "",
                      kernel.verified ? ", verified" : ", not verified", "\n");
}

std::string OriginText(const PlanOrigin& o) {
  std::string text =
      absl::StrCat("search: ", o.considered, " considered, ", o.legal, " legal, ",
                   o.from_cache ? "plan from the cache" : "searched now", "\ntuning: ");
  if (o.tuning_digest == Digest()) {
    absl::StrAppend(&text, o.tuning.empty() ? "none" : Printable(o.tuning), "\n");
  } else {
    absl::StrAppend(&text, o.tuning_digest.Hex().substr(0, 16), ", ", Printable(o.tuning),
                    "\ndigest with the tuning set: ", o.agreed.Hex(), "\n");
  }
  text += "cache:\n";
  for (const KernelOrigin& kernel : o.kernels) text += KernelOriginText(kernel);
  return text;
}

// The kernels of a plan, or those that are alike together.
std::string KernelsText(const Explanation& e) {
  std::string text;
  for (const std::vector<int>& equal : e.equal) {
    if (equal.size() > 1) absl::StrAppend(&text, "alike: kernels ", KernelNumbers(equal), "\n");
    text += KernelText(e, static_cast<size_t>(equal.front()));
  }
  if (e.kernels.size() > 1) {
    absl::StrAppend(&text, "all kernels: ", MeasuredText(e.plan.PredictedUs(), MeasuredUs(e.plan)),
                    "\n");
  }
  if (!e.has_ops) return text;
  return absl::StrCat(text, "saved by fusion: ", BytesText(e.saved_bytes), "\n", ApartText(e));
}

}  // namespace

std::string BytesText(int64_t bytes) { return AmountText(static_cast<double>(bytes), "B"); }

std::string KernelNumbers(const std::vector<int>& kernels) {
  if (kernels.size() <= kShownNumbers) return absl::StrJoin(kernels, ", ");
  const std::vector<int> first(kernels.begin(), kernels.begin() + kShownNumbers - 1);
  return absl::StrCat(absl::StrJoin(first, ", "), " .. ", kernels.back(), " (", kernels.size(),
                      ")");
}

std::string ReadText(const KernelDescription& kernel, const OpRead& read) {
  const std::string views =
      read.through.empty() ? "" : absl::StrCat(" (", absl::StrJoin(read.through, ", "), ")");
  if (read.op < 0) return kernel.reads[static_cast<size_t>(read.tensor)].ShortName() + views;
  return absl::StrCat("%", read.op, views, " ", NameOf(read.by));
}

std::string HandsText(const KernelDescription& kernel) {
  std::vector<std::string> lines;
  for (const HandPicture& hand : kernel.hands) {
    lines.push_back(absl::StrCat(hand.value, ", ", BytesText(hand.bytes), " at ", hand.offset));
    if (hand.instead < 0) continue;
    absl::StrAppend(&lines.back(), ", in the slot of ",
                    kernel.hands[static_cast<size_t>(hand.instead)].value);
  }
  if (lines.empty()) return "";
  return absl::StrCat("  handed     in shared memory, of a unit: ", absl::StrJoin(lines, "; "),
                      "\n");
}

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

std::string FusionText(const KernelDescription& kernel) {
  if (kernel.ops.empty()) return "";
  const int parts = kernel.PartCount();
  std::string text = absl::StrCat(
      "  fused      ", Counted(kernel.ops.size(), "op"),
      kernel.inlined > 0 ? absl::StrCat(" and ", kernel.inlined, " that their readers compute")
                         : "",
      parts > 1 ? absl::StrCat(" in ", parts, " packed parts") : "", "; ", EdgesText(kernel),
      "\n  bytes      ", BytesText(kernel.border_bytes), " at the border, ",
      BytesText(kernel.saved_bytes), " saved by fusion\n", HandsText(kernel));
  for (const auto& alike : kernel.parts) text += PartText(kernel, alike);
  return text;
}

std::string KernelText(const Explanation& e, size_t i) {
  const KernelDescription& kernel = e.kernels[i];
  const PlannedKernel& planned = e.plan.kernels[i];
  std::string text = KernelHeadText(e, i);
  if (kernel.products.has_value()) {
    text += ProductsText(*kernel.products);
    const std::string& split = kernel.products->split_text;
    if (!split.empty()) absl::StrAppend(&text, "  ", split, "\n");
  }
  return absl::StrCat(text, FusionText(kernel), LevelTable(kernel.levels), "  ",
                      kernel.sum.empty() ? "" : absl::StrCat(kernel.sum, ": "),
                      MeasuredText(planned.prediction.total_us, planned.measured_us), "; bound by ",
                      BoundText(planned.prediction), "\n");
}

std::string ReasonText(const Explanation& e, const Explanation::Reason& reason) {
  const auto numbers = [&](int group) {
    return KernelNumbers(e.equal[static_cast<size_t>(group)]);
  };
  return absl::StrCat("kernel ", numbers(reason.from_group), " | kernel ", numbers(reason.to_group),
                      reason.count > 1 ? absl::StrCat(" (", reason.count, " times)") : "", ": ",
                      reason.bytes > 0 ? BytesText(reason.bytes) : "nothing", " handed over");
}

std::string ApartText(const Explanation& e) {
  const std::vector<Explanation::Reason> reasons = e.Reasons();
  if (reasons.empty()) return "";
  std::string text = "kernels apart, and why:\n";
  for (size_t i = 0; i < std::min(reasons.size(), kShownReasons); ++i) {
    absl::StrAppend(&text, "  ", ReasonText(e, reasons[i]), "\n    ", Wrapped(reasons[i].why, 4));
  }
  if (reasons.size() > kShownReasons) {
    absl::StrAppend(&text, "  and ", reasons.size() - kShownReasons, " more\n");
  }
  return text;
}

std::string RunnersUpText(const std::vector<Candidate>& runners_up) {
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

std::string PlanText(const Explanation& e) {
  std::string out = HeadText(e);
  for (size_t i = 0; i < e.kernels.size(); i++) {
    const Prediction& p = e.plan.kernels[i].prediction;
    const double measured = e.plan.kernels[i].measured_us;
    absl::StrAppend(&out, KernelHeadText(e, i),
                    absl::StrFormat("  predicted  %.2f us, bound by %s", p.total_us, BoundText(p)),
                    measured > 0 ? absl::StrFormat(", measured %.2f us\n", measured) : "\n");
    absl::StrAppendFormat(
        &out,
        "  levels us  hbm %.2f l2 %.2f intake %.2f shared %.2f dsm %.2f tensor %.2f fixed %.2f\n",
        p.hbm_us, p.l2_us, p.intake_us, p.shared_us, p.dsm_us, p.tensor_us, p.fixed_us);
    absl::StrAppendFormat(&out, "  bytes MB   hbm %.2f l2 %.2f dsm %.2f\n", p.hbm_bytes / 1e6,
                          p.l2_bytes / 1e6, p.dsm_bytes / 1e6);
  }
  if (!e.plan.note.empty()) absl::StrAppend(&out, "note       ", Printable(e.plan.note), "\n");
  const std::vector<Candidate>& others = e.plan.runners_up;
  const size_t shown = std::min(others.size(), kRunnersUpShown);
  for (size_t i = 0; i < shown; i++) {
    absl::StrAppendFormat(&out, "runner-up  %.2f us  %s: %s\n", others[i].predicted_us,
                          others[i].name, others[i].why_not);
  }
  if (shown < others.size()) absl::StrAppend(&out, "runners-up ", others.size() - shown, " more\n");
  return out;
}

std::string SummaryText(const Explanation& e) {
  return absl::StrCat(PlanText(e), DeviceText(e), OriginText(e.origin));
}

std::string ExplanationText(const Explanation& e) {
  std::string text = HeadText(e) + DeviceText(e);
  if (!e.plan.note.empty()) absl::StrAppend(&text, "note: ", Printable(e.plan.note), "\n");
  return absl::StrCat(text, KernelsText(e), OriginText(e.origin), RunnersUpText(e.plan.runners_up));
}

}  // namespace sinter
