// Many processes share one cache folder while some are killed, files rot under them, the disk is
// full now and then and the janitor keeps a cap that is too small. Every value that is read must be
// the one that was written for its key, nobody may die but by our own hand, and nothing may be left
// over. Until 1,000 kills and 100,000 gets, eight seconds at most; SINTER_TEST_LONG=1: ten times
// more.
#include <signal.h>
#include <sys/mman.h>

#include "cache/tiers/tiers.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::PathIn;
using cache_testing::RandomBytes;
using cache_testing::TempDir;
using Clock = std::chrono::steady_clock;

using cache_testing::kKernel;
constexpr int kProcesses = 8;
constexpr int kKeys = 60;

constexpr uint64_t kCap = 400000;  // of the 700,000 bytes that all records would take

int Scale() { return getenv("SINTER_TEST_LONG") != nullptr ? 10 : 1; }

// Counters that all processes see.
struct Shared {
  std::atomic<uint64_t> gets{0}, hits{0}, refused{0}, wrong{0}, builds{0}, unlocked{0};
  std::atomic<uint64_t> full_writes{0}, evicted{0};
  std::atomic<bool> disk_full{false}, stop{false};
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
  Shared* get() const { return shared_; }

 private:
  void* page_;
  Shared* shared_;
};

std::string KeyOf(int i) { return absl::StrCat("key ", i); }
std::string ValueOf(int i) { return RandomBytes(2000 + 331 * i, 1000 + i); }

std::unique_ptr<TieredStore> OpenStore(const std::string& root, uint64_t memory_bytes,
                                       uint64_t cap = 0, std::shared_ptr<FileOps> ops = nullptr) {
  return std::make_unique<TieredStore>(TierOptions{.local_root = root,
                                                   .local_bytes = cap,
                                                   .memory_bytes = memory_bytes,
                                                   .sync = false,
                                                   .ops = std::move(ops)});
}

// Gets, and builds and puts what is missing, until it is killed or told to stop.
void Work(const std::string& root, uint64_t seed, const std::vector<std::string>& values,
          const SharedPage& shared) {
  // A disk that all processes find full at the same time.
  const auto disk = cache_testing::FilesWhose(cache_testing::FileCall::kWrite, [&] {
    if (!shared->disk_full) return 0;
    ++shared->full_writes;
    return ENOSPC;
  });
  const auto store = OpenStore(root, 0, kCap, disk);
  std::mt19937_64 random(seed);
  while (!shared->stop) {
    const int i = static_cast<int>(random() % kKeys);
    Lookup lookup = store->Get(kKernel, KeyOf(i));
    ++shared->gets;
    if (!lookup.hit && lookup.reason != MissReason::kAbsent) ++shared->refused;
    if (!lookup.hit) {
      const auto lock = store->LockForBuild(kKernel, KeyOf(i), 20000);
      lookup = store->Get(kKernel, KeyOf(i));
      if (!lookup.hit) {
        ++shared->builds;
        store->Put(kKernel, KeyOf(i), values[i]);
      }
    }
    if (!lookup.hit) continue;
    ++shared->hits;
    if (lookup.payload != values[i]) ++shared->wrong;
  }
  store->Flush();
  shared->evicted += store->Stats().evicted;
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

class StormTest : public testing::Test {
 protected:
  StormTest() {
    for (int i = 0; i < kKeys; ++i) values_.push_back(ValueOf(i));
    for (pid_t& worker : workers_) worker = Start();
  }
  pid_t Start() {
    const uint64_t seed = random_();
    const pid_t pid = fork();
    if (pid == 0) {
      Work(temp_.path(), seed, values_, shared_);
      _exit(0);
    }
    return pid;
  }
  void KillOne() {
    pid_t& victim = workers_[random_() % kProcesses];
    kill(victim, SIGKILL);
    int status = 0;
    waitpid(victim, &status, 0);
    ++(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? kills_ : deaths_);
    victim = Start();
  }
  void StopAll() {
    shared_->stop = true;
    for (const pid_t pid : workers_) {
      int status = 0;
      waitpid(pid, &status, 0);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++deaths_;
    }
  }

  TempDir temp_;
  const SharedPage shared_;
  std::vector<std::string> values_;
  std::mt19937_64 random_{11};
  pid_t workers_[kProcesses] = {};
  int kills_ = 0, deaths_ = 0, rots_ = 0;
};

TEST_F(StormTest, KillsRotAndFullDisksNeverGiveWrongBytes) {
  const auto end = Clock::now() + std::chrono::seconds(8 * Scale());
  const int kills = 1000 * Scale();
  const uint64_t gets = 100000 * static_cast<uint64_t>(Scale());
  for (int round = 0; Clock::now() < end && (kills_ < kills || shared_->gets < gets); ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + random_() % 6));
    shared_->disk_full = round % 20 == 0;
    for (int i = 0; i < 2; ++i) rots_ += Rot(temp_.path(), &random_) ? 1 : 0;
    KillOne();
  }
  shared_->disk_full = false;
  StopAll();
  auto report = InspectLocalStore(temp_.path());
  ASSERT_TRUE(report.ok()) << report.status();
  const uint64_t temps = report->temporary;
  LocalStore store({.root = temp_.path()});
  ASSERT_TRUE(Sweep(&store, {.max_bytes = kCap, .orphan_age_s = 0}).ok());
  report = InspectLocalStore(temp_.path());
  std::cout << "chaos: processes " << kProcesses << " kills " << kills_ << " rots " << rots_
            << " writes to a full disk " << shared_->full_writes << " gets " << shared_->gets
            << " hits " << shared_->hits << " refused " << shared_->refused << " builds "
            << shared_->builds << " temps before the janitor " << temps << " leftover files "
            << report->temporary << " wrong " << shared_->wrong << " deaths " << deaths_ << "\n";
  EXPECT_EQ(shared_->wrong, 0u);
  EXPECT_EQ(deaths_, 0);
  EXPECT_EQ(report->temporary, 0u);
  EXPECT_LE(report->bytes, kCap);
  EXPECT_GT(kills_, 50);
  EXPECT_GT(shared_->hits, 1000u);
  EXPECT_GT(shared_->full_writes, 0u);
  EXPECT_LE(temps, static_cast<uint64_t>(kills_) / 10 + 1);
}

TEST(CacheStormTest, EightColdProcessesBuildEachKeyOnce) {
  TempDir temp;
  const SharedPage shared;
  constexpr int kCold = 8, kColdKeys = 20;
  std::vector<pid_t> workers;
  for (int p = 0; p < kCold; ++p) {
    const pid_t pid = fork();
    if (pid != 0) {
      workers.push_back(pid);
      continue;
    }
    auto store = OpenStore(temp.path(), 1 << 20);
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
    store.reset();
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
