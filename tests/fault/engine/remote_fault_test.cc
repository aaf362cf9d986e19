// A useless remote, seen by the engine: plans that are warm here are prepared and launched as if
// there were no remote. Cold plans pay a few budgets at most until the breaker opens.
#include "cache/tiers/tiers.h"
#include "runtime/launch/binding.h"
#include "src/base/numbers.h"
#include "src/chain/problem.h"
#include "src/engine/engine.h"
#include "tests/fakes/fake_compiler.h"
#include "tests/fakes/fake_driver.h"
#include "tests/support/test.h"
#include "tests/unit/cache/remote/remote_testing.h"

namespace sinter {
namespace {

using cache_testing::TempDir;
using remote_testing::FakeServer;
using remote_testing::HoldPort;
using remote_testing::Listen;
using remote_testing::Loopback;
using remote_testing::RedisServer;
using remote_testing::Replying;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kPlans = 30, kRounds = 5, kMostRounds = 40, kLaunches = 2000;
constexpr double kNoiseUs = 5;  // of a launch; one that asks a remote takes longer
constexpr int kColdPlans = 4;
constexpr milliseconds kBudget(50);
// Three late answers in a row open the breaker; the thread that prefetches may be at a fourth.
constexpr size_t kMostLate = 4;
// Ten failures in ten calls open it too; one more may be under way.
constexpr size_t kMostRefused = 11;
constexpr char kNone[] = "none", kNoneAgain[] = "none again";

double Since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

Chain ChainOf(int i) {
  return ParseProblem(absl::StrCat("gemm_chain m=M n=", 256 + 64 * (i % 10), " k=",
                                   64 + 64 * (i / 10), " l=64 act=relu layout=oi dtype=bf16"))
      .value()
      .chain;
}

// What the breaker did, in the order it did it.
class Transitions {
 public:
  LogSink Sink() {
    return LogSink(LogLevel::kInfo, [this](LogLevel, absl::string_view line) {
      const size_t at = line.find("breaker ");
      if (at == absl::string_view::npos) return;
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_.emplace_back(line.substr(at + 8));
    });
  }
  std::vector<std::string> lines() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct Times {
  std::vector<double> prepare_us, launch_us;  // of one, the mean of a round; a round each
};
double Least(const std::vector<double>& of) { return *std::min_element(of.begin(), of.end()); }

// Servers of no use, while it lives.
class UselessServers {
 public:
  ~UselessServers() {
    close(held_);
    close(hole_);
  }
  std::vector<std::pair<std::string, uint16_t>> All() const {
    return {{"dead", dead_},
            {"black hole", black_hole_},
            {"dripping", drip_.port()},
            {"lying", lies_.port()}};
  }
  uint16_t dead() const { return dead_; }

 private:
  uint16_t dead_ = 0, black_hole_ = 0;
  const int held_ = HoldPort(&dead_);
  const int hole_ = Listen(&black_hole_);  // accepts nothing: the kernel says yes, nobody answers
  FakeServer drip_{Replying("$100000\r\n" + std::string(100000, 'x'), 1, 20)};
  FakeServer lies_{Replying("$5\r\nhello\r\n")};
};

class RemoteFaultTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_.SetRecording(false);
    device_ = Device::Open(fake_.Make().value(), 0).value();
    const auto engine = MakeEngine(std::nullopt, nullptr);
    for (int i = 0; i < kPlans; ++i) ASSERT_TRUE(engine->Prepare(ChainOf(i), 16, {}).ok());
  }

  // On the folder that all share; with a remote at `port`.
  std::shared_ptr<Engine> MakeEngine(std::optional<uint16_t> port, Transitions* transitions) {
    Config config{.cache_enabled = false};
    Ports ports = MakePorts(config, -1, "h200", LogSink()).value();
    TierOptions tiers{.local_root = folder_.path(), .sync = false};
    if (port.has_value()) {
      RemoteOptions remote{.secret = "a fleet's key of 32 bytes or so.",
                           .group = "h200",
                           .get_budget = kBudget,
                           .background_budget = 2 * kBudget};
      if (transitions != nullptr) remote.log = transitions->Sink();
      tiers.remote = remote_ =
          std::make_shared<RemoteTier>(remote, std::make_unique<RedisBackend>(Loopback(*port), ""),
                                       std::make_unique<RedisBackend>(Loopback(*port), ""));
    }
    ports.cache_tools = nullptr;  // of the store that goes
    ports.store = std::make_unique<TieredStore>(tiers);
    ports.compiler = std::make_unique<FakeCompiler>();
    ports.loader = MakeLoader(device_).value();
    return Engine::Create(std::move(ports), config, LogSink());
  }

  // One round: everything is in the folder.
  void Warm(std::optional<uint16_t> port, Times* times) {
    const auto engine = MakeEngine(port, nullptr);
    std::vector<std::shared_ptr<const PreparedPlan>> plans;
    const auto start = Clock::now();
    for (int i = 0; i < kPlans; ++i) plans.push_back(Got(engine->Prepare(ChainOf(i), 16, {})));
    times->prepare_us.push_back(Since(start) / kPlans);
    Launch(*plans.front(), times);
    const EngineStats stats = engine->Stats();
    EXPECT_EQ(stats.searched, 0u);
    EXPECT_EQ(stats.kernels_compiled, 0u);
    EXPECT_EQ(stats.store.misses[static_cast<int>(MissReason::kRemoteDown)], 0u);
    if (!port.has_value()) return;
    const RemoteStats asked = remote_->stats();  // no request except the prefetch
    EXPECT_EQ(asked.hits + asked.absent + asked.skipped, 0u);
    EXPECT_LE(asked.errors, 1u);
  }

  void Launch(const PreparedPlan& plan, Times* times) {
    const Stream stream = MakeStream(device_).value();
    constexpr DevicePtr kAt = DevicePtr{1} << 40;
    const auto binding = Got(plan.Bind({kAt, kAt, kAt, 2 * kAt}, 3 * kAt));
    const auto start = Clock::now();
    for (int i = 0; i < kLaunches; ++i) {
      ASSERT_TRUE(plan.Launch(*binding, stream.get(), 16, false).ok());
    }
    times->launch_us.push_back(Since(start) / kLaunches);
  }

  // What plans cost that nobody has, in ms; they are made of other sizes each time.
  double Cold(Engine* engine, int plans) {
    const auto start = Clock::now();
    for (int i = 0; i < plans; ++i) {
      EXPECT_TRUE(engine->Prepare(ChainOf(kPlans + fresh_++), 16, {}).ok());
    }
    return Since(start) / 1000;
  }

  const UselessServers servers_{};
  TempDir folder_;
  FakeDriver fake_;
  std::shared_ptr<const Device> device_;
  std::shared_ptr<RemoteTier> remote_;
  int fresh_ = 0;
};

// Whether none of `times` is slower than without a remote, by the least of all rounds, which other
// work on the machine changes least.
std::string SlowerThanAlone(const std::map<std::string, Times>& times) {
  const Times &one = times.at(kNone), &other = times.at(kNoneAgain);
  for (const auto& [name, of] : times) {
    if (Least(of.prepare_us) > 2 * std::max(Least(one.prepare_us), Least(other.prepare_us)) ||
        Least(of.launch_us) >
            kNoiseUs + 2 * std::max(Least(one.launch_us), Least(other.launch_us))) {
      return name;
    }
  }
  return "";
}

// Rounds of all take turns, so that a busy machine is as busy for each. Two without a remote: what
// differs between these is noise. A machine that is too busy gets more rounds.
TEST_F(RemoteFaultTest, AWarmFolderIsPreparedAndLaunchedAsWithoutARemote) {
  std::map<std::string, Times> times;
  for (int round = 0; round < kRounds || (round < kMostRounds && !SlowerThanAlone(times).empty());
       ++round) {
    Warm(std::nullopt, &times[kNone]);
    for (const auto& [name, port] : servers_.All()) Warm(port, &times[name]);
    Warm(std::nullopt, &times[kNoneAgain]);
  }
  for (const auto& [name, of] : times) {
    std::cout << "warm folder, remote " << name << ": prepare " << Median(of.prepare_us)
              << " us (least " << Least(of.prepare_us) << "), launch " << Median(of.launch_us)
              << " us (least " << Least(of.launch_us) << "), medians of " << of.launch_us.size()
              << "\n";
  }
  EXPECT_EQ(SlowerThanAlone(times), "");
}

TEST_F(RemoteFaultTest, WhatIsColdPaysAFewBudgetsUntilTheBreakerOpens) {
  const double alone = Cold(MakeEngine(std::nullopt, nullptr).get(), kColdPlans);
  for (const auto& [name, port] : servers_.All()) {
    Transitions transitions;
    const auto engine = MakeEngine(port, &transitions);
    const double first = Cold(engine.get(), kColdPlans), then = Cold(engine.get(), kColdPlans);
    std::cout << kColdPlans << " cold plans, remote " << name << ": " << first << " ms, the next "
              << then << " ms, without a remote " << alone << " ms; breaker:";
    for (const std::string& change : transitions.lines()) std::cout << " " << change << ";";
    std::cout << (transitions.lines().empty() ? " stays closed\n" : "\n");
    const std::vector<std::string> changes = transitions.lines();
    EXPECT_EQ(changes.empty(), name == "lying");  // a wrong answer is an answer
    const RemoteStats asked = remote_->stats();
    EXPECT_GT(asked.errors + asked.refused, 0u) << name;
    const auto probes = std::count(changes.begin(), changes.end(), "open -> half-open");
    const size_t most = name == "dead" ? kMostRefused : kMostLate;
    EXPECT_LE(asked.errors, most + static_cast<size_t>(probes)) << name;
    EXPECT_EQ(asked.skipped > 0, name != "lying") << name;
  }
}

TEST_F(RemoteFaultTest, TheBreakerProbesUntilTheServerIsBack) {
  Transitions transitions;
  const auto engine = MakeEngine(servers_.dead(), &transitions);
  const auto state = [&] { return remote_->breaker(); };
  for (int i = 0; i < 5 && state() == CircuitBreaker::State::kClosed; ++i) Cold(engine.get(), 1);
  EXPECT_EQ(state(), CircuitBreaker::State::kOpen);
  std::this_thread::sleep_for(milliseconds(1050));
  Cold(engine.get(), 1);  // a probe, in vain
  EXPECT_EQ(state(), CircuitBreaker::State::kOpen);
  const RedisServer server("", servers_.dead());
  if (!server.running()) GTEST_SKIP() << "no redis-server here";
  std::this_thread::sleep_for(milliseconds(2050));
  Cold(engine.get(), 1);
  std::cout << "a dead remote that comes back, breaker:";
  for (const std::string& change : transitions.lines()) std::cout << " " << change << ";";
  std::cout << "\n";
  EXPECT_THAT(transitions.lines(),
              testing::ElementsAre("closed -> open", "open -> half-open", "half-open -> open",
                                   "open -> half-open", "half-open -> closed"));
}

}  // namespace
}  // namespace sinter
