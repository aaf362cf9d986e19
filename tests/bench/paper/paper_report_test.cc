// FlashFuser's search and the report of it.
#include "tests/bench/cases.h"
#include "tests/bench/paper/paper.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(PaperSearch, KeepsTheCheapestOfEverySurvivor) {
  const PaperProblem p{32, 64, 32, 32};
  const DeviceModel model = *BuiltinModel("h200");
  const PaperSearchResult found = PaperSearch(p, model, 11);
  double cheapest = 1e300;
  uint64_t survivors = 0, realisable = 0;
  PaperSpace(p, model, RuleSet::All()).ForEach([&](const PaperPoint& x) {
    survivors++;
    if (!Realisable(p, x)) return;
    realisable++;
    cheapest = std::min(cheapest, MinimaxCost(AnalyzeDataflow(p, x, model), x, model));
  });
  ASSERT_EQ(found.best.size(), 11u);
  EXPECT_EQ(found.best[0].cost_us, cheapest);
  EXPECT_EQ(found.survivors, survivors);
  EXPECT_EQ(found.realisable, realisable);
  for (size_t i = 1; i < found.best.size(); i++) {
    EXPECT_GE(found.best[i].cost_us, found.best[i - 1].cost_us);
  }
}

TEST(PaperSearch, ConsidersAMillionCandidatesOfGpt67B) {
  const PaperProblem p{256, 16384, 4096, 4096};
  const PaperSearchResult found = PaperSearch(p, *BuiltinModel("h200"), 11);
  EXPECT_GE(found.survivors, 1000000u);
  EXPECT_EQ(found.best.size(), 11u);
}

TEST(PaperSearch, IsDeterministic) {
  const PaperProblem p{128, 512, 32, 256};
  const DeviceModel model = *BuiltinModel("h200");
  const auto a = PaperSearch(p, model, 5), b = PaperSearch(p, model, 5);
  ASSERT_EQ(a.best.size(), b.best.size());
  for (size_t i = 0; i < a.best.size(); i++) {
    EXPECT_EQ(a.best[i].cost_us, b.best[i].cost_us);
    EXPECT_TRUE(a.best[i].point.cluster == b.best[i].point.cluster);
  }
}

TEST(PaperSearch, KeepsNothingWhenAskedForNothing) {
  const auto none = PaperSearch({32, 32, 32, 32}, *BuiltinModel("h200"), 0);
  EXPECT_TRUE(none.best.empty());
  EXPECT_GT(none.survivors, 0u);
}

absl::StatusOr<PaperReport> ReportOf(const PaperProblem& problem, size_t top_k = 11) {
  return MakePaperReport(problem, *BuiltinModel("h200"), top_k);
}

TEST(PaperReport, StandsBesideThePublishedCounts) {
  const auto report = Got(ReportOf({256, 16384, 4096, 4096}));
  EXPECT_EQ(report.counts[0], 27514634240000u);
  EXPECT_EQ(report.counts[5], 1544245u);
  EXPECT_EQ(report.found.survivors, 1544245u);
  ASSERT_EQ(report.dataflows.size(), 11u);
  const std::string text = PaperReportText(report);
  EXPECT_THAT(text, HasSubstr("27514634240000   2.75e+13"));
  EXPECT_THAT(text, HasSubstr("1544245   1.15e+06"));
  EXPECT_THAT(text, HasSubstr("\n11 "));
}

TEST(PaperReport, HasNoPublishedCountsOfOtherProblems) {
  const auto report = Got(ReportOf({128, 512, 32, 256}, 3));
  EXPECT_EQ(report.published[0], 0);
  EXPECT_EQ(PaperReportText(report).find("e+13"), std::string::npos);
}

// A kept tensor is placed whole: Algorithm 1 spills to the next level, and global memory takes the
// rest.
TEST(PaperReport, PlacesAllOfWhatIsKept) {
  const auto report = Got(ReportOf({64, 256, 64, 64}));
  for (const DataflowReport& dataflow : report.dataflows) {
    double placed = 0;
    for (const double bytes : dataflow.mapping) placed += bytes;
    EXPECT_DOUBLE_EQ(placed, dataflow.kept_bytes);
  }
}

absl::StatusOr<PaperProblem> ProblemOf(const std::string& file, const std::string& id) {
  const auto cases = Got(bench::LoadCases({"tests/bench/problems/" + file}, {id}, "oi"));
  const bench::Case& c = cases.front();
  return PaperProblemOf(c.matched.sequence, c.matched.m.At(c.m));
}

TEST(PaperReport, AnswersTheProblemThatWasAsked) {
  const auto pixels = Got(ProblemOf("conv_chains.txt", "C1"));
  EXPECT_EQ(pixels.m, 56 * 56);
  EXPECT_EQ(pixels.n, 256);
  EXPECT_EQ(pixels.k, 64);
  EXPECT_EQ(pixels.l, 64);
  EXPECT_THAT(ProblemOf("gated_ffn.txt", "S8").status().message(),
              HasSubstr("a product has a gate; the published space is for gemm_chain"));
  EXPECT_THAT(ProblemOf("conv_chains.txt", "C5").status().message(),
              HasSubstr("a convolution has more than one tap"));
}

TEST(PaperReport, RefusesWhatNoTileDividesAndWhatIsTooMuch) {
  EXPECT_EQ(ReportOf({1, 512, 32, 256}).status().message(),
            "paper search: m is 1, must be a multiple of 16 up to 65536: rule 1 has tiles that "
            "divide it");
  EXPECT_TRUE(absl::IsInvalidArgument(ReportOf({16, 512, -16, 256}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReportOf({16, int64_t{1} << 40, 16, 256}).status()));
  const absl::Status many = ReportOf({50400, 50400, 50400, 50400}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(many)) << many;
}

}  // namespace
}  // namespace sinter
