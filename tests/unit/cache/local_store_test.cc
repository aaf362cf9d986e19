#include "cache/store/directory.h"
#include "tests/unit/cache/cache_tests.h"
#include "tests/unit/cache/forged_table.h"

namespace sinter {
namespace {

using cache_testing::TombstoneIn;

LocalStoreOptions OptionsFor(const std::string& root) {
  return LocalStoreOptions{.root = root, .producer = "sinter 0.1.0", .sync = false};
}

Lookup Get(LocalStore* store, RecordKind kind, const std::string& key) {
  return store->Get(kind, key, Sha256(key));
}
absl::Status Put(LocalStore* store, RecordKind kind, const std::string& key,
                 const std::string& payload) {
  return store->Put(kind, key, Sha256(key), payload);
}

TEST(LocalStoreTest, ServesWhatWasPutToEveryOpener) {
  TempDir temp;
  LocalStore writer(OptionsFor(temp.path()));
  const std::string plan = EncodeKey(SamplePlanKey()), kernel = EncodeKey(SampleKernelKey());
  ASSERT_TRUE(Put(&writer, kPlan, plan, "plan").ok());
  ASSERT_TRUE(Put(&writer, kKernel, kernel, RandomBytes(200000, 1)).ok());
  ASSERT_TRUE(Put(&writer, kPlan, "empty", "").ok());
  LocalStore reader(OptionsFor(temp.path()));
  EXPECT_EQ(Get(&reader, kPlan, plan).payload, "plan");
  const Lookup hit = Get(&reader, kKernel, kernel);
  EXPECT_TRUE(hit.hit);
  EXPECT_STREQ(hit.tier, "local");
  EXPECT_EQ(hit.payload, RandomBytes(200000, 1));
  EXPECT_TRUE(Get(&reader, kPlan, "empty").hit);
  const Lookup absent = Get(&reader, kKernel, plan);
  EXPECT_FALSE(absent.hit);
  EXPECT_EQ(absent.reason, MissReason::kAbsent);
  EXPECT_EQ(absent.detail, "");
}

TEST(LocalStoreTest, FilesArePrivateAndLeaveNoTemporary) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  ASSERT_TRUE(Put(&store, kKernel, "k", "v").ok());
  struct stat st;
  ASSERT_EQ(stat(PathIn(temp.path(), kKernel, "k").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_EQ(CountFiles(temp.path()), 1);
}

TEST(LocalStoreTest, ALaterPutReplaces) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  ASSERT_TRUE(Put(&store, kPlan, "k", "first").ok());
  ASSERT_TRUE(Put(&store, kPlan, "k", "first").ok());
  EXPECT_EQ(Get(&store, kPlan, "k").payload, "first");
  ASSERT_TRUE(Put(&store, kPlan, "k", "second").ok());
  EXPECT_EQ(Get(&store, kPlan, "k").payload, "second");
  EXPECT_EQ(CountFiles(temp.path()), 1);
}

TEST(LocalStoreTest, AnUnverifiedKernelNeverReplacesAVerifiedOne) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  KernelRecord record = SampleKernelRecord();
  const std::string unverified = EncodeKernelRecord(record);
  record.verification = {"NVIDIA H200", 17, 0.001};
  const std::string verified = EncodeKernelRecord(record);
  ASSERT_TRUE(Put(&store, kKernel, "k", unverified).ok());
  ASSERT_TRUE(Put(&store, kKernel, "k", verified).ok());
  EXPECT_EQ(Get(&store, kKernel, "k").payload, verified);
  ASSERT_TRUE(Put(&store, kKernel, "k", unverified).ok());
  EXPECT_EQ(Get(&store, kKernel, "k").payload, verified);
}

// Lengths that no memory holds, under right checksums: damage like any other, not a lack of memory
// that would keep the file in its place for good.
TEST(LocalStoreTest, AFileMadeByHandIsMovedAsideAndPublishedAgain) {
  using cache_testing::Handle;
  const std::string name =
      absl::StrCat(TableUserKey(kKernel, Sha256("k")), absl::string_view("\1\1\0\0\0\0\0\0", 8));
  const std::string block = cache_testing::Block(cache_testing::Entry(name, "value"), {0});
  const std::string index =
      cache_testing::IndexBlock({cache_testing::Entry(name, Handle(0, uint64_t{1} << 62))});
  std::vector<std::string> files = {block + cache_testing::ForgedRest(block.size(), index)};
  for (const auto& forged : cache_testing::ForgedBlocks(name)) {
    files.push_back(cache_testing::ForgedTable({name}, {forged.bytes}));
  }
  for (const std::string& file : files) {
    TempDir temp;
    LocalStore store(OptionsFor(temp.path()));
    ASSERT_TRUE(Put(&store, kKernel, "k", "value").ok());
    WriteFile(PathIn(temp.path(), kKernel, "k"), file);
    EXPECT_EQ(Get(&store, kKernel, "k").reason, MissReason::kDamaged);
    EXPECT_EQ(store.moved_aside(), 1u);
    ASSERT_TRUE(Put(&store, kKernel, "k", "value").ok());
    EXPECT_EQ(Get(&store, kKernel, "k").payload, "value");
  }
}

TEST(LocalStoreTest, ADamagedFileIsMovedAsideAndPublishedAgain) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  ASSERT_TRUE(Put(&store, kKernel, "k", "value").ok());
  WriteFile(PathIn(temp.path(), kKernel, "k"), RandomBytes(300, 1));
  const Lookup miss = Get(&store, kKernel, "k");
  EXPECT_EQ(miss.reason, MissReason::kDamaged);
  EXPECT_THAT(miss.detail, HasSubstr("obj/"));
  EXPECT_THAT(miss.detail, HasSubstr("table: the index does not end at the footer"));
  EXPECT_EQ(CountFiles(temp / "v1/bad"), 1);
  EXPECT_EQ(store.moved_aside(), 1u);
  EXPECT_EQ(Get(&store, kKernel, "k").reason, MissReason::kAbsent);
  ASSERT_TRUE(Put(&store, kKernel, "k", "value").ok());
  EXPECT_EQ(Get(&store, kKernel, "k").payload, "value");
}

TEST(LocalStoreTest, PutHealsADamagedFileThatNobodyHasRead) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  ASSERT_TRUE(Put(&store, kKernel, "k", "value").ok());
  WriteFile(PathIn(temp.path(), kKernel, "k"), "");
  ASSERT_TRUE(Put(&store, kKernel, "k", "value").ok());
  EXPECT_EQ(Get(&store, kKernel, "k").payload, "value");
  EXPECT_EQ(CountFiles(temp / "v1/bad"), 1);
}

TEST(LocalStoreTest, BadFilesAreBounded) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  for (int i = 0; i < 40; ++i) {
    const std::string key = absl::StrCat("k", i);
    ASSERT_TRUE(Put(&store, kKernel, key, "value").ok());
    WriteFile(PathIn(temp.path(), kKernel, key), "damage");
    EXPECT_FALSE(Get(&store, kKernel, key).hit);
  }
  EXPECT_EQ(CountFiles(temp / "v1/bad"), kMaxBadFiles);
}

TEST(LocalStoreTest, ARecordUnderAnotherNameIsRefused) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  KernelKey here = SampleKernelKey(0), other = SampleKernelKey(1), arch = SampleKernelKey(0);
  arch.arch = "sm_90";
  ASSERT_TRUE(Put(&store, kKernel, EncodeKey(other), "other").ok());
  ASSERT_TRUE(Put(&store, kKernel, EncodeKey(arch), "arch").ok());
  ASSERT_TRUE(Put(&store, kPlan, EncodeKey(here), "plan").ok());
  const std::string key = EncodeKey(here);
  ASSERT_TRUE(Put(&store, kKernel, key, "mine").ok());
  const std::string path = PathIn(temp.path(), kKernel, key);
  const struct {
    RecordKind kind;
    std::string from;
    MissReason reason;
  } cases[] = {{kKernel, EncodeKey(other), MissReason::kDamaged},
               {kKernel, EncodeKey(arch), MissReason::kForeignArch},
               {kPlan, key, MissReason::kDamaged}};
  for (const auto& c : cases) {
    WriteFile(path, ReadFile(PathIn(temp.path(), c.kind, c.from)));
    const Lookup miss = Get(&store, kKernel, key);
    EXPECT_FALSE(miss.hit);
    EXPECT_EQ(miss.reason, c.reason) << miss.detail;
    ASSERT_TRUE(Put(&store, kKernel, key, "mine").ok());
    EXPECT_EQ(Get(&store, kKernel, key).payload, "mine");
  }
}

TEST(LocalStoreTest, QuarantineHoldsForEveryOpenerAndEveryLaterPut) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path())), other(OptionsFor(temp.path()));
  ASSERT_TRUE(Put(&store, kKernel, "k", "wrong kernel").ok());
  ASSERT_TRUE(store.Quarantine(kKernel, Sha256("k"), "device H200 seed 17 error 0.4").ok());
  for (LocalStore* s : {&store, &other}) {
    const Lookup miss = Get(s, kKernel, "k");
    EXPECT_EQ(miss.reason, MissReason::kQuarantined);
    EXPECT_THAT(miss.detail, HasSubstr("seed 17"));
    EXPECT_TRUE(absl::IsFailedPrecondition(Put(s, kKernel, "k", "again")));
  }
  EXPECT_EQ(CountFiles(temp / "v1/bad"), 1);
  EXPECT_EQ(Get(&store, kPlan, "k").reason, MissReason::kAbsent);
  EXPECT_TRUE(store.Quarantine(kKernel, Sha256("k"), "once more").ok());
  EXPECT_TRUE(store.Quarantine(kPlan, Sha256("never stored"), "why").ok());
  EXPECT_EQ(Get(&other, kPlan, "never stored").reason, MissReason::kQuarantined);
}

TEST(LocalStoreTest, ATombstoneHoldsWhateverItsBytes) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  ASSERT_TRUE(Put(&store, kKernel, "k", "v").ok());
  ASSERT_TRUE(store.Quarantine(kKernel, Sha256("k"), "why").ok());
  for (const std::string& bytes : {std::string(), std::string("\0\xff", 2), RandomBytes(9000, 1)}) {
    WriteFile(TombstoneIn(temp.path(), kKernel, "k"), bytes);
    EXPECT_EQ(Get(&store, kKernel, "k").reason, MissReason::kQuarantined);
  }
}

TEST(LocalStoreTest, RefusesFilesThatOthersCouldHaveWritten) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  ASSERT_TRUE(Put(&store, kKernel, "k", "v").ok());
  const std::string path = PathIn(temp.path(), kKernel, "k");
  for (const mode_t mode : {0660, 0602}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_EQ(Get(&store, kKernel, "k").reason, MissReason::kRefusedOwner);
  }
  const std::string copy = temp / "copy";
  WriteFile(copy, ReadFile(path));
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(symlink(copy.c_str(), path.c_str()), 0);
  EXPECT_EQ(Get(&store, kKernel, "k").reason, MissReason::kRefusedOwner);
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(Get(&store, kKernel, "k").reason, MissReason::kRefusedOwner);
  ASSERT_TRUE(Put(&store, kKernel, "k", "v").ok());
  EXPECT_EQ(Get(&store, kKernel, "k").payload, "v");
}

TEST(LocalStoreTest, SurvivesTheLossOfItsFolder) {
  TempDir temp;
  const std::string root = temp / "root";
  LocalStore store(OptionsFor(root));
  ASSERT_TRUE(Put(&store, kKernel, "k", "v").ok());
  std::filesystem::remove_all(root);
  EXPECT_EQ(Get(&store, kKernel, "k").reason, MissReason::kAbsent);
  EXPECT_EQ(store.LockForBuild(kKernel, Sha256("k"), 1000), nullptr);
  ASSERT_TRUE(Put(&store, kKernel, "k", "v").ok());
  EXPECT_EQ(Get(&store, kKernel, "k").payload, "v");
  EXPECT_NE(store.LockForBuild(kKernel, Sha256("k"), 1000), nullptr);
  std::filesystem::remove_all(root);
  EXPECT_TRUE(store.Quarantine(kKernel, Sha256("k"), "why").ok());
  EXPECT_EQ(Get(&store, kKernel, "k").reason, MissReason::kQuarantined);
}

TEST(LocalStoreTest, TwoSpellingsOfOneRootAreOneStore) {
  TempDir temp;
  ASSERT_EQ(mkdir((temp / "x").c_str(), 0700), 0);
  LocalStore b(OptionsFor(temp / "root")), c(OptionsFor(temp / "x/../root"));
  ASSERT_TRUE(c.usable().ok()) << c.usable();
  ASSERT_TRUE(Put(&b, kPlan, "from b", "b").ok());
  ASSERT_TRUE(Put(&c, kPlan, "from c", "c").ok());
  EXPECT_EQ(Get(&c, kPlan, "from b").payload, "b");
  EXPECT_EQ(Get(&b, kPlan, "from c").payload, "c");
}

TEST(LocalStoreTest, WorksInAForkedChild) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  ASSERT_TRUE(Put(&store, kPlan, "parent", "p").ok());
  EXPECT_EQ(EndOfChild([&] {
              const bool ok = Get(&store, kPlan, "parent").payload == "p" &&
                              Put(&store, kPlan, "child", "c").ok() &&
                              store.LockForBuild(kPlan, Sha256("x"), 0) != nullptr;
              return ok ? 0 : 1;
            }),
            0);
  EXPECT_EQ(Get(&store, kPlan, "child").payload, "c");
  EXPECT_EQ(Get(&store, kPlan, "parent").payload, "p");
}

// A read-only folder serves hits; root ignores modes, so the child drops to an ordinary user when
// it is root.
TEST(LocalStoreTest, AReadOnlyFolderServesHitsAndFailsPuts) {
  TempDir temp("/tmp");  // which another user reaches; the build folder may lie in root's home
  {
    LocalStore store(OptionsFor(temp / "root"));
    ASSERT_TRUE(Put(&store, kPlan, "k", "v").ok());
  }
  const bool root = geteuid() == 0;
  ASSERT_EQ(system(("chmod -R a-w,a+rX " + temp.path()).c_str()), 0);
  const int end = EndOfChild([&] {
    if (root && setresuid(65534, 65534, 65534) != 0) return 2;
    LocalStore store(OptionsFor(temp / "root"));
    if (!store.usable().ok()) return 3;
    if (Get(&store, kPlan, "k").payload != "v") return 4;  // if owned by root: trusted
    if (Put(&store, kPlan, "new", "v").ok()) return 6;
    if (Put(&store, kPlan, "k", "other").ok()) return 7;
    if (store.Quarantine(kPlan, Sha256("k"), "why").ok()) return 8;
    if (store.LockForBuild(kPlan, Sha256("k"), 1000) != nullptr) return 9;
    LocalStore below(OptionsFor(temp / "root/new"));
    if (below.usable().ok()) return 10;
    return Get(&below, kPlan, "k").reason == MissReason::kDisabled ? 0 : 11;
  });
  EXPECT_EQ(end, 0);
  ASSERT_EQ(system(("chmod -R u+w " + temp.path()).c_str()), 0);
}

TEST(LocalStoreTest, InspectionCountsWhatIsThere) {
  TempDir temp;
  LocalStore store(OptionsFor(temp.path()));
  KernelRecord record = SampleKernelRecord();
  record.verification.device = "NVIDIA H200";
  ASSERT_TRUE(Put(&store, kPlan, "p", "plan").ok());
  ASSERT_TRUE(Put(&store, kKernel, "k1", EncodeKernelRecord(record)).ok());
  ASSERT_TRUE(Put(&store, kKernel, "k2", "kernel").ok());
  ASSERT_TRUE(Put(&store, kKernel, "k3", "kernel").ok());
  ASSERT_TRUE(Put(&store, kKernel, "k4", "kernel").ok());
  WriteFile(PathIn(temp.path(), kKernel, "k3"), "damage");
  WriteFile(PathIn(temp.path(), kKernel, "k4"), ReadFile(PathIn(temp.path(), kKernel, "k2")));
  ASSERT_TRUE(store.Quarantine(kPlan, Sha256("q"), "seed 3").ok());
  const auto report = Got(InspectLocalStore(temp.path()));
  EXPECT_EQ(report.plans, 1u);
  EXPECT_EQ(report.kernels, 2u);
  EXPECT_EQ(report.verified_kernels, 1u);
  EXPECT_EQ(report.unsound, 2u);
  EXPECT_EQ(report.quarantined, 1u);
  EXPECT_EQ(report.temporary, 0u);
  EXPECT_GT(report.bytes, 0u);
  EXPECT_EQ(report.findings.size(), 3u);
  EXPECT_EQ(CountFiles(temp / "v1/bad"), 0);
}

// A file that was verified once is not hashed again, but its checksums are, and a file that was
// written into or replaced is new.
TEST(LocalStoreTest, AKnownFileIsCheckedAgainAndAChangedOneWholly) {
  TempDir temp;
  LocalStore store(OptionsFor(temp / "root"));
  const std::string value = RandomBytes(50000, 1);
  ASSERT_TRUE(Put(&store, kKernel, "k", value).ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Get(&store, kKernel, "k").payload, value);
  const std::string path = PathIn(temp / "root", kKernel, "k");
  struct stat before;
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  const std::string file = ReadFile(path);
  const TableEntry entry = Got(ReadTable(file));
  const auto block_of = [&](absl::string_view record) {
    const auto key = file.substr(file.find(entry.user_key), entry.user_key.size() + 8);
    return cache_testing::Block(cache_testing::Entry(key, record), {0});
  };
  const std::string sound = block_of(entry.value);
  ASSERT_EQ(file.substr(0, sound.size()), sound);
  std::string changed(entry.value);
  changed[30000] = static_cast<char>(changed[30000] ^ 1);
  WriteFile(path, block_of(changed) + file.substr(sound.size()));  // its checksum is right
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(Get(&store, kKernel, "k").reason, MissReason::kDamaged);
  ASSERT_TRUE(Put(&store, kKernel, "k", "other").ok());
  EXPECT_EQ(Get(&store, kKernel, "k").payload, "other");
}

}  // namespace
}  // namespace sinter
