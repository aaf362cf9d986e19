#include "src/fusion/plan_choice.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/plan/description.h"
#include "src/plan/family.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

constexpr size_t kRunnersUp = 10;

std::vector<Candidate> RunnersUp(const Plan& chosen, const std::vector<Plan>& others,
                                 const DeviceModel& model) {
  std::vector<const Plan*> order;
  for (const Plan& plan : others) order.push_back(&plan);
  const auto other_kind = std::find_if(
      order.begin(), order.end(), [&](const Plan* plan) { return plan->fused != chosen.fused; });
  if (other_kind != order.end()) std::rotate(order.begin(), other_kind, other_kind + 1);
  if (order.size() > kRunnersUp) order.resize(kRunnersUp);
  std::vector<Candidate> list;
  for (const Plan* plan : order) {
    list.push_back({NameInList(*plan), plan->PredictedUs(), WhyNotChosen(*plan, chosen, model),
                    plan->planned_digest});
  }
  return list;
}

constexpr size_t kReasons = 2;
constexpr double kWorthNaming = 0.25;  // share of the largest growth
constexpr double kNothing = 0.005;     // us; larger differences print as at least 0.01

// The sums over a plan's kernels.
struct PlanFacts {
  Prediction sum;
  KernelFacts kernel;  // sums; reads and warpgroups are the first kernel's
  size_t kernels = 0;
  bool through_l2 = false;  // C of a fused kernel goes through L2
  int ranges = 1;
  int cluster = 1, first_split = 1, second_split = 1, blocks = 0;
};

void AddKernel(const PlannedKernel& kernel, const DeviceModel& model, PlanFacts* out) {
  const KernelFacts f = FactsOf(kernel, model);
  for (const LevelTerm& term : LevelTerms()) out->sum.*term.us += kernel.prediction.*term.us;
  out->sum.hbm_bytes += kernel.prediction.hbm_bytes;
  out->sum.l2_bytes += kernel.prediction.l2_bytes;
  out->sum.dsm_bytes += kernel.prediction.dsm_bytes;
  out->kernel.block_bytes += f.block_bytes;
  out->kernel.shared_bytes += f.shared_bytes;
  out->kernel.flop += f.flop;
  out->kernel.steps += f.steps;
  out->kernel.turns = std::max(out->kernel.turns, f.turns);
}

PlanFacts FactsOf(const Plan& plan, const DeviceModel& model) {
  PlanFacts facts;
  facts.kernels = plan.kernels.size();
  if (plan.kernels.empty()) return facts;
  facts.kernel = FactsOf(plan.kernels.front(), model);
  // These are summed below, over all kernels.
  facts.kernel.block_bytes = facts.kernel.shared_bytes = facts.kernel.flop = 0;
  facts.kernel.steps = 0;
  for (const PlannedKernel& kernel : plan.kernels) AddKernel(kernel, model, &facts);
  const Schedule& first = ProductOf(plan.kernels.front().spec).schedule;
  const Schedule& last = ProductOf(plan.kernels.back().spec).schedule;
  facts.through_l2 = RowOf(first).medium == Medium::kL2;
  facts.ranges = RangesOf(first);
  facts.cluster = std::max(first.cluster, last.cluster);
  facts.blocks = std::min(first.grid, last.grid);
  facts.first_split = first.first.split_k;
  facts.second_split = plan.kernels.size() > 1 ? last.first.split_k : first.second.split_k;
  if (plan.kernels.size() > 1) {
    facts.kernel.c_reads = FactsOf(plan.kernels.back(), model).row_reads;
  }
  return facts;
}

std::string Instead(const std::string& what, const std::string& other, const std::string& chosen) {
  return absl::StrCat(what, other, ", chosen ", chosen);
}

// The operands among rows, C and weights that are read more often; "" for none.
std::string MoreReads(const KernelFacts& other, const KernelFacts& chosen) {
  const std::pair<const char*, int64_t KernelFacts::*> kinds[] = {
      {"rows", &KernelFacts::row_reads},
      {"c", &KernelFacts::c_reads},
      {"weights", &KernelFacts::weight_reads}};
  double most = 1;
  std::string text;
  for (const auto& [name, reads] : kinds) {
    const auto a = other.*reads, b = std::max<int64_t>(1, chosen.*reads);
    const double ratio = static_cast<double>(a) / static_cast<double>(b);
    if (ratio <= most) continue;
    most = ratio;
    text = Instead(absl::StrCat(name, " read "), absl::StrCat(a, " times"),
                   absl::StrCat(chosen.*reads));
  }
  return text;
}

std::string Bytes(double other, double chosen) {
  return Instead("", AmountText(other, "B"), AmountText(chosen, "B"));
}

std::string HbmReason(const PlanFacts& other, const PlanFacts& chosen) {
  return Bytes(other.sum.hbm_bytes, chosen.sum.hbm_bytes);
}

std::string L2Reason(const PlanFacts& other, const PlanFacts& chosen) {
  const std::string reads = MoreReads(other.kernel, chosen.kernel);
  return absl::StrCat(Bytes(other.sum.l2_bytes, chosen.sum.l2_bytes), reads.empty() ? "" : ": ",
                      reads);
}

std::string IntakeReason(const PlanFacts& other, const PlanFacts& chosen) {
  const KernelFacts &a = other.kernel, &b = chosen.kernel;
  if (a.intake == KernelFacts::Intake::kStages && a.steps > b.steps) {
    return Instead("", absl::StrCat(a.steps, " ring stages a block"), absl::StrCat(b.steps));
  }
  if (a.intake == KernelFacts::Intake::kRing && a.bytes_in_flight < b.bytes_in_flight) {
    return Instead("", SizeText(a.bytes_in_flight) + " in flight", SizeText(b.bytes_in_flight));
  }
  std::string text =
      Instead("", AmountText(a.block_bytes, "B") + " into a block", AmountText(b.block_bytes, "B"));
  const std::string reads = MoreReads(a, b);
  if (!reads.empty()) {
    absl::StrAppend(&text, ": ", reads);
  } else if (a.turns > b.turns) {
    absl::StrAppend(&text,
                    Instead(": ", absl::StrCat(a.turns, " tiles a block"), absl::StrCat(b.turns)));
  } else if (a.busy_blocks < b.busy_blocks) {
    absl::StrAppend(
        &text,
        Instead(": ",
                absl::StrCat(Counted(static_cast<uint64_t>(a.busy_blocks), "block"), " with work"),
                absl::StrCat(b.busy_blocks)));
  }
  return text;
}

std::string SharedReason(const PlanFacts& other, const PlanFacts& chosen) {
  return Instead("",
                 AmountText(other.kernel.shared_bytes, "B") + " through a block's shared memory",
                 AmountText(chosen.kernel.shared_bytes, "B"));
}

std::string TensorReason(const PlanFacts& other, const PlanFacts& chosen) {
  if (other.kernel.warpgroups == 1 && chosen.kernel.warpgroups > 1) {
    return Instead("", "a single warpgroup", absl::StrCat(chosen.kernel.warpgroups));
  }
  return Instead("", AmountText(other.kernel.flop, "FLOP") + " in a block",
                 AmountText(chosen.kernel.flop, "FLOP"));
}

std::string DsmReason(const PlanFacts& other, const PlanFacts& chosen) {
  const auto splits = [](const PlanFacts& f) {
    return absl::StrCat(f.first_split, " and ", f.second_split);
  };
  const std::string bytes = Bytes(other.sum.dsm_bytes, chosen.sum.dsm_bytes);
  if (splits(other) != splits(chosen)) {
    return absl::StrCat(bytes, Instead(": K over ", splits(other) + " blocks", splits(chosen)));
  }
  if (other.cluster != chosen.cluster) {
    return absl::StrCat(bytes, Instead(": clusters of ", absl::StrCat(other.cluster),
                                       absl::StrCat(chosen.cluster)));
  }
  if (other.blocks >= chosen.blocks) return bytes;
  return absl::StrCat(bytes, Instead(": sent by ", absl::StrCat(other.blocks, " blocks"),
                                     absl::StrCat(chosen.blocks)));
}

std::string FixedReason(const PlanFacts& other, const PlanFacts& chosen) {
  if (other.kernels > chosen.kernels) {
    return Instead("", absl::StrCat(other.kernels, " launches"), absl::StrCat(chosen.kernels));
  }
  if (other.through_l2 && !chosen.through_l2) return "c is handed over through L2";
  if (other.ranges > chosen.ranges) {
    return Instead("partial sums of ", absl::StrCat(other.ranges, " clusters are added"),
                   absl::StrCat(chosen.ranges));
  }
  if (other.kernel.turns > chosen.kernel.turns) {
    return Instead("", absl::StrCat(other.kernel.turns, " tiles a block"),
                   absl::StrCat(chosen.kernel.turns));
  }
  return "ends of tiles that nothing hides";
}

std::string Reason(absl::string_view level, const PlanFacts& other, const PlanFacts& chosen) {
  using Explain = std::string (*)(const PlanFacts&, const PlanFacts&);
  constexpr std::pair<absl::string_view, Explain> kReasonOf[] = {
      {"hbm", HbmReason},       {"l2", L2Reason},   {"intake", IntakeReason},
      {"shared", SharedReason}, {"dsm", DsmReason}, {"tensor", TensorReason},
      {"fixed", FixedReason}};
  for (const auto& [name, explain] : kReasonOf) {
    if (name == level) return explain(other, chosen);
  }
  return "";
}

// A level that takes longer than in the chosen plan, and why.
struct Growth {
  absl::string_view level;
  double us;
  std::string why;
};

// "predicted 1.20 us slower: hbm +0.90 us (..)", the largest growths first.
std::string SlowerText(double behind, std::vector<Growth> parts, absl::string_view none) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Growth& a, const Growth& b) { return a.us > b.us; });
  std::string text = FormatText("predicted %.2f us slower", behind);
  if (parts.empty() || parts[0].us <= kNothing) return absl::StrCat(text, none);
  for (size_t i = 0; i < std::min(kReasons, parts.size()); i++) {
    const Growth& part = parts[i];
    if (part.us <= kNothing || part.us < kWorthNaming * parts[0].us) break;
    absl::StrAppend(&text, i == 0 ? ": " : ", ", part.level, FormatText(" +%.2f us", part.us),
                    part.why.empty() ? "" : absl::StrCat(" (", part.why, ")"));
  }
  return text;
}

// The same bytes take longer when fewer SMs move them.
std::string BytesBySms(double other, double chosen) {
  const std::string moved = AmountText(other, "B");
  return moved == AmountText(chosen, "B") ? moved + " by fewer SMs" : Bytes(other, chosen);
}

// The sums over a graph's kernels. A kernel takes `fixed` plus its overlapping part: at least the
// time of its bytes, and `rest` for instructions and waits.
struct GraphTimes {
  double hbm = 0, l2 = 0, fixed = 0, rest = 0;
  double hbm_bytes = 0, l2_bytes = 0;
  size_t kernels = 0;
};

GraphTimes TimesOfGraph(const Plan& plan) {
  GraphTimes sum;
  sum.kernels = plan.kernels.size();
  for (const PlannedKernel& kernel : plan.kernels) {
    const Prediction& p = kernel.prediction;
    sum.hbm += p.hbm_us;
    sum.l2 += p.l2_us;
    sum.fixed += p.fixed_us;
    sum.rest += p.total_us - p.fixed_us - p.hbm_us - p.l2_us;
    sum.hbm_bytes += p.hbm_bytes;
    sum.l2_bytes += p.l2_bytes;
  }
  return sum;
}

bool HasBodies(const Plan& plan) {
  return std::any_of(plan.kernels.begin(), plan.kernels.end(),
                     [](const PlannedKernel& kernel) { return StitchOf(kernel.spec) != nullptr; });
}

// For plans with kernels whose ops are a graph. Time beyond the levels is called "instructions and
// waits".
std::string WhyGraphNotChosen(const Plan& other, const Plan& chosen, double behind) {
  if (behind < kNothing) return "predicted less than 0.01 us slower";
  const GraphTimes a = TimesOfGraph(other), b = TimesOfGraph(chosen);
  const std::string kernels = Counted(static_cast<uint64_t>(a.kernels), "kernel");
  return SlowerText(behind,
                    {{"fixed", a.fixed - b.fixed,
                      a.kernels == b.kernels ? "" : Instead("", kernels, absl::StrCat(b.kernels))},
                     {"hbm", a.hbm - b.hbm, BytesBySms(a.hbm_bytes, b.hbm_bytes)},
                     {"l2", a.l2 - b.l2, BytesBySms(a.l2_bytes, b.l2_bytes)},
                     {"instructions and waits", a.rest - b.rest, ""}},
                    "");
}

}  // namespace

FusionResult ChoosePlan(std::vector<Plan> plans, const DeviceModel& model) {
  std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    const double x = a.PredictedUs(), y = b.PredictedUs();
    return x != y ? x < y : a.fused < b.fused;
  });
  FusionResult result;
  result.chosen = std::move(plans.front());
  result.alternatives.assign(std::make_move_iterator(plans.begin() + 1),
                             std::make_move_iterator(plans.end()));
  result.chosen.runners_up = RunnersUp(result.chosen, result.alternatives, model);
  return result;
}

std::string WhyNotChosen(const Plan& other, const Plan& chosen, const DeviceModel& model) {
  const double behind = other.PredictedUs() - chosen.PredictedUs();
  if (!(behind > 0)) return "predicted equal, later in order";
  if (HasBodies(other) || HasBodies(chosen)) return WhyGraphNotChosen(other, chosen, behind);
  const PlanFacts a = FactsOf(other, model), b = FactsOf(chosen, model);
  std::vector<Growth> grown;
  for (const LevelTerm& term : LevelTerms()) {
    const double more = a.sum.*term.us - b.sum.*term.us;
    if (more > kNothing) grown.push_back({term.name, more, Reason(term.name, a, b)});
  }
  return SlowerText(behind, std::move(grown), ": less is loaded while c is handed over");
}

}  // namespace sinter
