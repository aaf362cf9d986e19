// What sharing costs, printed: eight processes read 200 records of 200 KiB, write what they miss
// and read all again. Beside it the same in a bare loop of open, pread and linkat that checks
// nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include "cache/tiers/tiers.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::RandomBytes;
using cache_testing::TempDir;
using Clock = std::chrono::steady_clock;

constexpr RecordKind kKernel = RecordKind::kKernel;
constexpr int kProcesses = 8;
constexpr int kKeys = 200;
constexpr size_t kRecordBytes = 200 << 10;
constexpr int kRounds = 3;

std::string KeyOf(int i) { return absl::StrCat("key ", i); }

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

bool BareRead(const std::string& path, std::string* to) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  to->resize(kRecordBytes);
  const ssize_t n = pread(fd, &(*to)[0], to->size(), 0);
  close(fd);
  return n == static_cast<ssize_t>(kRecordBytes);
}

bool BareWrite(const std::string& root, const std::string& path, const std::string& value) {
  const int fd = open(root.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool written = write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
  const std::string self = absl::StrCat("/proc/self/fd/", fd);
  const int rc = linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
  const bool linked = rc == 0 || errno == EEXIST;
  close(fd);
  return written && linked;
}

bool BareWork(const std::string& root, const std::string& value, const Digest* want) {
  std::string bytes;
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < kKeys; ++i) {
      const std::string path = absl::StrCat(root, "/", i);
      if (BareRead(path, &bytes)) {
        if (want != nullptr && Sha256(bytes) != *want) return false;
        continue;
      }
      if (pass == 1 || !BareWrite(root, path, value)) return false;
    }
  }
  return true;
}

bool StoreWork(const std::string& root, const std::string& value, uint64_t memory_bytes) {
  TierOptions options;
  options.local_root = root;
  options.memory_bytes = memory_bytes;
  options.sync = false;
  const auto store = MakeTieredStore(options);
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < kKeys; ++i) {
      Lookup lookup = store->Get(kKernel, KeyOf(i));
      if (!lookup.hit && pass == 0) {
        const auto lock = store->LockForBuild(kKernel, KeyOf(i), 10 * 1000 * 1000);
        lookup = store->Get(kKernel, KeyOf(i));
        if (!lookup.hit) {
          store->Put(kKernel, KeyOf(i), value);
          continue;
        }
      }
      if (!lookup.hit || lookup.payload.size() != value.size()) return false;
    }
  }
  return store->Stats().puts_dropped == 0;
}

// The best of all rounds: `kRounds` of each way in turn.
std::vector<Cost> BestOf(const std::vector<std::function<bool(const std::string& root)>>& ways) {
  std::vector<Cost> best(ways.size(), Cost{1e9, 1e9});
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      TempDir temp;
      const Cost cost = Storm([&] { return ways[i](temp.path()); });
      EXPECT_GT(cost.wall_ms, 0) << i;
      best[i].wall_ms = std::min(best[i].wall_ms, cost.wall_ms);
      best[i].cpu_ms = std::min(best[i].cpu_ms, cost.cpu_ms);
    }
  }
  return best;
}

TEST(SharedCostTest, StormOfEightProcesses) {
  const std::string value = RandomBytes(kRecordBytes, 1);
  const Digest digest = Sha256(value);
  const std::vector<Cost> best =
      BestOf({[&](const std::string& root) { return BareWork(root, value, nullptr); },
              [&](const std::string& root) { return BareWork(root, value, &digest); },
              [&](const std::string& root) { return StoreWork(root, value, 256 << 20); },
              [&](const std::string& root) { return StoreWork(root, value, 0); }});
  const char* const names[] = {"bare open/pread/linkat", "with SHA-256", "tiers",
                               "without the memory tier"};
  std::cout << "storm, " << kProcesses << " processes x " << kKeys << " keys x 200 KiB, best of "
            << kRounds << ", wall ms (x bare), cpu ms (x bare):";
  for (size_t i = 0; i < best.size(); ++i) {
    std::cout << (i > 0 ? "; " : " ") << names[i] << " " << best[i].wall_ms << " ("
              << best[i].wall_ms / best[0].wall_ms << "), " << best[i].cpu_ms << " ("
              << best[i].cpu_ms / best[0].cpu_ms << ")";
  }
  std::cout << "\n";
}

TEST(SharedCostTest, APutIsOffTheCallersPath) {
  const std::string value = RandomBytes(kRecordBytes, 1);
  TempDir temp;
  TierOptions options;
  options.local_root = temp.path();
  const auto store = MakeTieredStore(options);
  std::vector<double> put, hit, absent;
  const auto time = [](std::vector<double>* to, const std::function<void()>& call) {
    const auto start = Clock::now();
    call();
    to->push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  };
  for (int i = 0; i < 100; ++i) {
    time(&absent, [&] { (void)store->Get(kKernel, KeyOf(i)); });
    time(&put, [&] { store->Put(kKernel, KeyOf(i), value); });
  }
  store->Flush();
  const auto reader = MakeTieredStore(options);
  for (int i = 0; i < 100; ++i) {
    time(&hit, [&] { EXPECT_TRUE(reader->Get(kKernel, KeyOf(i)).hit); });
  }
  for (std::vector<double>* times : {&put, &hit, &absent}) std::sort(times->begin(), times->end());
  std::cout << "tiers, 200 KiB, us median (p90): get from the folder " << hit[50] << " (" << hit[90]
            << ") absent " << absent[50] << " (" << absent[90] << ") put, for the caller "
            << put[50] << " (" << put[90] << ")\n";
}

}  // namespace
}  // namespace sinter
