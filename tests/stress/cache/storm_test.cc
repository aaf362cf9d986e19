// Many processes share one cache folder while some are killed and files rot under them. Every value
// that is read must be the one that was written for its key, and nobody may die but by our own
// hand. Two seconds by default; SINTER_TEST_LONG=1: a minute.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <new>
#include <random>
#include <thread>

#include "cache/tiers/tiers.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::PathIn;
using cache_testing::RandomBytes;
using cache_testing::TempDir;
using Clock = std::chrono::steady_clock;

constexpr RecordKind kKernel = RecordKind::kKernel;
constexpr int kProcesses = 8;
constexpr int kKeys = 60;

bool Long() { return getenv("SINTER_TEST_LONG") != nullptr; }

// Counters that all processes see.
struct Shared {
  std::atomic<uint64_t> gets{0}, hits{0}, refused{0}, wrong{0}, builds{0}, unlocked{0};
  std::atomic<int> builds_of[kKeys] = {};
};

class SharedPage {
 public:
  SharedPage()
      : page_(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0)),
        shared_(new (page_) Shared) {}
  ~SharedPage() { munmap(page_, sizeof(Shared)); }
  Shared* operator->() const { return shared_; }

 private:
  void* page_;
  Shared* shared_;
};

std::string KeyOf(int i) { return absl::StrCat("key ", i); }
std::string ValueOf(int i) { return RandomBytes(2000 + 331 * i, 1000 + i); }

std::unique_ptr<Store> OpenStore(const std::string& root, uint64_t memory_bytes) {
  TierOptions options;
  options.local_root = root;
  options.memory_bytes = memory_bytes;
  options.sync = false;
  return MakeTieredStore(options);
}

// Gets, and builds and puts what is missing, until it is killed or `end` comes.
void Work(const std::string& root, uint64_t seed, Clock::time_point end, const SharedPage& shared) {
  const auto store = OpenStore(root, 0);
  std::mt19937_64 random(seed);
  while (Clock::now() < end) {
    const int i = static_cast<int>(random() % kKeys);
    Lookup lookup = store->Get(kKernel, KeyOf(i));
    ++shared->gets;
    if (!lookup.hit && lookup.reason != MissReason::kAbsent) ++shared->refused;
    if (!lookup.hit) {
      const auto lock = store->LockForBuild(kKernel, KeyOf(i), 20000);
      lookup = store->Get(kKernel, KeyOf(i));
      if (!lookup.hit) {
        ++shared->builds;
        store->Put(kKernel, KeyOf(i), ValueOf(i));
      }
    }
    if (!lookup.hit) continue;
    ++shared->hits;
    if (lookup.payload != ValueOf(i)) ++shared->wrong;
  }
}

// Damages one record file in place: a bit, a cut, or a zero tail. The file may be gone; that is
// fine.
bool Rot(const std::string& root, std::mt19937_64* random) {
  const std::string path = PathIn(root, kKernel, KeyOf(static_cast<int>((*random)() % kKeys)));
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error || size == 0) return false;
  const uint64_t at = (*random)() % size;
  if ((*random)() % 3 == 0) {
    std::filesystem::resize_file(path, at, error);
    return !error;
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  if (!file) return false;
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  if (byte < 0) return false;
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ (1 << ((*random)() % 8))));
  return true;
}

TEST(CacheStormTest, KillsAndRotNeverGiveWrongBytes) {
  TempDir temp;
  const SharedPage shared;
  const auto end = Clock::now() + std::chrono::seconds(Long() ? 60 : 2);
  std::mt19937_64 random(11);
  std::vector<pid_t> workers(kProcesses);
  const auto start = [&] {
    const uint64_t seed = random();
    const pid_t pid = fork();
    if (pid == 0) {
      Work(temp.path(), seed, end, shared);
      _exit(0);
    }
    return pid;
  };
  for (pid_t& pid : workers) pid = start();
  int kills = 0, deaths = 0, rots = 0;
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + random() % 20));
    for (int i = 0; i < 3; ++i) rots += Rot(temp.path(), &random) ? 1 : 0;
    pid_t& victim = workers[random() % kProcesses];
    kill(victim, SIGKILL);
    int status = 0;
    waitpid(victim, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      ++kills;
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      ++deaths;
    }
    victim = start();
  }
  for (const pid_t pid : workers) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++deaths;
  }
  const auto report = InspectLocalStore(temp.path());
  ASSERT_TRUE(report.ok()) << report.status();
  std::cout << "storm: kills " << kills << " rots " << rots << " gets " << shared->gets << " hits "
            << shared->hits << " refused " << shared->refused << " builds " << shared->builds
            << " leftover temps " << report->temporary << " wrong " << shared->wrong << " deaths "
            << deaths << "\n";
  EXPECT_EQ(shared->wrong, 0u);
  EXPECT_EQ(deaths, 0);
  EXPECT_GT(kills, 10);
  EXPECT_GT(shared->hits, 100u);
  EXPECT_LE(report->temporary, static_cast<uint64_t>(kills) / 10 + 1);
}

TEST(CacheStormTest, FourColdProcessesBuildEachKeyOnce) {
  TempDir temp;
  const SharedPage shared;
  constexpr int kCold = 4, kColdKeys = 12;
  std::vector<pid_t> workers;
  for (int p = 0; p < kCold; ++p) {
    const pid_t pid = fork();
    if (pid != 0) {
      workers.push_back(pid);
      continue;
    }
    const auto store = OpenStore(temp.path(), 1 << 20);
    for (int i = 0; i < kColdKeys; ++i) {
      Lookup lookup = store->Get(kKernel, KeyOf(i));
      if (!lookup.hit) {
        const auto lock = store->LockForBuild(kKernel, KeyOf(i), 60 * 1000 * 1000);
        if (lock == nullptr) ++shared->unlocked;
        lookup = store->Get(kKernel, KeyOf(i));
        if (!lookup.hit) {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          ++shared->builds_of[i];
          store->Put(kKernel, KeyOf(i), ValueOf(i));
        }
      }
      if (lookup.hit && lookup.payload != ValueOf(i)) ++shared->wrong;
    }
    _exit(0);
  }
  int deaths = 0, builds = 0;
  for (const pid_t pid : workers) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++deaths;
  }
  for (int i = 0; i < kColdKeys; ++i) {
    EXPECT_EQ(shared->builds_of[i], 1) << KeyOf(i);
    builds += shared->builds_of[i];
  }
  std::cout << "single flight: " << kCold << " processes, " << kColdKeys << " keys, builds "
            << builds << " wrong " << shared->wrong << " deaths " << deaths << "\n";
  EXPECT_EQ(shared->unlocked, 0u);
  EXPECT_EQ(shared->wrong, 0u);
  EXPECT_EQ(deaths, 0);
}

}  // namespace
}  // namespace sinter
