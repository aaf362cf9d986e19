// What a miss that must not be says about the entry that comes nearest; a tier that is only read.
#include "cache/store/files.h"
#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

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
