// Processes of one host, through the C ABI: what a start costs from exec to the last plan, and that
// cold ones compile each kernel once among them, with the real NVRTC.
#include <signal.h>
#include <spawn.h>

#include "sinter/sinter.h"
#include "sinter/sinter_experimental.h"
#include "src/capi/objects.h"
#include "src/engine/cache_tools.h"
#include "tests/support/no_compiler.h"
#include "tests/unit/cache/cache_testing.h"

extern char** environ;

namespace sinter {
namespace {

using cache_testing::TempDir;
using Clock = std::chrono::steady_clock;

constexpr char kNowhere[] = "/dev/null/libnvrtc.so";

bool LongRun() { return std::getenv("SINTER_TEST_LONG") != nullptr; }

int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

// A child under way. What it says is read from its standard output.
class Child {
 public:
  Child(const std::string& dir, const std::string& pack, const std::string& nvrtc, int first,
        int count) {
    const std::vector<std::string> words = {
        SINTER_CHILD, dir, pack, nvrtc, absl::StrCat(first), absl::StrCat(count)};
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    started_us = NowUs();
    EXPECT_EQ(posix_spawn(&pid_, SINTER_CHILD, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    out_ = fdopen(ends[0], "r");
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) Kill();
    fclose(out_);
  }

  // Reads on until `event`; false at the end.
  bool Await(const std::string& event) {
    char line[256];
    while (fgets(line, sizeof(line), out_) != nullptr) {
      std::istringstream words(line);
      std::string name;
      words >> name;
      if (name == "stats") {
        words >> searched >> compiled >> kernel_hits >> nvrtc_loaded >> positions;
      } else if (at_us.count(name) == 0) {
        words >> at_us[name];
      }
      if (name == event) return true;
    }
    return false;
  }
  // The exit status, or minus the signal.
  int Wait() {
    while (Await("")) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int64_t Kill() {
    const int64_t now = NowUs();
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return now;
  }

  int64_t started_us = 0;
  std::map<std::string, int64_t> at_us;  // the first of each event
  uint64_t searched = 0, compiled = 0, kernel_hits = 0, nvrtc_loaded = 0;
  uint64_t positions = 0;  // of kernels in its plans; several may have one kernel

 private:
  pid_t pid_ = -1;
  FILE* out_ = nullptr;
};

std::string Nvrtc() {
  const char* path = std::getenv("SINTER_NVRTC");
  return path != nullptr ? path : "";
}

bool ExportPack(const std::string& dir, const std::string& path) {
  sinter_context_options options = SINTER_INIT(sinter_context_options);
  options.target = "h200";
  options.cache_dir = dir.c_str();
  sinter_context* context = nullptr;
  if (sinter_context_create(&options, &context, nullptr) != SINTER_OK) return false;
  sinter::ExportRequest request{.path = path};
  request.wanted = [&](auto kind, auto key, auto payload) {
    return context->engine->CheckStored(kind, key, payload).ok();
  };
  const bool exported = context->engine->ports().cache_tools->Export(request).ok();
  sinter_context_release(context);
  return exported;
}

// The best of `rounds` starts, by the time from exec to the last plan. `kernels`: of the plans.
void PrintStart(const std::string& from, const std::string& dir, const std::string& pack, int plans,
                uint64_t kernels) {
  constexpr int kRounds = 7;
  std::vector<std::vector<double>> times;
  for (int round = 0; round < kRounds; ++round) {
    Child child(dir, pack, kNowhere, 0, plans);
    ASSERT_EQ(child.Wait(), 0);
    EXPECT_EQ(child.compiled, 0u);
    EXPECT_EQ(child.searched, 0u);
    EXPECT_EQ(child.nvrtc_loaded, 0u);
    EXPECT_EQ(child.kernel_hits, kernels);
    std::vector<double> ms;
    for (const char* event : {"plans", "main", "context", "chains"}) {
      ms.push_back(static_cast<double>(child.at_us[event] - child.started_us) / 1e3);
    }
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  const std::vector<double>&best = times.front(), &median = times[kRounds / 2];
  std::cout << "from exec to " << plans << " plans, " << from
            << ", NVRTC absent, no driver, ms: " << best[0] << " (median " << median[0]
            << "): exec and linking " << best[1] << ", context " << best[2] - best[1] << ", chains "
            << best[3] - best[2] << ", prepare " << best[0] - best[3] << "\n";
}

TEST(ProcessStartTest, FromExecToPreparedPlans) {
  const int plans = LongRun() ? 100 : 10;
  TempDir temp;
  uint64_t kernels = 0;
  {
    Child builder(temp / "store", "", Nvrtc(), 0, plans);
    const int status = builder.Wait();
    if (status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER("no plan was built");
    ASSERT_EQ(status, 0);
    kernels = builder.compiled;
    EXPECT_LE(kernels, builder.positions);
    EXPECT_EQ(kernels, InspectLocalStore(temp / "store")->kernels);
  }
  ASSERT_TRUE(ExportPack(temp / "store", temp / "all.pack"));
  PrintStart("from the local store", temp / "store", "", plans, kernels);
  PrintStart("from a pack", "", temp / "all.pack", plans, kernels);
}

TEST(ColdProcessesTest, EightCompileEveryKernelOnceAmongThem) {
  constexpr int kProcesses = 8;
  const int chains = LongRun() ? 20 : 4;
  TempDir temp;
  const int64_t start = NowUs();
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(std::make_unique<Child>(temp / "store", "", Nvrtc(), 0, chains));
  }
  uint64_t compiled = 0, searched = 0, hits = 0;
  for (const auto& child : children) {
    const int status = child->Wait();
    if (status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER("no plan was built");
    ASSERT_EQ(status, 0);
    compiled += child->compiled;
    searched += child->searched;
    hits += child->kernel_hits;
  }
  const double seconds = static_cast<double>(NowUs() - start) / 1e6;
  const auto report = Got(InspectLocalStore(temp / "store"));
  EXPECT_EQ(report.unsound, 0u);
  EXPECT_EQ(report.plans, static_cast<uint64_t>(chains));
  EXPECT_EQ(compiled, report.kernels);
  for (const auto& child : children) {
    EXPECT_EQ(child->compiled + child->kernel_hits, report.kernels);
  }
  EXPECT_EQ(searched, static_cast<uint64_t>(chains));
  std::cout << kProcesses << " cold processes x " << chains << " chains, real NVRTC: " << seconds
            << " s, kernels " << report.kernels << ", compiled " << compiled << ", searched "
            << searched << ", from the others " << hits << "\n";
}

TEST(ColdProcessesTest, WaitersGoOnWhenTheBuilderIsKilled) {
  constexpr int kWaiters = 3;
  TempDir temp;
  Child builder(temp / "store", "", Nvrtc(), 0, 1);
  if (!builder.Await("compile")) SINTER_END_WITHOUT_COMPILER("no plan was built");
  std::vector<std::unique_ptr<Child>> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.push_back(std::make_unique<Child>(temp / "store", "", Nvrtc(), 0, 1));
  }
  for (const auto& waiter : waiters) ASSERT_TRUE(waiter->Await("chains"));
  usleep(50 * 1000);  // they find the plan, and the kernel's lock held
  const int64_t killed = builder.Kill();
  int64_t next = INT64_MAX;
  uint64_t compiled = 0;
  for (const auto& waiter : waiters) {
    ASSERT_EQ(waiter->Wait(), 0);
    compiled += waiter->compiled;
    if (waiter->at_us.count("compile") != 0) next = std::min(next, waiter->at_us["compile"]);
  }
  EXPECT_EQ(compiled, InspectLocalStore(temp / "store")->kernels);
  ASSERT_NE(next, INT64_MAX);
  EXPECT_LT(next - killed, 1000 * 1000);
  std::cout << "builder killed: the next one compiles after "
            << static_cast<double>(next - killed) / 1e3 << " ms, compiled by the waiters "
            << compiled << "\n";
}

}  // namespace
}  // namespace sinter
