// Sums and gathers over several GPUs of this machine, as ranks that are processes, some of which
// die. In the program of all_reduce_gpu_test.cc, which starts itself as `--rank R FOLDER MODE`.
#include <signal.h>

#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/rank_processes.h"
#include "tests/gpu/several_gpus.h"

namespace sinter::gpu_testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A folder in which the ranks of a test meet. The folder above it has the compiled kernels.
class Meeting : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string made = RunFolder() + "/XXXXXX";
    ASSERT_NE(mkdtemp(&made[0]), nullptr);
    folder_ = made;
  }

  static pid_t Start(int rank, const fs::path& folder, const char* mode) {
    const pid_t child = fork();
    if (child != 0) return child;
    const std::string number = std::to_string(rank);
    execl("/proc/self/exe", "all_reduce_gpu_test", "--rank", number.c_str(), folder.c_str(), mode,
          nullptr);
    _exit(127);
  }
  static void ExpectEndsWell(pid_t child, int rank) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << ": " << status;
  }

  fs::path folder_;
};

class Processes : public Meeting, public ::testing::WithParamInterface<const char*> {};

TEST_P(Processes, AreRightOrEndInTime) {
  std::vector<pid_t> children;
  for (int r = 0; r < Ranks(); ++r) children.push_back(Start(r, folder_, GetParam()));
  const int last = Ranks() - 1;
  for (int r = 0; r < last; ++r) ExpectEndsWell(children[static_cast<size_t>(r)], r);
  const std::string mode = GetParam();
  if (mode == "run" || mode == "descriptors") {
    ExpectEndsWell(children.back(), last);
  } else {
    kill(children.back(), SIGKILL);
    ASSERT_EQ(waitpid(children.back(), nullptr, 0), children.back());
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, Processes,
                         ::testing::Values("run", "descriptors", "killed", "stopped"),
                         [](const auto& info) { return std::string(info.param); });

// The last rank is killed at a random time between its calls, or in one: the others end within
// two timeouts, and make a group with a new last rank. SINTER_GPU_RANK_KILLS times, 10 unless
// given.
class Kills : public Meeting {
 protected:
  static constexpr int kAhead = 4;  // last ranks that are started before they are needed
  static constexpr auto kLongest = std::chrono::seconds(60);
  static constexpr int64_t kMostUs = 2 * 300 * 1000 + 100000, kLongestCallsUs = 4000;

  fs::path Of(int group) const { return folder_ / std::to_string(group); }
  void StartLast(int group) {
    fs::create_directory(Of(group));
    waiting_.push_back(Start(Ranks() - 1, Of(group), "kills"));
  }
  // What a file says once it is there; "" after a minute, or once a survivor has ended.
  std::string Read(const fs::path& path) {
    const auto end = Clock::now() + kLongest;
    while (!fs::exists(path)) {
      if (Clock::now() > end || AnyHasEnded()) return "";
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    std::ifstream file(path);
    return absl::StrCat(" ", std::string(std::istreambuf_iterator<char>(file), {}));
  }
  bool AnyHasEnded() const {
    return std::any_of(survivors_.begin(), survivors_.end(), [](pid_t child) {
      siginfo_t told{};
      return waitid(P_PID, static_cast<id_t>(child), &told, WEXITED | WNOHANG | WNOWAIT) == 0 &&
             told.si_pid == child;
    });
  }
  // Kills the last rank of a group after `us` of calls; returns whether the others ended.
  bool KillsTheLastOf(int group, int64_t us) {
    const bool calls = !Read(Of(group) / "calls").empty();
    EXPECT_TRUE(calls) << "group " << group << " has made no calls";
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    const auto killed =
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
            .count();
    kill(waiting_.front(), SIGKILL);
    EXPECT_EQ(waitpid(waiting_.front(), nullptr, 0), waiting_.front());
    waiting_.pop_front();
    for (int r = 0; calls && r + 1 < Ranks(); ++r) {
      const std::string said = Read(Of(group) / absl::StrCat("ended.", r));
      long long at = 0;
      int missed = -1;
      const int read = std::sscanf(said.c_str(), "%lld %d", &at, &missed);
      EXPECT_EQ(read, 2) << "group " << group << ": rank " << r << " did not end";
      if (read != 2) return false;
      EXPECT_GE(at, killed) << "group " << group << " ended before the kill";
      EXPECT_LE(at - killed, kMostUs) << "group " << group << ": rank " << r << " ended late";
      latest_us_ = std::max<int64_t>(latest_us_, at - killed);
      others_named_ += missed != Ranks() - 1 ? 1 : 0;
    }
    return calls;
  }

  std::deque<pid_t> waiting_;
  std::vector<pid_t> survivors_;
  int64_t latest_us_ = 0;
  int others_named_ = 0;  // survivors that name a rank which itself waited for the dead one
};

TEST_F(Kills, AtRandomTimesLeaveNoRankWaiting) {
  const int kills = NumberOr(std::getenv("SINTER_GPU_RANK_KILLS"), 10);
  for (int r = 0; r + 1 < Ranks(); ++r) survivors_.push_back(Start(r, folder_, "kills"));
  for (int i = 0; i < std::min(kAhead, kills); ++i) StartLast(i);
  std::minstd_rand random(1);
  const auto begun = Clock::now();
  int done = 0;
  while (done < kills && KillsTheLastOf(done, static_cast<int64_t>(random() % kLongestCallsUs))) {
    ++done;
    if (done + kAhead <= kills) StartLast(done + kAhead - 1);
  }
  for (const pid_t child : waiting_) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  std::ofstream(folder_ / "end") << "";
  for (size_t r = 0; r < survivors_.size(); ++r) {
    if (done < kills) kill(survivors_[r], SIGKILL);
    if (done == kills) {
      ExpectEndsWell(survivors_[r], static_cast<int>(r));
    } else {
      waitpid(survivors_[r], nullptr, 0);
    }
  }
  EXPECT_EQ(done, kills);
  std::printf(
      "%d kills over %d ranks in %.1f s; survivors ended after at most %.0f ms; %d times another "
      "rank "
      "was named\n",
      done, Ranks(), std::chrono::duration<double>(Clock::now() - begun).count(),
      static_cast<double>(latest_us_) / 1000, others_named_);
}

}  // namespace
}  // namespace sinter::gpu_testing

int main(int argc, char** argv) {
  using namespace sinter::gpu_testing;
  if (argc == 5 && std::string(argv[1]) == "--rank") {
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    alarm(590);  // nothing here may hang
    return RunRankProcess(std::atoi(argv[2]), argv[3], argv[4]);
  }
  return RunOverGpus(argc, argv);
}
