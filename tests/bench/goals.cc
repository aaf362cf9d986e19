#include "tests/bench/goals.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "tests/bench/statistics.h"

namespace sinter::bench {
namespace {

constexpr double kPercentileAim = 0.97, kWorstAim = 0.90;

const char* Verdict(bool reached) { return reached ? "reached" : "SHORT"; }

// M of a row of the batch sweep, whose ids are L and M.
std::optional<int64_t> BatchOf(const Row& row) {
  absl::string_view digits = row.id;
  int64_t m = 0;
  if (!absl::ConsumePrefix(&digits, "L") || !absl::SimpleAtoi(digits, &m)) return std::nullopt;
  return m;
}

std::optional<double> Ratio(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a.has_value() || !b.has_value() || *b <= 0) return std::nullopt;
  return *a / *b;
}

std::string Cell(const std::optional<double>& value) {
  return value.has_value() ? absl::StrFormat("%8.2f", *value) : "       -";
}

}  // namespace

double RequiredBatchRatio(int64_t m) {
  const std::pair<int64_t, double> required[] = {{16, 1.04},  {32, 1.08},  {64, 1.12},
                                                 {128, 1.20}, {256, 1.15}, {1024, 1.08}};
  for (const auto& [most, ratio] : required) {
    if (m <= most) return ratio;
  }
  return 1.0;
}

std::string BatchText(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    const std::optional<int64_t> m = BatchOf(row);
    if (!m.has_value()) continue;
    const std::optional<double> ratio = Ratio(row.cublaslt_cold_us, row.chosen_cold_us);
    const double required = RequiredBatchRatio(*m);
    absl::StrAppendFormat(&text, "  %4d  %s %s %s %s %s  %s  %.2f  %s\n", *m, row.layout,
                          Cell(row.chosen_cold_us), Cell(row.unfused_cold_us),
                          Cell(row.cublaslt_cold_us), Cell(row.limit_us), Cell(ratio), required,
                          ratio.has_value() ? Verdict(*ratio >= required) : "-");
  }
  if (text.empty()) return text;
  return absl::StrCat(
      "batch sweep, cold, plain edges\n"
      "     M  layout chosen unfused cuBLASLt    limit  cuBLASLt/chosen  required\n",
      text);
}

std::optional<double> SpeedOf(const Row& row) {
  std::optional<double> best = row.unfused_cold_us;
  if (row.cublaslt_cold_us.has_value()) {
    best = std::min(best.value_or(*row.cublaslt_cold_us), *row.cublaslt_cold_us);
  }
  return Ratio(best, row.chosen_cold_us);
}

std::string NeverSlowerText(const std::vector<Row>& rows) {
  std::vector<std::pair<double, const Row*>> speeds;
  std::vector<double> values;
  for (const Row& row : rows) {
    const std::optional<double> speed = SpeedOf(row);
    if (!speed.has_value()) continue;
    speeds.push_back({*speed, &row});
    values.push_back(*speed);
  }
  if (speeds.empty()) return "never slower: nothing was measured\n";
  std::sort(speeds.begin(), speeds.end());
  std::string text = "better of unfused and cuBLASLt / chosen, cold, plain edges, slowest first\n";
  for (const auto& [speed, row] : speeds) {
    absl::StrAppendFormat(&text, "  %6.3f  %-7s chosen %s unfused %s cuBLASLt %s  %s\n", speed,
                          row->chosen, Cell(row->chosen_cold_us), Cell(row->unfused_cold_us),
                          Cell(row->cublaslt_cold_us), row->problem);
  }
  const double low = Percentile(values, 5), worst = speeds.front().first;
  absl::StrAppendFormat(&text,
                        "of %d problems, %d measured: 5th percentile %.3f (aim %.2f, %s), worst "
                        "%.3f (aim %.2f, %s), median %.3f, geometric mean %.3f\n",
                        rows.size(), speeds.size(), low, kPercentileAim,
                        Verdict(low >= kPercentileAim), worst, kWorstAim,
                        Verdict(worst >= kWorstAim), Percentile(values, 50), GeometricMean(values));
  return text;
}

std::string GraphsText(const std::vector<GraphRow>& rows) {
  std::vector<double> limits, speeds;
  double kernels = 0, unfused_kernels = 0;
  std::string slower;
  for (const GraphRow& row : rows) {
    const std::optional<double> limit = Ratio(row.limit_us, row.chosen_us);
    const std::optional<double> speed = Ratio(row.unfused_us, row.chosen_us);
    if (limit.has_value()) limits.push_back(*limit);
    if (!speed.has_value()) continue;
    speeds.push_back(*speed);
    kernels += row.kernels;
    unfused_kernels += row.unfused_kernels;
    if (*speed < kPercentileAim) absl::StrAppendFormat(&slower, " %s (%.3f)", row.id, *speed);
  }
  if (limits.empty()) return "";
  const auto least = [](const std::vector<double>& v) {
    return *std::min_element(v.begin(), v.end());
  };
  std::string text =
      absl::StrFormat("limit / chosen: geometric mean %.3f, least %.3f, of %d graphs\n",
                      GeometricMean(limits), least(limits), limits.size());
  if (speeds.empty()) return text;
  absl::StrAppendFormat(&text,
                        "unfused / chosen: geometric mean %.3f, least %.3f; %.0f kernels of %.0f\n",
                        GeometricMean(speeds), least(speeds), kernels, unfused_kernels);
  absl::StrAppendFormat(&text, "below %.2f of the unfused plan:%s\n", kPercentileAim,
                        slower.empty() ? " none" : slower);
  return text;
}

std::string BatchInvariantText(const std::vector<Row>& rows) {
  std::vector<double> costs;
  const Row* worst = nullptr;
  double most = 0;
  for (const Row& row : rows) {
    const std::optional<double> cost = Ratio(row.batch_invariant_cold_us, row.chosen_cold_us);
    if (!cost.has_value()) continue;
    costs.push_back(*cost);
    if (*cost > most) most = *cost, worst = &row;
  }
  if (worst == nullptr) return "";
  return absl::StrFormat(
      "batch-invariant / chosen over %d problems: geometric mean %.3f, most %.3f (%s %s)\n",
      costs.size(), GeometricMean(costs), most, worst->id, worst->layout);
}

}  // namespace sinter::bench
