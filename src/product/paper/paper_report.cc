#include "src/product/paper/paper_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSmallestTile = 16;
constexpr int64_t kMostExtent = 65536;  // below it the count before any rule fits 64 bits
constexpr uint64_t kMostPoints = 100000000;

struct CountedRule {
  const char* after;
  double published;  // for GPT-6.7B with M = 256
  const char* reading;
};
constexpr CountedRule kSteps[kPaperRules + 1] = {
    {"nothing", 2.75e13, "41 loop schedules x 625 cluster shapes x tiles of multiples of 16"},
    {"rule 1", 1.14e8, "a tile is a multiple of 16 and divides its dimension"},
    {"rule 2", 2.47e7, "cls_m cls_n cls_k <= 16 and cls_m cls_l <= 16"},
    {"rule 3", 1.44e7, "K is spatial or the innermost temporal loop"},
    {"rule 4", 9.62e6, "L is not spatial"},
    {"rule 5", 1.15e6, "tiles fit a block's shared memory, what the loops keep the cluster's"}};

constexpr const char* kLevelNames[kMemoryLevels] = {"registers", "shared", "dsm", "l2", "global"};

bool IsPublished(const PaperProblem& p) {
  return p.m == 256 && p.n == 16384 && p.k == 4096 && p.l == 4096;
}

absl::Status CheckExtents(const PaperProblem& p) {
  const std::pair<const char*, int64_t> extents[] = {
      {"m", p.m}, {"n", p.n}, {"k", p.k}, {"l", p.l}};
  for (const auto& [name, extent] : extents) {
    if (extent > 0 && extent <= kMostExtent && extent % kSmallestTile == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("paper search: ", name, " is ", extent,
                                                   ", must be a multiple of 16 up to ", kMostExtent,
                                                   ": rule 1 has tiles that divide it"));
  }
  return absl::OkStatus();
}

RuleSet RulesUpTo(int rule) { return rule == 0 ? RuleSet::None() : RuleSet::UpTo(rule); }

std::string ClusterText(const ClusterShape& c) {
  return absl::StrFormat("cluster m%d n%d k%d l%d (shuffle %d, reduce %d)", c.m, c.n, c.k, c.l,
                         c.Shuffle(), c.Reduce());
}

// Levels with bytes, in MB.
std::string LevelsText(const LevelBytes& bytes) {
  std::vector<std::string> parts;
  for (size_t level = 0; level < kMemoryLevels; ++level) {
    if (bytes[level] == 0) continue;
    parts.push_back(absl::StrFormat("%s %.3f", kLevelNames[level], bytes[level] / 1e6));
  }
  return parts.empty() ? "nothing" : absl::StrJoin(parts, ", ");
}

Json LevelsJson(const LevelBytes& bytes) {
  Json levels = Json::object();
  for (size_t level = 0; level < kMemoryLevels; ++level) levels[kLevelNames[level]] = bytes[level];
  return levels;
}

void AppendPoint(size_t rank, const PaperCandidate& candidate, const DataflowReport& dataflow,
                 std::string* text) {
  const PaperPoint& x = candidate.point;
  absl::StrAppendFormat(text, "%2d  %8.2f us  %s  %s  tile m%d n%d k%d l%d  %d clusters\n", rank,
                        candidate.cost_us, x.loops.ToString(), ClusterText(x.cluster), x.tile.m,
                        x.tile.n, x.tile.k, x.tile.l, dataflow.clusters);
  absl::StrAppend(text, "    kept MB a cluster  ", LevelsText(dataflow.mapping),
                  "\n    moved MB           ", LevelsText(dataflow.volume), "\n");
}

Json PointJson(const PaperCandidate& candidate, const DataflowReport& dataflow) {
  const PaperPoint& x = candidate.point;
  return {
      {"us", candidate.cost_us},
      {"loops", x.loops.ToString()},
      {"cluster", {{"m", x.cluster.m}, {"n", x.cluster.n}, {"k", x.cluster.k}, {"l", x.cluster.l}}},
      {"tile", {{"m", x.tile.m}, {"n", x.tile.n}, {"k", x.tile.k}, {"l", x.tile.l}}},
      {"clusters", dataflow.clusters},
      {"kept_bytes", dataflow.kept_bytes},
      {"mapping", LevelsJson(dataflow.mapping)},
      {"volume", LevelsJson(dataflow.volume)}};
}

}  // namespace

PaperSearchResult PaperSearch(const PaperProblem& problem, const DeviceModel& model, size_t top_k) {
  PaperSearchResult result;
  PaperSpace(problem, model, RuleSet::All()).ForEach([&](const PaperPoint& point) {
    result.survivors++;
    if (!Realisable(problem, point)) return;
    result.realisable++;
    const double cost = MinimaxCost(AnalyzeDataflow(problem, point, model), point, model);
    if (result.best.size() == top_k && !(top_k > 0 && cost < result.best.back().cost_us)) return;
    const auto at = std::upper_bound(
        result.best.begin(), result.best.end(), cost,
        [](double c, const PaperCandidate& candidate) { return c < candidate.cost_us; });
    result.best.insert(at, {point, cost});
    if (result.best.size() > top_k) result.best.pop_back();
  });
  return result;
}

absl::StatusOr<PaperReport> MakePaperReport(const PaperProblem& problem, const DeviceModel& model,
                                            size_t top_k) {
  SINTER_RETURN_IF_ERROR(CheckExtents(problem));
  PaperReport report;
  report.problem = problem;
  report.chip = model.name;
  for (int rule = 0; rule < kPaperRules; ++rule) {
    report.counts[static_cast<size_t>(rule)] = PaperSpace(problem, model, RulesUpTo(rule)).Count();
  }
  const uint64_t walked = report.counts[kPaperRules - 1];
  if (walked > kMostPoints) {
    return absl::ResourceExhaustedError(absl::StrCat("paper search: rules 1 to 4 leave ", walked,
                                                     " points, at most ", kMostPoints,
                                                     " are walked"));
  }
  report.found = PaperSearch(problem, model, top_k);
  report.counts[kPaperRules] = report.found.survivors;
  for (size_t i = 0; i <= kPaperRules; ++i) {
    report.published[i] = IsPublished(problem) ? kSteps[i].published : 0;
  }
  for (const PaperCandidate& candidate : report.found.best) {
    report.dataflows.push_back(AnalyzeDataflow(problem, candidate.point, model));
  }
  return report;
}

std::string PaperReportText(const PaperReport& report) {
  const PaperProblem& p = report.problem;
  std::string text = absl::StrFormat(
      "FlashFuser's space (arXiv 2512.12949, IV-C) of C[m,n] = A[m,k] B[k,n], E[m,l] = C D[n,l]\n"
      "m %d  n %d  k %d  l %d  on %s\n\n%-8s %18s %10s  read as\n",
      p.m, p.n, p.k, p.l, report.chip, "after", "points", "paper");
  for (size_t i = 0; i <= kPaperRules; ++i) {
    const std::string paper =
        report.published[i] > 0 ? absl::StrFormat("%.2e", report.published[i]) : "-";
    absl::StrAppendFormat(&text, "%-8s %18d %10s  %s\n", kSteps[i].after, report.counts[i], paper,
                          kSteps[i].reading);
  }
  absl::StrAppendFormat(&text,
                        "\n%d of them can be carried out by the exchanges; the best by the slowest "
                        "level of Algorithm 1:\n",
                        report.found.realisable);
  for (size_t i = 0; i < report.found.best.size(); ++i) {
    AppendPoint(i + 1, report.found.best[i], report.dataflows[i], &text);
  }
  return text;
}

std::string PaperReportJson(const PaperReport& report) {
  const PaperProblem& p = report.problem;
  Json rules = Json::array(), best = Json::array();
  for (size_t i = 0; i <= kPaperRules; ++i) {
    Json rule = {{"after", kSteps[i].after}, {"points", report.counts[i]}};
    rule["published"] = report.published[i] > 0 ? Json(report.published[i]) : Json(nullptr);
    rule["reading"] = kSteps[i].reading;
    rules.push_back(std::move(rule));
  }
  for (size_t i = 0; i < report.found.best.size(); ++i) {
    best.push_back(PointJson(report.found.best[i], report.dataflows[i]));
  }
  const Json document = {{"schema", 1},
                         {"problem", {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"l", p.l}}},
                         {"chip", report.chip},
                         {"rules", std::move(rules)},
                         {"survivors", report.found.survivors},
                         {"realisable", report.found.realisable},
                         {"best", std::move(best)}};
  return document.dump(2) + "\n";
}

}  // namespace sinter
