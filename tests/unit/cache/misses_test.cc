#include "cache/store/files.h"
#include "tests/unit/cache/cache_tests.h"
#include "tests/unit/cache/remote/remote_testing.h"

namespace sinter {
namespace {

// Every reason for a miss, provoked: each is reported and counted only under its own name.

using cache_testing::BuildTable;

// A folder with one sound record, and what to ask it with.
struct Scene {
  Scene() {
    options.local_root = temp / "root";
    options.sync = false;
    Put(options);
  }
  void Put(const TierOptions& by) const {
    std::make_unique<TieredStore>(by)->Put(kKernel, key,
                                           EncodeKernelRecord(SampleKernelRecord(), by.format));
  }
  std::string Path() const { return PathIn(options.local_root, kKernel, key); }
  // The record of another key under this one's name, as only a hand can put it.
  void Disguise(const KernelKey& other) const {
    const std::string payload = EncodeKernelRecord(SampleKernelRecord());
    const std::string echo = EncodeKey(other);
    WriteFile(
        Path(),
        BuildTable(TableUserKey(kKernel, Sha256(key)),
                   EncodeEnvelope(
                       {.kind = kKernel, .arch = other.arch, .key = echo, .payload = payload})));
  }

  TempDir temp;
  TierOptions options;
  const std::string key = EncodeKey(SampleKernelKey());
};

struct Case {
  MissReason reason;
  std::function<void(Scene*)> arrange;
};

KernelKey OfArch(const std::string& arch) {
  KernelKey key = SampleKernelKey();
  key.arch = arch;
  return key;
}

KernelKey OfToolchain(const std::string& id) {
  KernelKey key = SampleKernelKey();
  key.toolchain_id = id;
  return key;
}

const Case kCases[] = {
    {MissReason::kAbsent, [](Scene* s) { unlink(s->Path().c_str()); }},
    {MissReason::kDamaged,
     [](Scene* s) {
       std::string bytes = ReadFile(s->Path());
       bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
       WriteFile(s->Path(), bytes);
     }},
    {MissReason::kForeignArch, [](Scene* s) { s->Disguise(OfArch("sm_100a")); }},
    {MissReason::kOtherFormat,
     [](Scene* s) {
       TierOptions next = s->options;
       ++next.format.envelope;
       s->Put(next);
     }},
    {MissReason::kOtherToolchain, [](Scene* s) { s->Disguise(OfToolchain("nvrtc 12.0")); }},
    {MissReason::kRefusedOwner, [](Scene* s) { chmod(s->Path().c_str(), 0666); }},
    {MissReason::kQuarantined,
     [](Scene* s) {
       std::make_unique<TieredStore>(s->options)->Quarantine(kKernel, s->key, "wrong at seed 7");
     }},
    {MissReason::kDisabled, [](Scene* s) { s->options.local_root.clear(); }},
    {MissReason::kIoError,
     [](Scene* s) { s->options.ops = FilesWhose(FileCall::kRead, [] { return EIO; }); }},
    {MissReason::kRemoteDown,
     [](Scene* s) {
       unlink(s->Path().c_str());
       uint16_t dead = 0;
       static const int held = remote_testing::HoldPort(&dead);
       ASSERT_GE(held, 0);
       const auto client = [&] {
         return std::make_unique<RedisBackend>(remote_testing::Loopback(dead), "");
       };
       s->options.remote = std::make_shared<RemoteTier>(
           RemoteOptions{.secret = "a fleet's key of 32 bytes or so."}, client(), client());
     }},
};

TEST(MissReasonsTest, EachIsToldAndCountedAlone) {
  constexpr int kReasons = static_cast<int>(MissReason::kCount);
  ASSERT_EQ(std::size(kCases), static_cast<size_t>(kReasons)) << "a reason without a case";
  for (const Case& c : kCases) {
    Scene scene;
    ASSERT_TRUE(std::make_unique<TieredStore>(scene.options)->Get(kKernel, scene.key).hit);
    c.arrange(&scene);
    const auto store = std::make_unique<TieredStore>(scene.options);
    const Lookup lookup = store->Get(kKernel, scene.key);
    EXPECT_FALSE(lookup.hit) << NameOf(c.reason);
    EXPECT_EQ(lookup.reason, c.reason) << lookup.detail;
    const StoreStats stats = store->Stats();
    for (int reason = 0; reason < kReasons; ++reason) {
      EXPECT_EQ(stats.misses[reason], reason == static_cast<int>(c.reason) ? 1u : 0u)
          << NameOf(c.reason) << ", counter of " << NameOf(static_cast<MissReason>(reason));
    }
    std::cout << "miss: " << NameOf(lookup.reason) << ": " << lookup.detail << "\n";
  }
}

// What a miss that must not be says about the entry that comes nearest; a tier that is only read.

TEST(NearestTest, NamesEveryFieldThatDiffers) {
  struct Case {
    std::function<void(PlanKey*)> change;
    const char* want;
  };
  const Case cases[] = {
      {[](PlanKey* k) { k->bucket = 128; }, "bucket is 128, want 64"},
      {[](PlanKey* k) { k->library_version = "0.2.0"; }, "library is 0.2.0, want 0.1.0"},
      {[](PlanKey* k) { k->search_version = 9; }, "search version is 9, want 3"},
      {[](PlanKey* k) { k->flags = 2; }, "flags is 2, want 1"},
      {[](PlanKey* k) { k->device_model = Sha256("h100"); }, "another device model"},
      {[](PlanKey* k) { k->tuning_set = Digest(); }, "another tuning set"},
      {[](PlanKey* k) { k->chain = "other"; }, "another chain"},
      {[](PlanKey* k) { k->format_version = 7; }, "format is 7, want 1"},
  };
  for (const Case& c : cases) {
    PlanKey key = SamplePlanKey();
    c.change(&key);
    Nearest nearest(RecordKind::kPlan, EncodeKey(SamplePlanKey()));
    nearest.Offer(RecordKind::kPlan, EncodeKey(key), "a.pack");
    EXPECT_THAT(nearest.Explain(), AllOf(HasSubstr("nearest of 1 plans is"), HasSubstr("in a.pack"),
                                         HasSubstr(c.want), Not(HasSubstr(";"))));
  }
}

TEST(NearestTest, PrefersTheRightSubjectThenTheFewestDifferences) {
  Nearest nearest(RecordKind::kKernel, EncodeKey(SampleKernelKey(1)));
  EXPECT_EQ(nearest.Explain(), "the cache holds no kernels");
  KernelKey key = SampleKernelKey(2);
  nearest.Offer(RecordKind::kKernel, EncodeKey(key), "x");
  EXPECT_THAT(nearest.Explain(), HasSubstr("another kernel"));
  key = SampleKernelKey(1);
  key.arch = "sm_100a";
  key.toolchain_id = "nvrtc 12";
  nearest.Offer(RecordKind::kKernel, EncodeKey(key), "x");
  EXPECT_THAT(nearest.Explain(), HasSubstr("arch is sm_100a, want sm_90a; toolchain is nvrtc 12"));
  key.arch = "sm_90a";
  nearest.Offer(RecordKind::kKernel, EncodeKey(key), "y");
  EXPECT_THAT(nearest.Explain(), AllOf(HasSubstr("in y: toolchain"), Not(HasSubstr("arch"))));
  nearest.Offer(RecordKind::kPlan, EncodeKey(SamplePlanKey()), "z");
  nearest.Offer(RecordKind::kKernel, "nonsense", "z");
  EXPECT_THAT(nearest.Explain(), HasSubstr("nearest of 4 kernels"));
}

TEST(ReadOnlyTest, ReadsWhatIsThereAndWritesNothing) {
  TempDir temp;
  TierOptions options{.local_root = temp / "root", .sync = false};
  const std::string key = EncodeKey(SamplePlanKey()), other = EncodeKey(SamplePlanKey(1));
  std::make_unique<TieredStore>(options)->Put(RecordKind::kPlan, key, "payload");
  const int files = CountFiles(temp.path());
  options.read_only = true;
  {
    const auto store = std::make_unique<TieredStore>(options);
    EXPECT_EQ(store->Get(RecordKind::kPlan, key).payload, "payload");
    store->Put(RecordKind::kPlan, other, "late");
    EXPECT_EQ(store->Get(RecordKind::kPlan, other).payload, "late");
    EXPECT_EQ(store->LockForBuild(RecordKind::kPlan, other, 1000), nullptr);
    store->Quarantine(RecordKind::kPlan, key, "wrong");
    EXPECT_EQ(store->Get(RecordKind::kPlan, key).reason, MissReason::kQuarantined);
    EXPECT_TRUE(absl::IsUnavailable(store->Trim(1).status()));
    EXPECT_EQ(store->Stats().put_failures, 0u);
  }
  EXPECT_EQ(CountFiles(temp.path()), files);
  EXPECT_TRUE(std::make_unique<TieredStore>(options)->Get(RecordKind::kPlan, key).hit);
  options.local_root = temp / "absent";
  EXPECT_EQ(std::make_unique<TieredStore>(options)->Get(RecordKind::kPlan, key).reason,
            MissReason::kDisabled);
  EXPECT_EQ(CountFiles(temp.path()), files);
}

TEST(ReadOnlyTest, NoCallThatChangesAnythingPasses) {
  TempDir temp;
  ReadOnlyFiles files(std::make_shared<FileOps>());
  const std::string path = temp / "file";
  const std::function<int()> calls[] = {
      [&] { return files.OpenAt(AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT, 0600); },
      [&] { return files.OpenAt(AT_FDCWD, path.c_str(), O_RDONLY | O_CREAT, 0600); },
      [&] { return files.OpenAt(AT_FDCWD, temp.path().c_str(), O_WRONLY | O_TMPFILE, 0600); },
      [&] { return files.MkdirAt(AT_FDCWD, path.c_str(), 0700); },
      [&] { return files.UnlinkAt(AT_FDCWD, temp.path().c_str()); },
      [&] { return files.RmdirAt(AT_FDCWD, temp.path().c_str()); },
      [&] { return files.RenameAt(AT_FDCWD, temp.path().c_str(), path.c_str(), 0); },
      [&] { return files.LinkAt(AT_FDCWD, "/etc/hostname", path.c_str()); },
      [&] { return files.LinkFd(0, AT_FDCWD, path.c_str()); },
      [&] { return files.TouchAt(AT_FDCWD, temp.path().c_str()); },
      [&] { return files.LockByte(0, 0); },
      [&] { return files.Sync(0); },
      [&] { return static_cast<int>(files.Write(1, "", 0)); },
  };
  for (const auto& call : calls) {
    errno = 0;
    EXPECT_EQ(call(), -1);
    EXPECT_EQ(errno, EROFS);
  }
  EXPECT_EQ(CountFiles(temp.path()), 0);
}

}  // namespace
}  // namespace sinter
