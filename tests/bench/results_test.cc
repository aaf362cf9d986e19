#include "tests/bench/markdown.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

namespace sinter::bench {
namespace {

TEST(ResultsTest, RowsComeBackAsTheyWereWritten) {
  const std::string file = ::testing::TempDir() + "/sinter_bench_results.json";
  Results results;
  results.machine.gpu = "GPU";
  results.tuning_set = "0123";
  Row row;
  row.id = "G1";
  row.chosen_mj_per_call = 1.5;
  row.batch_invariant_cold_us = 7.25;
  row.untuned_cold_us = 7.5;
  row.correct = true;
  row.notes = {"a note"};
  results.rows = {row};
  results.graphs.resize(1);
  results.graphs[0].id = "adam";
  results.graphs[0].checked = "reference";
  results.graphs[0].chosen_us = 170.5;
  results.graphs[0].untuned_us = 180.5;
  results.search.resize(1);
  results.search[0].kind = "rank";
  ASSERT_TRUE(WriteResults(results, file).ok());
  const auto read = Got(ReadResults(file));
  EXPECT_EQ(read.tuning_set, "0123");
  ASSERT_EQ(read.rows.size(), 1u);
  EXPECT_EQ(read.rows[0].id, "G1");
  EXPECT_EQ(read.rows[0].chosen_mj_per_call, row.chosen_mj_per_call);
  EXPECT_EQ(read.rows[0].batch_invariant_cold_us, row.batch_invariant_cold_us);
  EXPECT_EQ(read.rows[0].untuned_cold_us, row.untuned_cold_us);
  EXPECT_FALSE(read.rows[0].fused_cold_us.has_value());
  EXPECT_EQ(read.rows[0].notes, row.notes);
  ASSERT_EQ(read.graphs.size(), 1u);
  EXPECT_EQ(read.graphs[0].checked, "reference");
  EXPECT_EQ(read.graphs[0].chosen_us, 170.5);
  EXPECT_EQ(read.graphs[0].untuned_us, 180.5);
  EXPECT_FALSE(read.graphs[0].unfused_us.has_value());
  EXPECT_THAT(FileText(file), HasSubstr("\"kind\":\"rank\""));
  EXPECT_THAT(FileText(file), Not(HasSubstr("\"sweep\"")));
  std::remove(file.c_str());
}

TEST(ResultsTest, CommittedFilesReadAndMakeTables) {
  const auto read = Got(ReadResults("tests/bench/results/h200-2026-11-21-42dad2d.json"));
  EXPECT_THAT(MarkdownTables(read), HasSubstr("| S8 | "));
}

TEST(ResultsTest, TableHasOneCellAColumn) {
  Results results;
  Row row;
  row.id = "S8";
  row.layout = "oi";
  results.rows = {row};
  const std::string text = MarkdownTables(results);
  std::vector<std::ptrdiff_t> bars;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line[0] == '|') bars.push_back(std::count(line.begin(), line.end(), '|'));
    begin = end + 1;
  }
  ASSERT_EQ(bars.size(), 3u);
  EXPECT_EQ(bars[0], bars[1]);
  EXPECT_EQ(bars[0], bars[2]);
}

}  // namespace
}  // namespace sinter::bench
