// The mode that prints FlashFuser's own space, and what its rules leave of it. It needs no GPU.
#include "tests/bench/modes.h"
#include "tests/bench/paper/paper.h"

namespace sinter::bench {
namespace {

constexpr char kChip[] = "h200";

absl::StatusOr<PaperReport> ReportOf(const Case& c) {
  SINTER_ASSIGN_OR_RETURN(const PaperProblem problem,
                          PaperProblemOf(c.matched.sequence, c.matched.m.At(c.m)));
  return MakePaperReport(problem, *BuiltinModel(kChip), kPaperTopK);
}

}  // namespace

int PrintPaper(const Options& o) {
  const absl::StatusOr<std::vector<Case>> cases = LoadCases(o.problems, o.ids, o.layout);
  if (!cases.ok()) {
    std::printf("%s\n", std::string(cases.status().message()).c_str());
    return 2;
  }
  int code = 0;
  for (const Case& c : *cases) {
    const absl::StatusOr<PaperReport> report = ReportOf(c);
    if (report.ok()) {
      std::printf("%s\n%s\n", c.id.c_str(), PaperReportText(*report).c_str());
    } else {
      std::printf("%s: %s\n\n", c.id.c_str(), std::string(report.status().message()).c_str());
      code = 1;
    }
  }
  return code;
}

}  // namespace sinter::bench
