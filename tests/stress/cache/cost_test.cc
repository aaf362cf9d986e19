#include <leveldb/db.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "cache/tiers/tiers.h"
#include "tests/stress/cache/timed_files.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

// Prints the cost of the cache on this machine: the figures that led to sealed tables. For
// comparison: the same record in a leveldb::DB that is opened for each operation, as processes
// would have to share one.

using cache_testing::RandomBytes;
using cache_testing::TempDir;

using cache_testing::kKernel;
constexpr int kRecords = 40;
constexpr size_t kRecordBytes = 200 << 10;

double MedianUs(const std::function<void(int)>& call) {
  std::vector<double> times;
  for (int i = 0; i < kRecords; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call(i);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::nth_element(times.begin(), times.begin() + kRecords / 2, times.end());
  return times[kRecords / 2];
}

std::string KeyOf(int i) { return absl::StrCat("key ", i); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose malloc is another
// The first test of the process: later on its heap may happen to be cut so that none is given back.
TEST(CacheCostTest, AFirstPutsMemoryServesTheNext) {
  const std::string value = RandomBytes(kRecordBytes, 1);
  TempDir temp;
  LocalStore store({.root = temp.path(), .sync = false});
  const auto faults = [] {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
  };
  ASSERT_TRUE(store.Put(kKernel, "first", Sha256("first"), value).ok());
  const auto before = faults();
  for (int i = 0; i < kRecords; ++i) {
    ASSERT_TRUE(store.Put(kKernel, KeyOf(i), Sha256(KeyOf(i)), value).ok());
  }
  const auto pages = faults() - before;
  std::cout << "fresh pages of " << kRecords << " puts of 200 KiB: " << pages << "\n";
  EXPECT_LT(pages, kRecords * static_cast<int>(kRecordBytes / 4096) / 2);
}
#endif

TEST(CacheCostTest, SealedTables) {
  const std::string value = RandomBytes(kRecordBytes, 1);
  for (const bool sync : {false, true}) {
    TempDir temp;
    LocalStore store({.root = temp.path(), .sync = sync});
    const double absent = MedianUs([&](int i) { store.Get(kKernel, KeyOf(i), Sha256(KeyOf(i))); });
    const double put = MedianUs(
        [&](int i) { EXPECT_TRUE(store.Put(kKernel, KeyOf(i), Sha256(KeyOf(i)), value).ok()); });
    const double get =
        MedianUs([&](int i) { EXPECT_TRUE(store.Get(kKernel, KeyOf(i), Sha256(KeyOf(i))).hit); });
    const double lock = MedianUs([&](int i) { store.LockForBuild(kKernel, Sha256(KeyOf(i)), 0); });
    std::cout << "sealed table, 200 KiB, sync " << sync << ", median us: get " << get << " put "
              << put << " absent " << absent << " free lock " << lock << "\n";
  }
}

TEST(CacheCostTest, DatabaseOpenedPerOperation) {
  const std::string value = RandomBytes(kRecordBytes, 1);
  TempDir temp;
  leveldb::Options options;
  options.create_if_missing = true;
  options.compression = leveldb::kNoCompression;
  const auto with_db = [&](const std::function<void(leveldb::DB*)>& call) {
    leveldb::DB* raw = nullptr;
    ASSERT_TRUE(leveldb::DB::Open(options, temp / "db", &raw).ok());
    const std::unique_ptr<leveldb::DB> db(raw);
    call(db.get());
  };
  const double put = MedianUs([&](int i) {
    with_db([&](leveldb::DB* db) { EXPECT_TRUE(db->Put({}, KeyOf(i), value).ok()); });
  });
  const double get = MedianUs([&](int i) {
    std::string got;
    with_db([&](leveldb::DB* db) { EXPECT_TRUE(db->Get({}, KeyOf(i), &got).ok()); });
  });
  std::cout << "leveldb::DB opened per operation, 200 KiB, median us: get " << get << " put " << put
            << "\n";
}

// Prints the cost of sharing: eight processes read 200 records of 200 KiB, write those that they
// miss and read all again. For comparison: the same in a bare loop of open, pread and linkat that
// checks nothing.

using Clock = std::chrono::steady_clock;

constexpr int kProcesses = 8;
constexpr int kKeys = 200;
constexpr size_t kSharedRecordBytes = 200 << 10;
constexpr int kRounds = 5;

std::string SharedKeyOf(int i) { return absl::StrCat("key ", i); }

struct Cost {
  double wall_ms = -1;  // until all processes, started together, are done; -1: one failed
  double cpu_ms = 0;    // of all of them: what a busy machine does not change
};

double CpuMs() {
  struct rusage use;
  getrusage(RUSAGE_CHILDREN, &use);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(use.ru_utime) + ms(use.ru_stime);
}

Cost Storm(const std::function<bool()>& work) {
  int gate[2];
  if (pipe(gate) != 0) return {};
  const double cpu = CpuMs();
  std::vector<pid_t> workers;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t pid = fork();
    if (pid == 0) {
      char byte;
      close(gate[1]);
      (void)!read(gate[0], &byte, 1);
      _exit(work() ? 0 : 1);
    }
    workers.push_back(pid);
  }
  close(gate[0]);
  const auto start = Clock::now();
  close(gate[1]);
  bool ok = true;
  for (const pid_t pid : workers) {
    int status = 0;
    waitpid(pid, &status, 0);
    ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return {ok ? ms : -1, CpuMs() - cpu};
}

bool BareRead(FileOps* ops, const std::string& path, std::string* to) {
  const int fd = ops->OpenAt(AT_FDCWD, path.c_str(), O_RDONLY, 0);
  if (fd < 0) return false;
  to->resize(kSharedRecordBytes);
  const ssize_t n = ops->PRead(fd, &(*to)[0], to->size(), 0);
  ops->Close(fd);
  return n == static_cast<ssize_t>(kSharedRecordBytes);
}

bool BareWrite(FileOps* ops, const std::string& root, const std::string& path,
               const std::string& value) {
  const int fd = ops->OpenAt(AT_FDCWD, root.c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (fd < 0) return false;
  const auto size = static_cast<ssize_t>(value.size());
  const bool written = ops->Write(fd, value.data(), value.size()) == size;
  const bool linked = ops->LinkFd(fd, AT_FDCWD, path.c_str()) == 0 || errno == EEXIST;
  ops->Close(fd);
  return written && linked;
}

bool BareWork(FileOps* ops, const std::string& root, const std::string& value, const Digest* want) {
  std::string bytes;
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < kKeys; ++i) {
      const std::string path = absl::StrCat(root, "/", i);
      if (BareRead(ops, path, &bytes)) {
        if (want != nullptr && Sha256(bytes) != *want) return false;
        continue;
      }
      if (pass == 1 || !BareWrite(ops, root, path, value)) return false;
    }
  }
  return true;
}

bool StoreWork(std::shared_ptr<FileOps> ops, const std::string& root, const std::string& value,
               uint64_t memory_bytes) {
  const auto store = std::make_unique<TieredStore>(TierOptions{
      .local_root = root, .memory_bytes = memory_bytes, .sync = false, .ops = std::move(ops)});
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < kKeys; ++i) {
      Lookup lookup = store->Get(kKernel, SharedKeyOf(i));
      if (!lookup.hit && pass == 0) {
        const auto lock = store->LockForBuild(kKernel, SharedKeyOf(i), 10 * 1000 * 1000);
        lookup = store->Get(kKernel, SharedKeyOf(i));
        if (!lookup.hit) {
          store->Put(kKernel, SharedKeyOf(i), value);
          continue;
        }
      }
      if (!lookup.hit || lookup.payload.size() != value.size()) return false;
    }
  }
  return store->Stats().puts_dropped == 0;
}

using Way = std::function<bool(std::shared_ptr<FileOps> ops, const std::string& root)>;

struct Made {
  std::string text;
  uint64_t linked = 0;  // files that were given their name, or found it taken
};

// One storm more, taken apart; its folder is `root`.
Made MadeOf(const Way& way, const std::string& root) {
  void* shared =
      mmap(nullptr, sizeof(Parts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Parts* parts = new (shared) Parts();
  const auto ops = std::make_shared<TimedFiles>(parts);
  const Cost cost = Storm([&] { return way(ops, root); });
  Made made;
  double rest = cost.cpu_ms;
  for (int i = 0; i < kParts; ++i) {
    const double ms = static_cast<double>(parts->ns[i]) / 1e6;
    rest -= ms;
    absl::StrAppend(&made.text, kPartNames[i], " ", static_cast<int>(ms + 0.5), " (",
                    parts->calls[i].load(), "), ");
  }
  made.linked = parts->calls[kLink];
  munmap(shared, sizeof(Parts));
  absl::StrAppend(&made.text, "all else ", static_cast<int>(rest + 0.5));
  return made;
}

// What the one hash of every record in every process takes, of processor time.
double HashMs(const std::string& value) {
  const double start = ThreadCpuMs();
  for (int i = 0; i < kKeys; ++i) (void)Sha256(value);
  return kProcesses * (ThreadCpuMs() - start);
}

// Statistics of one number per round.
struct Spread {
  explicit Spread(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    least = of.front();
    median = of[of.size() / 2];
    most = of.back();
  }
  double least, median, most;
};
std::ostream& operator<<(std::ostream& out, const Spread& spread) {
  return out << spread.median << " (" << spread.least << " to " << spread.most << ")";
}

// `kRounds` of each way in turn. No folder goes before the last storm: ext4 does not use an inode
// again for a minute or more after its file was removed, and searches past every one of them
// whenever a file is made.
class Rounds {
 public:
  explicit Rounds(std::vector<Way> ways) : ways_(std::move(ways)), costs_(ways_.size()) {
    for (int round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < ways_.size(); ++i) {
        const std::string root = NewFolder();
        costs_[i].push_back(Storm([&] { return ways_[i](std::make_shared<FileOps>(), root); }));
        EXPECT_GT(costs_[i].back().wall_ms, 0) << i;
      }
    }
  }
  Spread Of(size_t way, double Cost::*what) const {
    std::vector<double> all;
    for (const Cost& cost : costs_[way]) all.push_back(cost.*what);
    return Spread(all);
  }
  // What one way takes of another, round by round: a round's storms have the same machine.
  Spread Ratio(size_t way, size_t to, double Cost::*what) const {
    std::vector<double> all;
    for (int i = 0; i < kRounds; ++i) all.push_back(costs_[way][i].*what / costs_[to][i].*what);
    return Spread(all);
  }
  Made Parts(size_t way) { return MadeOf(ways_[way], NewFolder()); }

 private:
  std::string NewFolder() {
    const std::string folder = temp_ / absl::StrCat(folders_++);
    mkdir(folder.c_str(), 0700);
    return folder;
  }
  const std::vector<Way> ways_;
  std::vector<std::vector<Cost>> costs_;  // way by way, round by round
  TempDir temp_;
  int folders_ = 0;
};

TEST(SharedCostTest, StormOfEightProcesses) {
  const std::string value = RandomBytes(kSharedRecordBytes, 1);
  const Digest digest = Sha256(value);
  using Ops = std::shared_ptr<FileOps>;
  using Root = std::string;
  Rounds rounds(
      {[&](Ops ops, const Root& root) { return BareWork(ops.get(), root, value, nullptr); },
       [&](Ops ops, const Root& root) { return BareWork(ops.get(), root, value, &digest); },
       [&](Ops ops, const Root& root) { return StoreWork(ops, root, value, 256 << 20); },
       [&](Ops ops, const Root& root) { return StoreWork(ops, root, value, 0); }});
  const char* const names[] = {"bare open/pread/linkat", "bare with SHA-256", "tiers",
                               "tiers without memory"};
  std::cout << "storm, " << kProcesses << " processes x " << kKeys
            << " keys x 200 KiB, median (least"
            << " to most) of " << kRounds << "\n";
  for (size_t i = 0; i < 4; ++i) {
    std::cout << "  " << names[i] << ": wall ms " << rounds.Of(i, &Cost::wall_ms) << ", cpu ms "
              << rounds.Of(i, &Cost::cpu_ms) << "; x bare, wall "
              << rounds.Ratio(i, 0, &Cost::wall_ms) << ", cpu " << rounds.Ratio(i, 0, &Cost::cpu_ms)
              << "\n";
  }
  const double bare_ms = rounds.Of(0, &Cost::cpu_ms).median, hash_ms = HashMs(value);
  std::cout << "  bound: bare (" << bare_ms
            << " cpu ms) and one hash of each record in each process (" << hash_ms << ") are "
            << 1 + hash_ms / bare_ms << " x bare; aim 2\n";
  const Made tiers = rounds.Parts(2);
  std::cout << "  cpu ms (calls), bare: " << rounds.Parts(0).text
            << "\n  cpu ms (calls), tiers: " << tiers.text << "\n";
  EXPECT_EQ(tiers.linked, uint64_t{kKeys});  // each record is written once among them
}

TEST(SharedCostTest, APutIsOffTheCallersPath) {
  const std::string value = RandomBytes(kSharedRecordBytes, 1);
  TempDir temp;
  TierOptions options{.local_root = temp.path()};
  // Writes wait until the disk is opened.
  std::atomic<bool> open{false};
  std::atomic<int> waiting{0};
  options.ops = cache_testing::FilesWhose(cache_testing::FileCall::kWrite, [&] {
    ++waiting;
    while (!open) usleep(200);
    return 0;
  });
  const auto store = std::make_unique<TieredStore>(options);
  // Puts return while the first is being written, and are read from memory.
  for (int i = 0; i < 3; ++i) store->Put(kKernel, SharedKeyOf(i), value);
  while (waiting == 0) usleep(200);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(store->Get(kKernel, SharedKeyOf(i)).payload, value) << i;
  options.ops = nullptr;
  EXPECT_FALSE(std::make_unique<TieredStore>(options)
                   ->Get(kKernel, SharedKeyOf(0))
                   .hit);  // not in the folder yet
  open = true;
  store->Flush();
  const auto reader = std::make_unique<TieredStore>(options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reader->Get(kKernel, SharedKeyOf(i)).payload, value) << i;
  EXPECT_EQ(store->Stats().puts_dropped, 0u);
}

}  // namespace
}  // namespace sinter
