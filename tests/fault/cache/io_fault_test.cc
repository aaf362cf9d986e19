// Every system call of the store fails in turn, once and from then on, with every error a disk or a
// limit gives. A put that said ok must be readable, a put that failed must leave nothing half-made,
// and no lookup may return wrong bytes.
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::RandomBytes;
using cache_testing::TempDir;

using cache_testing::kKernel;
constexpr int kShort =
    -1;  // not an errno: reads and writes take half, all else fails with EINTR once

// Fails the calls numbered [first, last] with `error`.
class FaultyOps : public FileOps {
 public:
  int first = 0, last = 0, error = 0;
  int calls = 0;

  int OpenAt(int d, const char* p, int f, mode_t m) override {
    return Fault() ? -1 : FileOps::OpenAt(d, p, f, m);
  }
  int Stat(int fd, struct stat* out) override { return Fault() ? -1 : FileOps::Stat(fd, out); }
  int StatAt(int d, const char* p, struct stat* out) override {
    return Fault() ? -1 : FileOps::StatAt(d, p, out);
  }
  ssize_t PRead(int fd, void* to, size_t n, off_t at) override {
    if (Fault()) {
      if (error != kShort || n < 2) return -1;
      n /= 2;
    }
    return FileOps::PRead(fd, to, n, at);
  }
  ssize_t Write(int fd, const void* from, size_t n) override {
    if (Fault()) {
      if (error != kShort || n < 2) return -1;
      n /= 2;
    }
    return FileOps::Write(fd, from, n);
  }
  int Sync(int) override { return Fault() ? -1 : 0; }
  int LinkFd(int fd, int d, const char* p) override {
    return Fault() ? -1 : FileOps::LinkFd(fd, d, p);
  }
  int LinkAt(int d, const char* a, const char* b) override {
    return Fault() ? -1 : FileOps::LinkAt(d, a, b);
  }
  int RenameAt(int d, const char* a, const char* b, unsigned f) override {
    return Fault() ? -1 : FileOps::RenameAt(d, a, b, f);
  }
  int RmdirAt(int d, const char* p) override { return Fault() ? -1 : FileOps::RmdirAt(d, p); }
  int TouchAt(int d, const char* p) override { return Fault() ? -1 : FileOps::TouchAt(d, p); }
  int List(int d, const char* p, std::vector<std::string>* names) override {
    return Fault() ? -1 : FileOps::List(d, p, names);
  }
  int FileSystemType(int fd, int64_t* magic) override {
    return Fault() ? -1 : FileOps::FileSystemType(fd, magic);
  }
  int LockByte(int fd, off_t at) override { return Fault() ? -1 : FileOps::LockByte(fd, at); }
  int UnlinkAt(int d, const char* p) override { return Fault() ? -1 : FileOps::UnlinkAt(d, p); }
  int MkdirAt(int d, const char* p, mode_t m) override {
    return Fault() ? -1 : FileOps::MkdirAt(d, p, m);
  }

 private:
  bool Fault() {
    const int call = ++calls;
    if (call < first || call > last) return false;
    errno = error == kShort ? EINTR : error;
    return true;
  }
};

struct FaultTally {
  int runs = 0, put_ok = 0, put_failed = 0, lost = 0, wrong = 0, partial = 0;
};

std::unique_ptr<LocalStore> Open(const std::string& root, std::shared_ptr<FileOps> ops = nullptr) {
  const bool sync = ops != nullptr;
  return cache_testing::OpenStore(root, std::move(ops), sync);
}

// One scenario: open, get, put, get, replace, quarantine something else, with faults inside.
// Returns the calls made.
int RunOnce(int first, int last, int error, FaultTally* tally) {
  TempDir temp(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : nullptr);
  const std::string key = "key", old_value = RandomBytes(3000, 1), value = RandomBytes(5000, 2);
  const Digest digest = Sha256(key);
  auto ops = std::make_shared<FaultyOps>();
  ops->first = first, ops->last = last, ops->error = error;
  const auto check = [&](const Lookup& lookup) {
    if (lookup.hit && lookup.payload != old_value && lookup.payload != value) ++tally->wrong;
  };
  bool put_ok = false;
  {
    const auto store = Open(temp.path(), ops);
    check(store->Get(kKernel, key, digest));
    (void)store->Put(kKernel, key, digest, old_value);
    check(store->Get(kKernel, key, digest));
    put_ok = store->Put(kKernel, key, digest, value).ok();
    check(store->Get(kKernel, key, digest));
    (void)store->Quarantine(RecordKind::kPlan, digest, "why");
    check(store->Get(RecordKind::kPlan, key, digest));
    (void)store->RemoveOrphans(0);
    (void)store->List();
  }
  ++tally->runs;
  ++(put_ok ? tally->put_ok : tally->put_failed);
  const auto clean = Open(temp.path());
  const Lookup after = clean->Get(kKernel, key, digest);
  check(after);
  if (put_ok && (!after.hit || after.payload != value)) ++tally->lost;
  if (!after.hit && after.reason != MissReason::kAbsent) ++tally->partial;
  EXPECT_TRUE(clean->Put(kKernel, key, digest, value).ok());
  EXPECT_EQ(clean->Get(kKernel, key, digest).payload, value);
  return ops->calls;
}

TEST(IoFaultSweepTest, EachCallFailsOnceAndForEver) {
  const int errors[] = {EIO,    ENOSPC, EROFS, EACCES, EMFILE,     ENOENT,
                        EEXIST, ESTALE, ELOOP, EINVAL, EOPNOTSUPP, kShort};
  FaultTally none;
  const int calls = RunOnce(0, 0, 0, &none);
  ASSERT_EQ(none.put_ok, 1);
  FaultTally tally;
  for (const int error : errors) {
    for (int n = 1; n <= calls; ++n) {
      RunOnce(n, n, error, &tally);
      if (error != kShort) RunOnce(n, 1 << 30, error, &tally);
    }
  }
  std::cout << "i/o faults: calls " << calls << " runs " << tally.runs << " puts ok "
            << tally.put_ok << " failed " << tally.put_failed << " ok-but-lost " << tally.lost
            << " partial " << tally.partial << " wrong " << tally.wrong << " deaths 0\n";
  EXPECT_EQ(tally.lost, 0);
  EXPECT_EQ(tally.partial, 0);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GT(tally.put_failed, 0);
}

// File systems without unnamed files, and containers without /proc.
class NoUnnamedFiles : public FileOps {
 public:
  explicit NoUnnamedFiles(bool at_open) : at_open_(at_open) {}
  int OpenAt(int d, const char* p, int f, mode_t m) override {
    if (at_open_ && (f & O_TMPFILE) == O_TMPFILE) {
      errno = EOPNOTSUPP;
      return -1;
    }
    return FileOps::OpenAt(d, p, f, m);
  }
  int LinkFd(int fd, int d, const char* p) override {
    errno = ENOENT;
    return -1;
  }

 private:
  bool at_open_;
};

TEST(IoFaultTest, NamedTemporariesServeWhereUnnamedOnesDoNotWork) {
  for (const bool at_open : {true, false}) {
    TempDir temp;
    const auto store = Open(temp.path(), std::make_shared<NoUnnamedFiles>(at_open));
    const Digest digest = Sha256("k");
    ASSERT_TRUE(store->Put(kKernel, "k", digest, "first").ok());
    ASSERT_TRUE(store->Put(kKernel, "k", digest, "second").ok());
    EXPECT_EQ(store->Get(kKernel, "k", digest).payload, "second");
    EXPECT_EQ(cache_testing::CountFiles(temp.path()), 1);
  }
}

// A disk that is full: hits go on, puts fail cleanly, and nothing is left behind.
class FullDisk : public FileOps {
 public:
  ssize_t Write(int fd, const void* from, size_t n) override {
    if (room == 0) {
      errno = ENOSPC;
      return -1;
    }
    n = std::min(n, room);
    room -= n;
    return FileOps::Write(fd, from, n);
  }
  size_t room = 20000;
};

TEST(IoFaultTest, AFullDiskServesHitsAndFailsPuts) {
  TempDir temp;
  auto ops = std::make_shared<FullDisk>();
  const auto store = Open(temp.path(), ops);
  int stored = 0, failed = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string key = absl::StrCat("k", i);
    const bool ok = store->Put(kKernel, key, Sha256(key), RandomBytes(3000, i)).ok();
    ++(ok ? stored : failed);
    const Lookup lookup = store->Get(kKernel, key, Sha256(key));
    EXPECT_EQ(lookup.hit, ok);
    EXPECT_EQ(lookup.hit ? lookup.payload : RandomBytes(3000, i), RandomBytes(3000, i));
  }
  EXPECT_EQ(cache_testing::CountFiles(temp.path()), stored);
  EXPECT_GT(stored, 3);
  EXPECT_GT(failed, 10);
  ops->room = 1 << 20;
  EXPECT_TRUE(store->Put(kKernel, "late", Sha256("late"), "v").ok());
  std::cout << "full disk: stored " << stored << " failed " << failed << " leftovers 0 wrong 0\n";
}

}  // namespace
}  // namespace sinter
