#include "tests/bench/session.h"

#include "absl/strings/strip.h"
#include "src/reference/rows.h"
#include "tests/bench/case_parts.h"

namespace sinter::bench {
namespace {

constexpr double kSessionSeconds = 240;

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Open(Options options, absl::string_view suffix) {
  std::unique_ptr<Session> session(new Session(std::move(options)));
  SINTER_RETURN_IF_ERROR(session->Start(suffix));
  return session;
}

absl::Status Session::Start(absl::string_view suffix) {
  if (!options_.problems.empty()) {  // graphs are the mode's own to load
    SINTER_ASSIGN_OR_RETURN(
        cases_, LoadCases(options_.problems, options_.ids, options_.layout, options_.TakesCodes()));
  }
  SINTER_ASSIGN_OR_RETURN(config_, ConfigFromEnvironment());
  if (!options_.cache) config_.cache_enabled = false;
  const LogSink log(LogLevel::kError, [](LogLevel, absl::string_view message) {
    std::fprintf(stderr, "%s\n", std::string(message).c_str());
  });
  absl::StatusOr<Ports> ports = MakePorts(config_, options_.device, "", log);
  if (!ports.ok()) return absl::UnavailableError(ports.status().message());
  engine_ = Engine::Create(*std::move(ports), config_, log);
  results_.machine = DescribeMachine(config_, options_.device);
  results_.source = DescribeSource();
  if (engine_->ports().tuning != nullptr) {
    results_.tuning_set = engine_->ports().tuning->SetDigest().Hex();
    Config config = config_;
    config.tuning_set.clear();
    SINTER_ASSIGN_OR_RETURN(Ports others, MakePorts(config, options_.device, "", log));
    untuned_ = Engine::Create(std::move(others), config, log);
  }
  if (options_.measure > 0) results_.tuning_set = absl::StrCat("measured ", options_.measure);
  if (options_.out.empty()) {
    options_.out =
        absl::StrCat(absl::StripSuffix(DefaultFileName(results_), ".json"), suffix, ".json");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Case>> Session::Parts() const {
  std::vector<Case> all;
  for (const Case& c : cases_) {
    SINTER_ASSIGN_OR_RETURN(std::vector<Case> parts, PartsOf(c, ports().model));
    all.insert(all.end(), parts.begin(), parts.end());
  }
  return all;
}

const std::optional<LtContext>& Session::Lt() {
  if (lt_tried_) return lt_;
  lt_tried_ = true;
  absl::StatusOr<LtContext> made = MakeLtContext(ports(), options_.cublaslt);
  if (made.ok()) lt_ = *std::move(made);
  if (!made.ok()) std::printf("%s\n", std::string(made.status().message()).c_str());
  return lt_;
}

PrepareOptions Session::ChosenOptions() const {
  PrepareOptions options;
  if (options_.measure == 0) return options;
  options.measuring.mode = sinter::Measuring::Mode::kFirst;
  options.measuring.top_k = options_.measure;
  return options;
}

std::vector<PreparedCase> Session::Prepare(absl::Span<const Case> cases, const Wanted& wanted) {
  std::vector<std::optional<PreparedCase>> slots(cases.size());
  const auto start = std::chrono::steady_clock::now();
  const EngineStats before = engine_->Stats();
  const double measuring =
      options_.measure > 0 ? kMeasureSeconds * static_cast<double>(cases.size()) : 0;
  watchdog_.Begin("preparing", kSessionSeconds + measuring);
  reference::ParallelFor(options_.compile_threads, static_cast<int64_t>(cases.size()), 1,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             const size_t at = static_cast<size_t>(i);
                             slots[at] = PrepareCase(engine(), untuned(), ChosenOptions(),
                                                     cases[at], wanted);
                           }
                         });
  watchdog_.End();
  std::vector<PreparedCase> prepared;
  for (std::optional<PreparedCase>& slot : slots) prepared.push_back(*std::move(slot));
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const EngineStats stats = engine_->Stats();
  std::printf(
      "prepared %zu chains in %.1f s: %llu kernels compiled, search %.0f ms, compile %.0f ms of "
      "thread time\n",
      cases.size(), spent.count(),
      static_cast<unsigned long long>(stats.kernels_compiled - before.kernels_compiled),
      (stats.search_us - before.search_us) / 1e3, (stats.compile_us - before.compile_us) / 1e3);
  return prepared;
}

bool Session::MeasureEach(
    const Wanted& wanted,
    absl::FunctionRef<bool(const Case& c, const PreparedCase& prepared)> measure) {
  const absl::Span<const Case> all = cases_;
  const size_t at_once = static_cast<size_t>(options_.compile_threads);
  bool right = true;
  for (size_t begin = 0; begin < all.size(); begin += at_once) {
    const absl::Span<const Case> some = all.subspan(begin, at_once);
    const std::vector<PreparedCase> prepared = Prepare(some, wanted);
    for (size_t i = 0; i < some.size(); ++i) {
      right = measure(some[i], prepared[i]) && right;
      if (!Keep()) return false;
    }
  }
  return right;
}

bool Session::Keep() { return Write().ok() && DeviceAlive(); }

bool Session::DeviceAlive() {
  watchdog_.Begin("the device", 10);
  const absl::Status status =
      ports().measurer->RunAndWait([](StreamHandle) { return absl::OkStatus(); });
  watchdog_.End();
  if (!status.ok()) std::printf("the device is lost: %s\n", std::string(status.message()).c_str());
  return status.ok();
}

}  // namespace sinter::bench
