// sinter_fit: the cost model of single products against measured schedules; constants of the device
// model that bring predictions nearer to them. Needs no GPU.
#include <nlohmann/json.hpp>

#include "CLI/CLI.hpp"
#include "src/product/schedule_check.h"
#include "src/product/search/space.h"
#include "tests/bench/cases.h"
#include "tests/bench/statistics.h"

namespace sinter::bench {
namespace {

// A schedule of a problem, measured.
struct Point {
  Schedule schedule;
  double measured_us = 0;
};

struct Problem {
  std::string id, line;
  ProductSequence launched, planned;  // with the rows of the launch; with those of its bucket
  std::vector<Point> points;
  bool held_out = false;  // judged on, not fitted to
};

// About half of all ids, the same on every machine.
bool InHeldOutHalf(const std::string& id) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return (hash * 0x9e3779b97f4a7c15u >> 63) != 0;
}

absl::StatusOr<std::vector<Problem>> ReadProblems(const std::vector<std::string>& lists,
                                                  const std::vector<std::string>& results,
                                                  const DeviceModel& model) {
  std::map<std::string, std::map<std::string, double>> measured;
  for (const std::string& file : results) {
    std::ifstream in(file, std::ios::binary);
    const nlohmann::json read = nlohmann::json::parse(in, nullptr, false);
    if (read.is_discarded() || !read.contains("sweep"))
      return absl::InvalidArgumentError(absl::StrCat(file, ": not a results file with a sweep"));
    for (const nlohmann::json& row : read["sweep"]) {
      if (!row["measured_us"].is_null()) measured[row["id"]][row["schedule"]] = row["measured_us"];
    }
  }
  SINTER_ASSIGN_OR_RETURN(const std::vector<Case> cases, LoadCases(lists, {}, "file"));
  std::vector<Problem> problems;
  SearchOptions all{.offered = Offered::kTuning};
  for (const Case& c : cases) {
    const auto found = measured.find(c.id);
    if (found == measured.end() || c.matched.sequence.size() != 1) continue;
    Problem p{c.id, c.line, c.matched.sequence, c.matched.sequence, {}, InHeldOutHalf(c.id)};
    p.launched.m = c.m;
    EnumerateSpace(p.planned, model, all, [&](const Schedule& s) {
      const auto at = found->second.find(s.ToString());
      if (at != found->second.end() && CheckSchedule(p.planned, s, model).ok())
        p.points.push_back({s, at->second});
    });
    problems.push_back(std::move(p));
  }
  return problems;
}

// What distinguishes schedules whose predictions may be off by different amounts.
std::string KindOf(const Problem& p, const Schedule& s) {
  const int64_t rows = p.launched.rows();
  return absl::StrCat(s.swapped ? "swapped" : "plain", " wg", s.warpgroups_m, "x", s.warpgroups_n,
                      s.share == Share::kNone      ? ""
                      : s.share == Share::kWeights ? " shares weights"
                                                   : " shares rows",
                      s.first.split_k > 1 ? " split" : "",
                      rows <= 64     ? ", to 64 rows"
                      : rows <= 128  ? ", to 128"
                      : rows <= 1024 ? ", to 1024"
                                     : ", above");
}

double Mean(const std::vector<double>& of) {
  return of.empty() ? 0
                    : std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
}

double Fastest(const Problem& p) {
  double best = std::numeric_limits<double>::infinity();
  for (const Point& point : p.points) best = std::min(best, point.measured_us);
  return best;
}

// Squared logarithms of measured over predicted, of slow schedules less, and what the first choices
// lose: what the constants are fitted to.
double Loss(const std::vector<Problem>& problems, const DeviceModel& model, bool held_out) {
  double sum = 0, weights = 0;
  for (const Problem& p : problems) {
    if (p.held_out != held_out) continue;
    const double best = Fastest(p);
    for (const Point& point : p.points) {
      const double off =
          std::log(point.measured_us / Predict(p.launched, point.schedule, model).total_us);
      const double weight = std::pow(best / point.measured_us, 4);
      sum += weight * std::min(off * off, 0.25);
      weights += weight;
    }
  }
  return std::sqrt(sum / std::max(weights, 1e-9));
}

// Time of the first choice over the best that was measured, by problem.
std::vector<double> Regrets(const std::vector<Problem>& problems, const DeviceModel& model,
                            std::optional<bool> held_out) {
  std::vector<double> regrets;
  for (const Problem& p : problems) {
    if (held_out.has_value() && p.held_out != *held_out) continue;
    double least = std::numeric_limits<double>::infinity(), chosen = 0;
    for (const Point& point : p.points) {
      const double predicted = Predict(p.planned, point.schedule, model).total_us;
      if (predicted < least) least = predicted, chosen = point.measured_us;
    }
    if (!p.points.empty()) regrets.push_back(chosen / Fastest(p));
  }
  return regrets;
}

void PrintRegrets(const char* of, const std::vector<double>& regrets) {
  if (regrets.empty()) return;
  std::printf(
      "%-10s %3zu problems: first choice / best, mean %.3f, 95th percentile %.3f, most %.3f\n", of,
      regrets.size(), Mean(regrets), Percentile(regrets, 95),
      *std::max_element(regrets.begin(), regrets.end()));
}

void Report(const std::vector<Problem>& problems, const DeviceModel& model) {
  std::map<std::string, std::vector<double>> logs;
  for (const Problem& p : problems) {
    for (const Point& point : p.points) {
      logs[KindOf(p, point.schedule)].push_back(
          std::log(point.measured_us / Predict(p.launched, point.schedule, model).total_us));
    }
  }
  std::printf("%-44s %5s %8s %8s\n", "kind of schedule", "count", "bias", "spread");
  for (const auto& [kind, of] : logs) {
    const double mean = Mean(of);
    double squares = 0;
    for (double log : of) squares += (log - mean) * (log - mean);
    std::printf("%-44s %5zu %8.3f %8.3f\n", kind.c_str(), of.size(), std::exp(mean),
                std::sqrt(squares / static_cast<double>(of.size())));
  }
  std::printf("loss: fitted half %.4f, held out %.4f\n", Loss(problems, model, false),
              Loss(problems, model, true));
  PrintRegrets("fitted", Regrets(problems, model, false));
  PrintRegrets("held out", Regrets(problems, model, true));
  PrintRegrets("all", Regrets(problems, model, std::nullopt));
}

void PrintProblems(const std::vector<Problem>& problems, const DeviceModel& model) {
  for (const Problem& p : problems) {
    const Point* chosen = nullptr;
    const Point* best = nullptr;
    for (const Point& point : p.points) {
      const auto us = [&](const Point& of) {
        return Predict(p.planned, of.schedule, model).total_us;
      };
      if (chosen == nullptr || us(point) < us(*chosen)) chosen = &point;
      if (best == nullptr || point.measured_us < best->measured_us) best = &point;
    }
    if (chosen == nullptr) continue;
    std::printf("%s\n", p.line.c_str());
    for (const Point* one : {chosen, best}) {
      const Prediction of = Predict(p.launched, one->schedule, model);
      std::printf(
          "  %s measured %.2f predicted %.2f (hbm %.1f l2 %.1f intake %.1f shared %.1f tensor %.1f "
          "fixed %.1f) %s\n",
          one == chosen ? "chosen" : "best  ", one->measured_us, of.total_us, of.hbm_us, of.l2_us,
          of.intake_us, of.shared_us, of.tensor_us, of.fixed_us, one->schedule.ToString().c_str());
    }
  }
}

// A line a schedule, for a look by other programs.
void PrintPoints(const std::vector<Problem>& problems, const DeviceModel& model) {
  for (const Problem& p : problems) {
    for (const Point& point : p.points) {
      const Prediction of = Predict(p.launched, point.schedule, model);
      std::printf(
          "%s\t%lld\t%lld\t%lld\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%s\n",
          p.id.c_str(), static_cast<long long>(p.launched.m),
          static_cast<long long>(p.launched[0].n), static_cast<long long>(p.launched[0].k),
          point.measured_us, of.total_us, of.hbm_us, of.l2_us, of.intake_us, of.shared_us,
          of.tensor_us, of.fixed_us, of.dsm_us, point.schedule.ToString().c_str());
    }
  }
}

double* Figure(DeviceModel* model, const std::string& key) {
  double* found = nullptr;
  VisitFields(*model, [&](const char* name, auto& field, double, double) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, double>) {
      if (key == name) found = &field;
    }
  });
  return found;
}

// One constant after the other, by steps that halve, while the loss of the fitted half falls.
void Fit(const std::vector<Problem>& problems, const std::vector<std::string>& keys,
         DeviceModel* model) {
  double loss = Loss(problems, *model, false);
  for (double step = 0.2; step > 0.01; step /= 2) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const std::string& key : keys) {
        double* figure = Figure(model, key);
        for (double factor : {1 + step, 1 / (1 + step)}) {
          const double before = *figure;
          *figure *= factor;
          const double now = Loss(problems, *model, false);
          if (now < loss - 1e-6) {
            loss = now;
            moved = true;
          } else {
            *figure = before;
          }
        }
      }
    }
  }
  for (const std::string& key : keys) std::printf("%s = %.6g\n", key.c_str(), *Figure(model, key));
}

int Main(int argc, char** argv) {
  CLI::App app("The cost model of products against measured schedules.");
  std::vector<std::string> lists, results, keys;
  std::string chip = "h200";
  bool each = false, points = false;
  app.add_option("--lists", lists, "problem lists")->required();
  app.add_option("--results", results, "results files with schedules of these problems")
      ->required();
  app.add_option("--fit", keys, "fields of the device model to fit to half of the problems");
  app.add_option("--model", chip, "built-in device model");
  app.add_flag("--each", each, "print the first choice and the best schedule of each problem");
  app.add_flag("--points", points,
               "print every schedule with its predicted times, columns with tabs");
  CLI11_PARSE(app, argc, argv);
  absl::StatusOr<DeviceModel> model = BuiltinModel(chip);
  if (model.ok()) {
    for (const std::string& key : keys) {
      if (Figure(&*model, key) == nullptr)
        model = absl::InvalidArgumentError(absl::StrCat("--fit ", key, ": no figure of that name"));
      if (!model.ok()) break;
    }
  }
  absl::StatusOr<std::vector<Problem>> problems =
      model.ok() ? ReadProblems(lists, results, *model) : model.status();
  if (!problems.ok()) {
    std::fprintf(stderr, "sinter_fit: %s\n", std::string(problems.status().message()).c_str());
    return 2;
  }
  if (points) {
    PrintPoints(*problems, *model);
    return 0;
  }
  Report(*problems, *model);
  if (each) PrintProblems(*problems, *model);
  if (keys.empty()) return 0;
  Fit(*problems, keys, &*model);
  Report(*problems, *model);
  return 0;
}

}  // namespace
}  // namespace sinter::bench

int main(int argc, char** argv) { return sinter::bench::Main(argc, argv); }
