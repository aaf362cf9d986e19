#include "tests/bench/ablation.h"

#include "absl/algorithm/container.h"
#include "tests/bench/statistics.h"

namespace sinter::bench {
namespace {

bool UsesDsm(const PlacedSchedule& s) { return s.ranked.prediction.dsm_bytes > 0; }

std::optional<double> StepUs(const std::vector<SweepRow>& sweep, const Row& row, const char* kind) {
  std::vector<double> times;
  for (const SweepRow& one : sweep) {
    if (one.id != row.id || one.layout != row.layout || one.kind != kind) continue;
    if (one.measured_us.has_value()) times.push_back(*one.measured_us);
  }
  return times.empty() ? std::nullopt : std::optional<double>(GeometricMean(times));
}

// Speedups of one step over no fusion and over cuBLASLt.
struct Step {
  std::vector<double> over_unfused, over_cublaslt;
};

void Add(const Row& row, const std::optional<double>& us, Step* step) {
  if (!us.has_value()) return;
  if (row.unfused_cold_us.has_value()) step->over_unfused.push_back(*row.unfused_cold_us / *us);
  if (row.cublaslt_cold_us.has_value()) step->over_cublaslt.push_back(*row.cublaslt_cold_us / *us);
}

std::string Us(const std::optional<double>& us) {
  return us.has_value() ? absl::StrFormat("%9.2f", *us) : "        -";
}

std::string MeanText(const std::vector<double>& values) {
  return values.empty() ? "    -" : absl::StrFormat("%5.2f", GeometricMean(values));
}

std::string MeansText(const std::string& group, const std::vector<Step>& steps) {
  std::string text = absl::StrFormat("  %-4s", group);
  for (const Step& step : steps) {
    absl::StrAppendFormat(&text, "  %s (%s) of %d", MeanText(step.over_unfused),
                          MeanText(step.over_cublaslt), step.over_unfused.size());
  }
  return absl::StrCat(text, "\n");
}

}  // namespace

std::vector<PlacedSchedule> WithoutDsm(const std::vector<PlacedSchedule>& legal) {
  for (const PlacedSchedule& s : legal) {
    if (!UsesDsm(s)) return {s};
  }
  return {};
}

std::vector<PlacedSchedule> RandomWithDsm(const std::vector<PlacedSchedule>& legal, size_t count,
                                          uint64_t seed) {
  std::vector<PlacedSchedule> picked;
  for (size_t i : Shuffled(legal.size(), seed)) {
    if (picked.size() == count) break;
    if (UsesDsm(legal[i])) picked.push_back(legal[i]);
  }
  return picked;
}

std::vector<PlacedSchedule> OfTuningAlone(const std::vector<PlacedSchedule>& legal) {
  std::vector<PlacedSchedule> best;
  for (const PlacedSchedule& s : legal) {
    const Dataflow dataflow = s.ranked.schedule.dataflow;
    const bool first = absl::c_none_of(best, [&](const PlacedSchedule& other) {
      return other.ranked.schedule.dataflow == dataflow;
    });
    if (first && RowOf(dataflow).offered == Offered::kTuning) best.push_back(s);
  }
  return best;
}

std::string AblationText(const std::vector<Row>& rows, const std::vector<SweepRow>& sweep) {
  std::string text =
      "cold, plain edges, microseconds\n"
      "  id      unfused  no DSM   DSM random  searched  cuBLASLt\n";
  std::map<std::string, std::vector<Step>> groups;
  for (const Row& row : rows) {
    const std::optional<double> steps[] = {StepUs(sweep, row, kWithoutDsm),
                                           StepUs(sweep, row, kRandomDsm), row.chosen_cold_us};
    absl::StrAppendFormat(&text, "  %-5s %s %s %s %s %s\n", row.id, Us(row.unfused_cold_us),
                          Us(steps[0]), Us(steps[1]), Us(steps[2]), Us(row.cublaslt_cold_us));
    for (const std::string& group : {row.id.substr(0, 1), std::string("all")}) {
      std::vector<Step>& sums = groups[group];
      sums.resize(3);
      for (size_t i = 0; i < 3; ++i) Add(row, steps[i], &sums[i]);
    }
  }
  absl::StrAppend(&text,
                  "geometric mean of unfused / step, in brackets of cuBLASLt / step: no DSM, DSM "
                  "random, searched\n");
  for (const auto& [group, steps] : groups) absl::StrAppend(&text, MeansText(group, steps));
  return absl::StrCat(text,
                      "  FlashFuser, Fig. 15, over no fusion, G1..G10 and C1..C8: 1.52, 2.11, "
                      "3.29\n");
}

}  // namespace sinter::bench
