#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "src/product/paper/paper.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<PaperReport> ReportOf(const PaperProblem& problem, size_t top_k = 11) {
  return MakePaperReport(problem, *BuiltinModel("h200"), top_k);
}

TEST(PaperReport, StandsBesideThePublishedCounts) {
  const auto report = ReportOf({256, 16384, 4096, 4096});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->counts[0], 27514634240000u);
  EXPECT_EQ(report->counts[5], 1544245u);
  EXPECT_EQ(report->found.survivors, 1544245u);
  ASSERT_EQ(report->dataflows.size(), 11u);
  const std::string text = PaperReportText(*report);
  EXPECT_THAT(text, HasSubstr("27514634240000   2.75e+13"));
  EXPECT_THAT(text, HasSubstr("1544245   1.15e+06"));
  EXPECT_THAT(text, HasSubstr("\n11 "));
}

TEST(PaperReport, HasNoPublishedCountsOfOtherProblems) {
  const auto report = ReportOf({128, 512, 32, 256}, 3);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->published[0], 0);
  EXPECT_EQ(PaperReportText(*report).find("e+13"), std::string::npos);
  const std::string json = PaperReportJson(*report);
  EXPECT_THAT(json, HasSubstr("\"published\": null"));
  EXPECT_THAT(json, HasSubstr("\"realisable\""));
}

// What is kept is placed whole: Algorithm 1 spills to the next level, and global memory takes the
// rest.
TEST(PaperReport, PlacesAllOfWhatIsKept) {
  const auto report = ReportOf({64, 256, 64, 64});
  ASSERT_TRUE(report.ok()) << report.status();
  for (const DataflowReport& dataflow : report->dataflows) {
    double placed = 0;
    for (const double bytes : dataflow.mapping) placed += bytes;
    EXPECT_DOUBLE_EQ(placed, dataflow.kept_bytes);
  }
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
