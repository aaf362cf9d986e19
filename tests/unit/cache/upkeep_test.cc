// What looks after the local tier: every function says so when it cannot; nothing is removed
// through a link or from a folder that is not the library's.
#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

class UpkeepTest : public testing::Test {
 protected:
  UpkeepTest() { Reopen(); }

  TierOptions Options() const {
    return TierOptions{.local_root = root_, .producer = "sinter 0.1.0", .sync = false};
  }
  void Reopen() {
    tiers_.reset();
    tiers_ = std::make_unique<TieredStore>(Options());
  }
  // Two plans, two kernels of which one was verified, a tombstone.
  void Fill() {
    KernelRecord record = cache_testing::SampleKernelRecord();
    for (int i = 0; i < 2; ++i) {
      tiers_->Put(kPlan, EncodeKey(cache_testing::SamplePlanKey(i)), "plan");
      if (i == 1) record.verification.device = "NVIDIA H200";
      tiers_->Put(kKernel, EncodeKey(cache_testing::SampleKernelKey(i)),
                  EncodeKernelRecord(record));
    }
    tiers_->Quarantine(kKernel, EncodeKey(cache_testing::SampleKernelKey(9)), "seed 3");
  }
  struct Listed {
    uint64_t bytes = 0;
    int64_t last_use = 0;
    bool sound = false, verified = false;
    std::string arch, producer;
  };
  std::map<std::pair<RecordKind, Digest>, Listed> List() {
    std::map<std::pair<RecordKind, Digest>, Listed> listed;
    const auto visit = [&](const StoredEntry& entry, const Envelope* envelope) {
      Listed& one = listed[{entry.kind, entry.digest}];
      one.bytes = entry.bytes;
      one.last_use = entry.last_use_unix_s;
      one.sound = envelope != nullptr;
      if (envelope == nullptr) return;
      one.verified = envelope->verified;
      one.arch = envelope->arch;
      one.producer = envelope->producer;
    };
    EXPECT_TRUE(tiers_->ListLocal(visit).ok());
    return listed;
  }

  TempDir temp_;
  const std::string root_ = temp_ / "root";
  std::unique_ptr<TieredStore> tiers_;
};

TEST_F(UpkeepTest, CountsListsAndVerifiesWhatItHolds) {
  Fill();
  const auto report = Got(tiers_->Inspect());
  EXPECT_EQ(report.plans, 2u);
  EXPECT_EQ(report.kernels, 2u);
  EXPECT_EQ(report.verified_kernels, 1u);
  EXPECT_EQ(report.unsound, 0u);
  EXPECT_EQ(report.other_format, 0u);
  EXPECT_EQ(report.quarantined, 1u);
  EXPECT_GT(report.bytes, 1000u);
  EXPECT_THAT(report.findings, testing::ElementsAre(HasSubstr("seed 3")));
  const auto listed = List();
  EXPECT_EQ(listed.size(), 4u);
  uint64_t bytes = 0, verified = 0;
  for (const auto& [name, one] : listed) {
    bytes += one.bytes;
    verified += one.verified ? 1 : 0;
    EXPECT_TRUE(one.sound);
    EXPECT_EQ(one.producer, "sinter 0.1.0");
    EXPECT_EQ(one.arch, name.first == kKernel ? "sm_90a" : "");
    EXPECT_GT(one.last_use, 1600000000);
  }
  EXPECT_EQ(bytes, report.bytes);
  EXPECT_EQ(verified, 1u);
}

TEST_F(UpkeepTest, ClearEmptiesIt) {
  Fill();
  const auto dry = Got(tiers_->Clear(/*dry_run=*/true));
  EXPECT_EQ(dry.records, 4u);
  EXPECT_EQ(List().size(), 4u);
  const auto done = Got(tiers_->Clear(/*dry_run=*/false));
  EXPECT_EQ(done.records, 4u);
  EXPECT_EQ(done.bytes, dry.bytes);
  EXPECT_EQ(done.failed, 0u);
  EXPECT_EQ(List().size(), 0u);
  EXPECT_EQ(tiers_->Inspect()->quarantined, 1u);  // for good
  Reopen();
  EXPECT_EQ(List().size(), 0u);
  Fill();
  EXPECT_EQ(List().size(), 4u);
}

TEST_F(UpkeepTest, TrimExportAndImportActOnIt) {
  Fill();
  PackWriteOptions to{.path = temp_ / "pack"};
  const auto exported = Got(tiers_->Export(to, /*used_only=*/false));
  EXPECT_EQ(exported.plans + exported.kernels, 4u);
  const auto trimmed = Got(tiers_->Trim(1));
  EXPECT_EQ(trimmed.records, 4u);
  EXPECT_EQ(trimmed.evicted, 4u);
  const auto pack = Got(PackReader::Open({.path = to.path, .allow_unsigned = true}));
  EXPECT_EQ(Got(tiers_->Import(*pack)).stored, 4u);
  EXPECT_EQ(List().size(), 4u);
}

// A damaged record is counted, listed as unsound, and cleared like any other.
TEST_F(UpkeepTest, AnUnsoundRecordIsSaid) {
  const std::string key = EncodeKey(cache_testing::SampleKernelKey(1));
  tiers_.reset();
  {
    Envelope envelope;  // of another key than its name
    envelope.kind = kKernel;
    envelope.arch = "sm_90a";
    envelope.key = "another key";
    envelope.payload = "payload";
    ASSERT_TRUE(cache_testing::OpenStore(root_)->PutRecord(Sha256(key), envelope).ok());
  }
  Reopen();
  const auto report = Got(tiers_->Inspect());
  EXPECT_EQ(report.unsound, 1u);
  EXPECT_EQ(report.findings.size(), 1u);
  const auto listed = List();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_FALSE(listed.begin()->second.sound);
  EXPECT_EQ(tiers_->Clear(false)->records, 1u);
  EXPECT_EQ(tiers_->Inspect()->unsound, 0u);
}

TEST_F(UpkeepTest, WithoutAStoreEveryFunctionSaysWhy) {
  Fill();
  const auto check = [&](TieredStore* tiers, absl::StatusCode looking, absl::StatusCode changing) {
    const auto ignore = [](const StoredEntry&, const Envelope*) {};
    EXPECT_EQ(tiers->Inspect().status().code(), looking) << tiers->Inspect().status();
    EXPECT_EQ(tiers->ListLocal(ignore).code(), looking);
    EXPECT_EQ(tiers->Clear(true).status().code(), looking);
    EXPECT_EQ(tiers->Clear(false).status().code(), changing);
    EXPECT_EQ(tiers->Trim(1).status().code(), changing);
  };
  using absl::StatusCode;
  EXPECT_TRUE(std::make_unique<TieredStore>(Options())
                  ->Inspect()
                  .ok());  // next to the first, in one process
  TierOptions read_only = Options();
  read_only.read_only = true;
  check(std::make_unique<TieredStore>(read_only).get(), StatusCode::kOk, StatusCode::kUnavailable);
  TierOptions none = Options();
  none.local_root = "";
  check(std::make_unique<TieredStore>(none).get(), StatusCode::kUnavailable,
        StatusCode::kUnavailable);
  EXPECT_EQ(List().size(), 4u);
  tiers_.reset();
  ASSERT_EQ(chmod(root_.c_str(), 0777), 0);
  check(std::make_unique<TieredStore>(Options()).get(), StatusCode::kPermissionDenied,
        StatusCode::kPermissionDenied);
  ASSERT_EQ(chmod(root_.c_str(), 0700), 0);
  Reopen();
  EXPECT_EQ(List().size(), 4u);
}

// What a version that could keep a database left in the folder is not read, not touched, and in
// nobody's way.
TEST_F(UpkeepTest, ADatabaseOfAVersionBeforeIsLeftAlone) {
  Fill();
  std::filesystem::create_directories(root_ + "/v1/db");
  WriteFile(root_ + "/v1/db/000005.ldb", "a table");
  WriteFile(root_ + "/v1/db.lock", "");
  Reopen();
  EXPECT_EQ(List().size(), 4u);
  EXPECT_EQ(tiers_->Trim(1)->evicted, 4u);
  Fill();
  EXPECT_EQ(tiers_->Clear(false)->records, 4u);
  EXPECT_EQ(cache_testing::ReadFile(root_ + "/v1/db/000005.ldb"), "a table");
}

// The records of somebody else, reached by a link in place of a folder of ours.
TEST_F(UpkeepTest, NothingIsRemovedThroughALink) {
  Fill();
  tiers_.reset();
  const std::string digest = Sha256("victim").Hex(), fan = digest.substr(0, 2);
  const std::string victims = temp_ / "victims",
                    victim = victims + "/" + fan + "/" + digest.substr(2) + ".ldb";
  ASSERT_TRUE(std::filesystem::create_directories(victims + "/" + fan));
  WriteFile(victim, "of another program");
  const std::string obj = root_ + "/v1/obj", kept = temp_ / "kept";
  std::filesystem::create_directories(obj);
  std::filesystem::rename(obj, kept);
  ASSERT_EQ(symlink(victims.c_str(), obj.c_str()), 0);  // the folder
  Reopen();
  EXPECT_TRUE(absl::IsPermissionDenied(tiers_->Clear(false).status()))
      << tiers_->Clear(true).status();
  EXPECT_TRUE(Says(tiers_->Inspect(), "v1/obj: is a link"));
  tiers_.reset();
  ASSERT_EQ(unlink(obj.c_str()), 0);
  std::filesystem::rename(kept, obj);
  Reopen();  // a folder below it, after the store was opened
  ASSERT_FALSE(std::filesystem::exists(obj + "/" + fan));
  ASSERT_EQ(symlink((victims + "/" + fan).c_str(), (obj + "/" + fan).c_str()), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(tiers_->Clear(false).status()));
  (void)tiers_->Trim(1);
  EXPECT_TRUE(std::filesystem::exists(victim));
}

TEST_F(UpkeepTest, AFolderWithFilesOfSomebodyElseIsNotEmptied) {
  Fill();
  ASSERT_TRUE(tiers_->Inspect().ok());
  WriteFile(root_ + "/v1/notes.txt", "mine");
  EXPECT_TRUE(Fails(tiers_->Clear(false), absl::StatusCode::kFailedPrecondition,
                    "v1/notes.txt is not of this"));
  ASSERT_EQ(unlink((root_ + "/v1/notes.txt").c_str()), 0);
  std::filesystem::create_directories(root_ + "/v1/obj/database");
  EXPECT_TRUE(absl::IsFailedPrecondition(tiers_->Clear(false).status()));
  ASSERT_EQ(rmdir((root_ + "/v1/obj/database").c_str()), 0);
  std::filesystem::create_directories(root_ + "/v1/obj/fe");
  ASSERT_EQ(chmod((root_ + "/v1/obj/fe").c_str(), 0777), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(tiers_->Clear(false).status()));
  EXPECT_EQ(List().size(), 4u);
}

// Each call that changes something, against a link in the middle of its path, and a folder that
// others may write.
TEST(FileOpsTest, NothingIsChangedThroughALinkOrInAnOpenFolder) {
  TempDir temp;
  FileOps ops;
  for (const char* folder : {"/base", "/base/real", "/base/open", "/victim"}) {
    ASSERT_EQ(mkdir((temp.path() + folder).c_str(), 0700), 0);
  }
  ASSERT_EQ(chmod((temp / "base/open").c_str(), 0777), 0);
  ASSERT_EQ(symlink((temp / "victim").c_str(), (temp / "base/link").c_str()), 0);
  for (const char* file : {"/victim/f", "/base/open/f", "/base/real/f"}) {
    WriteFile(temp.path() + file, "mine");
  }
  const Fd base(&ops, open((temp / "base").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd unnamed(&ops, ops.OpenAt(base.get(), "real", O_WRONLY | O_TMPFILE, 0600));
  ASSERT_TRUE(base.valid());
  const std::pair<const char*, int> cases[] = {{"link", ELOOP}, {"open", EACCES}};
  for (const auto& [folder, error] : cases) {
    const std::string in = std::string(folder) + "/", f = in + "f", g = in + "g";
    const int dir = base.get();
    const auto fails = [&, error = error, folder = folder](const char* what, int rc) {
      const int got = errno;
      EXPECT_EQ(rc, -1) << what << " " << folder;
      EXPECT_EQ(got, error) << what << " " << folder;
    };
    fails("unlink", ops.UnlinkAt(dir, f.c_str()));
    fails("rename from", ops.RenameAt(dir, f.c_str(), "real/g", 0));
    fails("rename to", ops.RenameAt(dir, "real/f", g.c_str(), 0));
    fails("link from", ops.LinkAt(dir, f.c_str(), "real/g"));
    fails("link to", ops.LinkAt(dir, "real/f", g.c_str()));
    fails("mkdir", ops.MkdirAt(dir, g.c_str(), 0700));
    fails("rmdir", ops.RmdirAt(dir, g.c_str()));
    fails("touch", ops.TouchAt(dir, f.c_str()));
    fails("create", ops.OpenAt(dir, g.c_str(), O_WRONLY | O_CREAT, 0600));
    fails("write", ops.OpenAt(dir, f.c_str(), O_WRONLY, 0600));
    fails("unnamed", ops.OpenAt(dir, folder, O_WRONLY | O_TMPFILE, 0600));
    if (unnamed.valid()) fails("name", ops.LinkFd(unnamed.get(), dir, g.c_str()));
    EXPECT_FALSE(std::filesystem::exists(temp / ("base/" + g)));
  }
  EXPECT_EQ(ops.UnlinkAt(base.get(), "../victim/f"), -1);
  EXPECT_EQ(ops.UnlinkAt(base.get(), "real/../open/f"), -1);
  EXPECT_EQ(cache_testing::ReadFile(temp / "victim/f"), "mine");
  EXPECT_EQ(cache_testing::ReadFile(temp / "base/open/f"), "mine");
  EXPECT_EQ(ops.UnlinkAt(base.get(), "real/f"), 0);
}

}  // namespace
}  // namespace sinter
