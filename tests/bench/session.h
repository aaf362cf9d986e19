// Session: what every mode that measures shares: the engine on a GPU, the cases, the results file.
#pragma once

#include "absl/functional/function_ref.h"
#include "tests/bench/markdown.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace sinter::bench {

constexpr int kSkipped = 77;            // exit status without a GPU
constexpr double kMeasureSeconds = 20;  // that one plan may be measured for

// One thread.
class Session {
 public:
  // UNAVAILABLE without a usable GPU; other errors name the option, the file or the variable.
  // `suffix`: of the default results file.
  static absl::StatusOr<std::unique_ptr<Session>> Open(Options options, absl::string_view suffix);

  const Options& options() const { return options_; }
  const Config& config() const { return config_; }
  Engine* engine() { return engine_.get(); }
  // That plans by prediction come from, where measurements choose; else null.
  Engine* untuned() { return options_.measure > 0 ? engine_.get() : untuned_.get(); }
  const Ports& ports() const { return engine_->ports(); }
  const std::vector<Case>& cases() const { return cases_; }
  // All cases; cases of several sequences are cut into parts.
  absl::StatusOr<std::vector<Case>> Parts() const;
  Results& results() { return results_; }
  gpu_testing::Watchdog* watchdog() { return &watchdog_; }

  // Empty, with one line printed, when there is no cuBLASLt. Opened at the first call.
  const std::optional<LtContext>& Lt();

  // How the chosen plans are prepared.
  PrepareOptions ChosenOptions() const;
  // Prepares as many cases at once as there are compile threads, then calls `measure` for each of
  // them and writes the file: a run that is cut short keeps the measurements so far. True where
  // `measure` was true for all; false after a fault or where the file cannot be written, at once.
  bool MeasureEach(const Wanted& wanted,
                   absl::FunctionRef<bool(const Case& c, const PreparedCase& prepared)> measure);

  // The file as it is so far.
  absl::Status Write() const { return WriteResults(results_, options_.out); }

  // The same, between two measurements; false where that fails, or after a fault, when every later
  // call fails: the measurements so far are in the file, the rest would be noise.
  bool Keep();

 private:
  explicit Session(Options options) : options_(std::move(options)) {}
  absl::Status Start(absl::string_view suffix);
  // On the compile threads; prints how long it took.
  std::vector<PreparedCase> Prepare(absl::Span<const Case> cases, const Wanted& wanted);
  bool DeviceAlive();

  Options options_;
  Config config_;
  gpu_testing::Watchdog watchdog_;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Engine> untuned_;  // without the tuning set; null without one
  std::vector<Case> cases_;
  Results results_;
  std::optional<LtContext> lt_;
  bool lt_tried_ = false;
};

}  // namespace sinter::bench
