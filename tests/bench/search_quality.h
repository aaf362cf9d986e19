// Search quality: what schedules that were measured say about the search's order.
#pragma once

#include "tests/bench/results.h"

namespace sinter::bench {

constexpr int kTop = 11;  // FlashFuser's K: schedules that tuning builds and times

// Fills in `row` what follows from `sample` (the schedules that stand for the space) and `top` (the
// predicted top kTop): counts, a rank that is in both once; best_us of both; top_us; first_us; and
// spearman of the sample.
void Judge(const std::vector<SweepRow>& sample, const std::vector<SweepRow>& top, SearchRow* row);

// Fastest that was measured; absent when none was.
std::optional<double> FastestOf(const std::vector<SweepRow>& rows);

// Lines for people, with the aims next to the figures.
std::string BruteForceText(const SearchRow& row);
// `sample_best`: only the fastest of the sample.
std::string RankText(const SearchRow& row, const std::optional<double>& sample_best);
// Compared with Table VIII of FlashFuser.
std::string SearchTimesText(const std::vector<SearchRow>& rows);

}  // namespace sinter::bench
