// Every system call of the store fails in turn, once and from then on, with every error a disk or a
// limit gives. A put that said ok must be readable, a put that failed must leave nothing half-made,
// and no lookup may return wrong bytes.
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::AskedCall;
using cache_testing::FaultyFiles;
using cache_testing::FileCall;
using cache_testing::kKernel;
using cache_testing::RandomBytes;
using cache_testing::TempDir;

constexpr int kShort =
    -1;  // not an errno: reads and writes take half, all else fails with EINTR once

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
  int calls = 0;
  const auto ops = std::make_shared<FaultyFiles>([&](AskedCall& call) {
    if (++calls < first || calls > last) return 0;
    if (error != kShort) return error;
    if (call.bytes < 2) return EINTR;
    call.bytes /= 2;
    return 0;
  });
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
  return calls;
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
TEST(IoFaultTest, NamedTemporariesServeWhereUnnamedOnesDoNotWork) {
  for (const bool at_open : {true, false}) {
    TempDir temp;
    const auto store = Open(temp.path(), std::make_shared<FaultyFiles>([&](AskedCall& call) {
                              if (at_open && call.IsOpenOfUnnamed()) return EOPNOTSUPP;
                              return call.kind == FileCall::kLinkFd ? ENOENT : 0;
                            }));
    const Digest digest = Sha256("k");
    ASSERT_TRUE(store->Put(kKernel, "k", digest, "first").ok());
    ASSERT_TRUE(store->Put(kKernel, "k", digest, "second").ok());
    EXPECT_EQ(store->Get(kKernel, "k", digest).payload, "second");
    EXPECT_EQ(cache_testing::CountFiles(temp.path()), 1);
  }
}

// A disk that is full: hits go on, puts fail cleanly, and nothing is left behind.
TEST(IoFaultTest, AFullDiskServesHitsAndFailsPuts) {
  TempDir temp;
  size_t room = 20000;
  const auto store = Open(temp.path(), std::make_shared<FaultyFiles>([&](AskedCall& call) {
                            if (call.kind != FileCall::kWrite) return 0;
                            if (room == 0) return ENOSPC;
                            call.bytes = std::min(call.bytes, room);
                            room -= call.bytes;
                            return 0;
                          }));
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
  room = 1 << 20;
  EXPECT_TRUE(store->Put(kKernel, "late", Sha256("late"), "v").ok());
  std::cout << "full disk: stored " << stored << " failed " << failed << " leftovers 0 wrong 0\n";
}

}  // namespace
}  // namespace sinter
