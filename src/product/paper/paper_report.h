// The report of FlashFuser's own search for a problem: the size of its space after each rule, the
// best points, and where Algorithm 1 places the tensor between the products. Text for people, JSON
// for tools.
#ifndef SINTER_SRC_PRODUCT_PAPER_PAPER_REPORT_H_
#define SINTER_SRC_PRODUCT_PAPER_PAPER_REPORT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/product/paper/dataflow_analyzer.h"

namespace sinter {

struct PaperCandidate {
  PaperPoint point;
  double cost_us = 0;
};

struct PaperSearchResult {
  std::vector<PaperCandidate>
      best;                 // at most K, cheapest first; of equal costs the one enumerated first
  uint64_t survivors = 0;   // after the five rules
  uint64_t realisable = 0;  // survivors that the primitives can carry out
};

PaperSearchResult PaperSearch(const PaperProblem& problem, const DeviceModel& model, size_t top_k);

constexpr int kPaperRules = 5;
constexpr uint32_t kPaperTopK = 11;  // the number that the paper compiles and times

struct PaperReport {
  PaperProblem problem;
  std::string chip;                                 // the model's name
  std::array<uint64_t, kPaperRules + 1> counts{};   // points before any rule, after rule 1, ..
  std::array<double, kPaperRules + 1> published{};  // the paper's counts; 0: not published
  PaperSearchResult found;
  std::vector<DataflowReport> dataflows;  // one for each of found.best
};

// The search visits every point that rules 1 to 4 leave: 10 million take about 0.3 s.
// INVALID_ARGUMENT naming a dimension that is not a multiple of 16 up to 65536; RESOURCE_EXHAUSTED
// when more than 10^8 points are left. Deterministic, thread-safe.
absl::StatusOr<PaperReport> MakePaperReport(const PaperProblem& problem, const DeviceModel& model,
                                            size_t top_k);

std::string PaperReportText(const PaperReport& report);
// {"schema": 1, "problem", "chip", "rules": [{"after", "points", "published", "reading"}],
// "survivors", "realisable", "best": [{"us", "loops", "cluster", "tile", "kept_bytes", "mapping",
// "volume"}]}; levels by name, bytes.
std::string PaperReportJson(const PaperReport& report);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_PAPER_PAPER_REPORT_H_
