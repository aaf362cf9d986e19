// What the local store promises to who uses it.
#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

using cache_testing::OpenStore;

class ConformanceTest : public testing::Test {
 protected:
  ConformanceTest() { Reopen(); }
  void Reopen(std::shared_ptr<FileOps> ops = nullptr) {
    store_.reset();
    store_ = OpenStore(root_, std::move(ops));
  }
  Lookup Get(RecordKind kind, const std::string& key) {
    return store_->Get(kind, key, Sha256(key));
  }
  absl::Status Put(RecordKind kind, const std::string& key, const std::string& payload) {
    return store_->Put(kind, key, Sha256(key), payload);
  }

  TempDir temp_;
  const std::string root_ = temp_ / "root";
  std::unique_ptr<LocalStore> store_;
};

TEST_F(ConformanceTest, ServesWhatWasPutNowAndAfterReopening) {
  ASSERT_TRUE(store_->usable().ok()) << store_->usable();
  const std::string plan = EncodeKey(SamplePlanKey()), kernel = EncodeKey(SampleKernelKey());
  ASSERT_TRUE(Put(kPlan, plan, "plan").ok());
  ASSERT_TRUE(Put(kKernel, kernel, RandomBytes(200000, 1)).ok());
  ASSERT_TRUE(Put(kPlan, "empty", "").ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Get(kPlan, plan).payload, "plan");
    const Lookup hit = Get(kKernel, kernel);
    EXPECT_TRUE(hit.hit);
    EXPECT_STREQ(hit.tier, "local");
    EXPECT_EQ(hit.payload, RandomBytes(200000, 1));
    EXPECT_TRUE(Get(kPlan, "empty").hit);
    const Lookup absent = Get(kKernel, plan);
    EXPECT_FALSE(absent.hit);
    EXPECT_EQ(absent.reason, MissReason::kAbsent);
    EXPECT_EQ(absent.detail, "");
    Reopen();
  }
}

TEST_F(ConformanceTest, ALaterPutReplacesButNeverAVerifiedKernelByAnUnverifiedOne) {
  ASSERT_TRUE(Put(kPlan, "k", "first").ok());
  ASSERT_TRUE(Put(kPlan, "k", "second").ok());
  EXPECT_EQ(Get(kPlan, "k").payload, "second");
  KernelRecord record = SampleKernelRecord();
  const std::string unverified = EncodeKernelRecord(record);
  record.verification = {"NVIDIA H200", 17, 0.001};
  const std::string verified = EncodeKernelRecord(record);
  ASSERT_TRUE(Put(kKernel, "k", unverified).ok());
  ASSERT_TRUE(Put(kKernel, "k", verified).ok());
  ASSERT_TRUE(Put(kKernel, "k", unverified).ok());
  EXPECT_EQ(Get(kKernel, "k").payload, verified);
  Reopen();
  EXPECT_EQ(Get(kKernel, "k").payload, verified);
  EXPECT_EQ(store_->List()->size(), 2u);
}

TEST_F(ConformanceTest, PutsAwayARecordOfThesePayloadsAndNoOther) {
  KernelRecord record = SampleKernelRecord();
  const std::string good = EncodeKernelRecord(record);
  record.verification.device = "NVIDIA H200";
  record.entry = "of another kernel";
  const std::string bad = EncodeKernelRecord(record);
  ASSERT_TRUE(Put(kKernel, "k", bad).ok());
  EXPECT_FALSE(store_->PutAway(kKernel, "k", Sha256("k"), {Sha256(good)}));
  EXPECT_FALSE(store_->PutAway(kKernel, "other", Sha256("other"), {Sha256(bad)}));
  EXPECT_EQ(Get(kKernel, "k").payload, bad);
  EXPECT_TRUE(store_->PutAway(kKernel, "k", Sha256("k"), {Sha256(bad), Sha256("more")}));
  EXPECT_EQ(store_->moved_aside(), 1u);
  EXPECT_EQ(Get(kKernel, "k").reason, MissReason::kAbsent);
  ASSERT_TRUE(Put(kKernel, "k", good).ok());
  EXPECT_EQ(Get(kKernel, "k").payload, good);
}

TEST_F(ConformanceTest, QuarantineHoldsOverReopeningAndLaterPuts) {
  ASSERT_TRUE(Put(kKernel, "k", "wrong kernel").ok());
  ASSERT_TRUE(store_->Quarantine(kKernel, Sha256("k"), "device H200 seed 17 error 0.4").ok());
  EXPECT_TRUE(store_->Quarantine(kKernel, Sha256("k"), "once more").ok());
  for (int round = 0; round < 2; ++round) {
    const Lookup miss = Get(kKernel, "k");
    EXPECT_EQ(miss.reason, MissReason::kQuarantined);
    EXPECT_THAT(miss.detail, HasSubstr("seed 17"));
    EXPECT_TRUE(absl::IsFailedPrecondition(Put(kKernel, "k", "again")));
    std::string why;
    EXPECT_TRUE(store_->IsQuarantined(kKernel, Sha256("k"), &why));
    EXPECT_FALSE(store_->IsQuarantined(kPlan, Sha256("k"), nullptr));
    Reopen();
  }
  EXPECT_EQ(store_->List()->size(), 0u);
}

TEST_F(ConformanceTest, BuildLocksExcludeAndRelease) {
  auto held = store_->LockForBuild(kPlan, Sha256("k"), 0);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(store_->LockForBuild(kPlan, Sha256("k"), 2000), nullptr);
  EXPECT_NE(store_->LockForBuild(kKernel, Sha256("k"), 0), nullptr);
  held.reset();
  EXPECT_NE(store_->LockForBuild(kPlan, Sha256("k"), 0), nullptr);
}

TEST_F(ConformanceTest, WalksListsAndEvicts) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Put(kKernel, absl::StrCat("k", i), "kernel").ok());
  ASSERT_TRUE(Put(kPlan, "p", "plan").ok());
  ASSERT_TRUE(store_->Quarantine(kPlan, Sha256("q"), "seed 3").ok());
  std::set<std::string> seen;
  int unsound = 0;
  RecordVisitor visitor;
  visitor.record = [&](const Digest& digest, const Envelope& envelope) {
    EXPECT_EQ(Sha256(envelope.key), digest);
    EXPECT_EQ(envelope.producer, "sinter 0.1.0");
    seen.insert(absl::StrCat(envelope.key, "=", envelope.payload));
    return absl::OkStatus();
  };
  visitor.tombstone = [&](RecordKind kind, const Digest& digest, absl::string_view why) {
    EXPECT_EQ(kind, kPlan);
    EXPECT_EQ(digest, Sha256("q"));
    seen.insert(std::string(why.substr(0, 6)));
    return absl::OkStatus();
  };
  visitor.unsound = [&](absl::string_view, absl::string_view) {
    ++unsound;
    return absl::OkStatus();
  };
  ASSERT_TRUE(store_->ForEach(visitor).ok());
  EXPECT_THAT(seen, testing::ElementsAre("k0=kernel", "k1=kernel", "k2=kernel", "k3=kernel",
                                         "k4=kernel", "p=plan", "seed 3"));
  EXPECT_EQ(unsound, 0);
  const auto entries = store_->List();
  ASSERT_EQ(entries->size(), 6u);
  int evicted = 0;
  for (const StoredEntry& entry : *entries) {
    EXPECT_GT(entry.bytes, 4u);
    if (entry.kind == kKernel) evicted += store_->Evict(entry) ? 1 : 0;
  }
  EXPECT_EQ(evicted, 5);
  EXPECT_EQ(Get(kKernel, "k3").reason, MissReason::kAbsent);
  EXPECT_TRUE(Get(kPlan, "p").hit);
  EXPECT_EQ(store_->List()->size(), 1u);
}

TEST_F(ConformanceTest, AVisitorEndsTheWalk) {
  ASSERT_TRUE(Put(kPlan, "a", "1").ok());
  ASSERT_TRUE(Put(kPlan, "b", "2").ok());
  int seen = 0;
  RecordVisitor visitor;
  visitor.record = [&](const Digest&, const Envelope&) {
    ++seen;
    return absl::CancelledError("enough");
  };
  EXPECT_TRUE(absl::IsCancelled(store_->ForEach(visitor)));
  EXPECT_EQ(seen, 1);
}

TEST_F(ConformanceTest, AnUntrustedFolderIsRefusedWithItsReason) {
  store_.reset();
  ASSERT_EQ(chmod(root_.c_str(), 0777), 0);
  Reopen();
  EXPECT_TRUE(absl::IsPermissionDenied(store_->usable())) << store_->usable();
  EXPECT_EQ(Get(kPlan, "k").reason, MissReason::kRefusedOwner);
  EXPECT_FALSE(Put(kPlan, "k", "v").ok());
  EXPECT_FALSE(store_->Quarantine(kPlan, Sha256("k"), "why").ok());
  EXPECT_FALSE(store_->IsQuarantined(kPlan, Sha256("k"), nullptr));
  EXPECT_EQ(store_->LockForBuild(kPlan, Sha256("k"), 0), nullptr);
  EXPECT_EQ(store_->LockJanitor(), nullptr);
  EXPECT_FALSE(store_->List().ok());
  EXPECT_FALSE(store_->ForEach({}).ok());
}

TEST_F(ConformanceTest, OtherArchToolchainAndFormatAreToldApart) {
  // A record under the name of another key: only a hand can put it there.
  KernelKey want = SampleKernelKey(), arch = want, toolchain = want, format = want;
  arch.arch = "sm_90";
  toolchain.toolchain_id = "nvrtc 12.0";
  format.format_version = 9;
  const std::string key = EncodeKey(want);
  const struct {
    KernelKey other;
    MissReason reason;
  } cases[] = {{arch, MissReason::kForeignArch},
               {toolchain, MissReason::kOtherToolchain},
               {format, MissReason::kOtherFormat}};
  for (const auto& c : cases) {
    const std::string other = EncodeKey(c.other);
    ASSERT_TRUE(
        store_
            ->PutRecord(Sha256(key),
                        {.kind = kKernel, .arch = c.other.arch, .key = other, .payload = "payload"})
            .ok());
    const Lookup miss = Get(kKernel, key);
    EXPECT_FALSE(miss.hit);
    EXPECT_EQ(miss.reason, c.reason) << NameOf(miss.reason) << miss.detail;
    ASSERT_TRUE(Put(kKernel, key, "mine").ok());
    EXPECT_EQ(Get(kKernel, key).payload, "mine");
    const auto entries = store_->List();
    for (const StoredEntry& entry : *entries) EXPECT_TRUE(store_->Evict(entry));
  }
}

TEST_F(ConformanceTest, ManyThreadsShareOneStore) {
  std::atomic<int> wrong{0}, failed{0};
  OnThreads(4, [&](int t) {
    for (int i = 0; i < 100; ++i) {
      const std::string key = absl::StrCat("k", (i * 3 + t) % 20);
      const std::string value = key + std::string(2000, 'x');
      const Lookup lookup = Get(kKernel, key);
      if (lookup.hit && lookup.payload != value) ++wrong;
      if (!lookup.hit && !Put(kKernel, key, value).ok()) ++failed;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(store_->List()->size(), 20u);
}

// Nothing that was put, before, by the child or after, is lost or changed by a fork.
TEST_F(ConformanceTest, AForkLosesNothing) {
  ASSERT_TRUE(Put(kPlan, "before", "b").ok());
  const int exit_status = EndOfChild([&] {
    if (Get(kPlan, "before").payload != "b") return 1;
    if (!Put(kPlan, "child", "c").ok()) return 2;
    if (store_->LockForBuild(kPlan, Sha256("x"), 0) == nullptr) return 3;
    store_.reset();  // must not disturb the parent
    return 0;
  });
  EXPECT_EQ(exit_status, 0);
  ASSERT_TRUE(Put(kPlan, "after", "a").ok());
  Reopen();
  EXPECT_EQ(Get(kPlan, "before").payload, "b");
  EXPECT_EQ(Get(kPlan, "after").payload, "a");
  EXPECT_EQ(Get(kPlan, "child").payload, "c");
}

TEST_F(ConformanceTest, SurvivesAKillAfterEveryAcknowledgedPut) {
  store_.reset();
  for (int round = 0; round < 3; ++round) {
    const int exit_status = EndOfChild([&] {
      Reopen();
      if (!Put(kPlan, absl::StrCat("k", round), "v").ok()) return 1;
      raise(SIGKILL);
      return 2;
    });
    EXPECT_EQ(exit_status, -SIGKILL);
  }
  Reopen();
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(Get(kPlan, absl::StrCat("k", round)).payload, "v");
}

// Who opens the folder by another spelling of its path sees all.
TEST_F(ConformanceTest, TwoSpellingsOfOneRootLoseNothing) {
  ASSERT_EQ(mkdir((temp_ / "x").c_str(), 0700), 0);
  ASSERT_EQ(symlink(root_.c_str(), (temp_ / "link").c_str()), 0);
  ASSERT_TRUE(Put(kPlan, "first", "1").ok());
  for (const std::string& spelling : {temp_ / "x/../root", temp_ / "link", root_}) {
    const auto second = OpenStore(spelling);
    EXPECT_EQ(second->Get(kPlan, "first", Sha256("first")).payload, "1");
    EXPECT_TRUE(second->Put(kPlan, spelling, Sha256(spelling), "2").ok());
    EXPECT_EQ(Get(kPlan, spelling).payload, "2");
  }
  ASSERT_TRUE(Put(kPlan, "last", "3").ok());
  Reopen();
  EXPECT_EQ(Get(kPlan, "first").payload, "1");
  EXPECT_EQ(Get(kPlan, "last").payload, "3");
}

TEST_F(ConformanceTest, AFullDiskServesHitsFailsPutsAndHeals) {
  std::atomic<bool> full{false};
  Reopen(FilesWhose(FileCall::kWrite, [&] { return full ? ENOSPC : 0; }));
  ASSERT_TRUE(Put(kKernel, "before", "b").ok());
  full = true;
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(Put(kKernel, absl::StrCat("full", i), RandomBytes(3000, i)).ok());
    EXPECT_EQ(Get(kKernel, "before").payload, "b");
  }
  full = false;
  EXPECT_TRUE(Put(kKernel, "after", "a").ok());
  EXPECT_EQ(Get(kKernel, "after").payload, "a");
  EXPECT_EQ(Get(kKernel, "before").payload, "b");
  Reopen();
  EXPECT_EQ(Get(kKernel, "after").payload, "a");
  EXPECT_EQ(Get(kKernel, "before").payload, "b");
  EXPECT_FALSE(Get(kKernel, "full0").hit);
}

TEST_F(ConformanceTest, RecordsAboveTheCapAreRefused) {
  const std::string huge(kMaxRecordFileBytes, 'x');
  EXPECT_TRUE(absl::IsOutOfRange(Put(kKernel, "huge", huge)));
  EXPECT_EQ(Get(kKernel, "huge").reason, MissReason::kAbsent);
}

}  // namespace
}  // namespace sinter
