#include "tests/bench/markdown.h"

namespace sinter::bench {
namespace {

std::string CellOf(const std::optional<double>& value) {
  return value.has_value() ? absl::StrFormat("%.2f", *value) : "-";
}

std::optional<double> RatioOf(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a.has_value() || !b.has_value() || *b <= 0) return std::nullopt;
  return *a / *b;
}

constexpr char kHeader[] =
    "| id | chosen | predicted | us | fused | unfused | cuBLASLt | limit | cuBLASLt / us | "
    "limit / us | us with PDL | mJ | mJ unfused | mJ cuBLASLt | error |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

std::string Line(const Row& row) {
  const std::vector<std::string> cells = {
      row.id,
      row.chosen,
      CellOf(row.predicted_us),
      CellOf(row.chosen_cold_us),
      CellOf(row.fused_cold_us),
      CellOf(row.unfused_cold_us),
      CellOf(row.cublaslt_cold_us),
      CellOf(row.limit_us),
      CellOf(RatioOf(row.cublaslt_cold_us, row.chosen_cold_us)),
      CellOf(RatioOf(row.limit_us, row.chosen_cold_us)),
      CellOf(row.chosen_pdl_us),
      CellOf(row.chosen_mj_per_call),
      CellOf(row.unfused_mj_per_call),
      CellOf(row.cublaslt_mj_per_call),
      row.correct && row.rel_error.has_value() ? absl::StrFormat("%.1e", *row.rel_error) : "wrong"};
  std::string line = "|";
  for (const std::string& cell : cells) absl::StrAppend(&line, " ", cell, " |");
  return absl::StrCat(line, "\n");
}

// Ratios a / b over the rows of a layout that have both; of ids that begin with `prefix`.
template <typename A, typename B>
std::vector<double> Ratios(const Results& results, const std::string& layout, const A& a,
                           const B& b, const char* prefix = "") {
  std::vector<double> ratios;
  for (const Row& row : results.rows) {
    if (row.layout != layout || !absl::StartsWith(row.id, prefix)) continue;
    const std::optional<double> ratio = RatioOf(a(row), b(row));
    if (ratio.has_value()) ratios.push_back(*ratio);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

std::string Spread(const char* what, const std::vector<double>& ratios,
                   const std::vector<double>& thresholds) {
  if (ratios.empty()) return "";
  double logs = 0;
  for (double r : ratios) logs += std::log(r);
  std::string text = absl::StrFormat("  %-28s mean %.2f  least %.2f  median %.2f  most %.2f", what,
                                     std::exp(logs / static_cast<double>(ratios.size())),
                                     ratios.front(), ratios[ratios.size() / 2], ratios.back());
  for (double t : thresholds) {
    const auto above =
        std::count_if(ratios.begin(), ratios.end(), [&](double r) { return r >= t; });
    absl::StrAppendFormat(&text, "  >= %.2f: %d of %d", t, above, ratios.size());
  }
  return text + "\n";
}

std::string LayoutSummary(const Results& results, const std::string& layout) {
  const auto chosen = [](const Row& r) { return r.chosen_cold_us; };
  const auto fused = [](const Row& r) { return r.fused_cold_us; };
  const auto unfused = [](const Row& r) { return r.unfused_cold_us; };
  const auto lt = [](const Row& r) { return r.cublaslt_cold_us; };
  const auto limit = [](const Row& r) { return std::optional<double>(r.limit_us); };
  const auto better = [](const Row& r) -> std::optional<double> {
    if (!r.unfused_cold_us.has_value()) return r.cublaslt_cold_us;
    if (!r.cublaslt_cold_us.has_value()) return r.unfused_cold_us;
    return std::min(*r.unfused_cold_us, *r.cublaslt_cold_us);
  };
  std::string text = absl::StrCat(
      Spread("cuBLASLt / chosen", Ratios(results, layout, lt, chosen), {1.0}),
      Spread("cuBLASLt / unfused", Ratios(results, layout, lt, unfused), {1.0, 0.8}),
      Spread("unfused / fused", Ratios(results, layout, unfused, fused), {1.0, 0.8}),
      Spread("better of both / chosen", Ratios(results, layout, better, chosen), {1.0}),
      Spread("limit / chosen", Ratios(results, layout, limit, chosen), {}));
  for (const char* group : {"G", "S"}) {
    absl::StrAppend(&text, Spread(absl::StrCat(group, ": limit / chosen").c_str(),
                                  Ratios(results, layout, limit, chosen, group), {0.68, 0.80}));
  }
  return text.empty() ? "" : absl::StrCat("layout ", layout, ", cold, plain edges\n", text);
}

}  // namespace

std::string MarkdownTables(const Results& results) {
  std::string text =
      absl::StrCat(results.machine.gpu, ", driver ", results.machine.driver, ", commit ",
                   results.source.commit.substr(0, 12), results.source.dirty ? " (modified)" : "",
                   ", ", results.machine.date, "\n");
  for (const std::string layout : {"oi", "io"}) {
    std::string lines;
    for (const Row& row : results.rows) {
      if (row.layout == layout) absl::StrAppend(&lines, Line(row));
    }
    if (lines.empty()) continue;
    absl::StrAppend(&text, "\nLayout ", layout, ", microseconds, cold, plain graph edges\n\n",
                    kHeader, lines);
  }
  return text;
}

std::string Summary(const Results& results) {
  const auto wrong = std::count_if(results.rows.begin(), results.rows.end(),
                                   [](const Row& r) { return !r.correct; });
  return absl::StrCat(LayoutSummary(results, "oi"), LayoutSummary(results, "io"),
                      results.rows.size(), " rows, ", wrong, " wrong or incomplete\n");
}

}  // namespace sinter::bench
