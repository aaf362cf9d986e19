#include "tests/bench/search_quality.h"

#include "src/engine/tune.h"

namespace sinter::bench {
namespace {

constexpr double kSlack = 1.10, kCorrelationAim = 0.9;

const char* VerdictOf(bool reached) { return reached ? "reached" : "SHORT"; }

std::string RatioText(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a.has_value() || !b.has_value()) return "not measured";
  return absl::StrFormat("%.2f us, %.3f of the best (at most %.2f: %s)", *a, *a / *b, kSlack,
                         VerdictOf(*a <= kSlack * *b));
}

std::string Microseconds(const std::optional<double>& value) {
  return value.has_value() ? absl::StrFormat("%.2f", *value) : "-";
}

void Count(const std::vector<SweepRow>& rows, std::set<int>* seen, SearchRow* row) {
  for (const SweepRow& one : rows) {
    if (one.measured_us.has_value() && one.rank == 1) row->first_us = one.measured_us;
    if (one.measured_us.has_value() && one.measured_us < row->best_us.value_or(1e300)) {
      row->best_us = one.measured_us;
      row->best_schedule = one.schedule;
    }
    if (!seen->insert(one.rank).second) continue;
    one.measured_us.has_value() ? ++row->measured : ++row->failed;
  }
}

}  // namespace

std::optional<double> FastestOf(const std::vector<SweepRow>& rows) {
  std::optional<double> best;
  for (const SweepRow& row : rows) {
    if (!row.measured_us.has_value()) continue;
    best = std::min(best.value_or(*row.measured_us), *row.measured_us);
  }
  return best;
}

void Judge(const std::vector<SweepRow>& sample, const std::vector<SweepRow>& top, SearchRow* row) {
  std::set<int> seen;
  Count(top, &seen, row);
  Count(sample, &seen, row);
  row->top_us = FastestOf(top);
  std::vector<double> predicted, measured;
  for (const SweepRow& one : sample) {
    if (!one.measured_us.has_value()) continue;
    predicted.push_back(one.predicted_us.at("total"));
    measured.push_back(*one.measured_us);
  }
  if (measured.size() > 1) row->spearman = RankCorrelation(predicted, measured);
}

std::string BruteForceText(const SearchRow& r) {
  const double tried = r.measured + r.failed;
  std::string text = absl::StrFormat(
      "%s %s: %.0f of %.0f legal schedules tried (%.0f %%), %.0f failed; Spearman %.2f\n", r.id,
      r.layout, tried, r.legal, r.legal > 0 ? 100 * tried / r.legal : 0.0, r.failed,
      r.spearman.value_or(0));
  absl::StrAppend(&text, "  best ", Microseconds(r.best_us), " us: ", r.best_schedule,
                  "\n  predicted best: ", RatioText(r.first_us, r.best_us),
                  "\n  best of the predicted top ", kTop, ": ", RatioText(r.top_us, r.best_us),
                  "\n");
  return text;
}

std::string RankText(const SearchRow& r, const std::optional<double>& sample_best) {
  std::string text = absl::StrFormat(
      "%s %s: Spearman %.3f (at least %.1f: %s) over predicted time; %.0f of %.0f legal schedules "
      "tried, %.0f failed\n",
      r.id, r.layout, r.spearman.value_or(0), kCorrelationAim,
      VerdictOf(r.spearman.value_or(0) >= kCorrelationAim), r.measured + r.failed, r.legal,
      r.failed);
  absl::StrAppend(&text, "  best of the sample ", Microseconds(sample_best),
                  " us; best of the predicted top ", kTop, ": ", RatioText(r.top_us, sample_best),
                  "\n");
  return text;
}

std::string SearchTimesText(const std::vector<SearchRow>& rows) {
  std::string text =
      "search (rank, build and time the top 11) against brute force, seconds\n"
      "  id       legal   tried   search   brute force   whole space   ratio\n";
  for (const SearchRow& r : rows) {
    const double tried = r.measured + r.failed;
    const double whole = tried > 0 ? r.all_seconds * r.legal / tried : 0;
    absl::StrAppendFormat(&text, "  %-5s %8.0f %7.0f %8.2f %13.1f %13.1f %7.1f\n", r.id, r.legal,
                          tried, r.search_seconds, r.all_seconds, whole,
                          r.search_seconds > 0 ? whole / r.search_seconds : 0.0);
  }
  return absl::StrCat(text,
                      "  FlashFuser, Table VIII: G3 362.1 against 1.2 h, 12.25; G4 380.3 against "
                      "3.0 h, 29.05; G5 381.0 against 8.1 h, 68.26\n");
}

}  // namespace sinter::bench
