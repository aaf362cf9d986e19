// Two versions of the library, an old and a new one, on one folder: what the one wrote is a counted
// miss for the other, and both keep what is theirs.
#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

using cache_testing::BuildTable;
using cache_testing::OpenStore;

constexpr int kKeys = 10;

const RecordFormat kOld;
const RecordFormat kNewEnvelope{kEnvelopeVersion + 1, kKernelRecordVersion};
const RecordFormat kNewKernel{kEnvelopeVersion, kKernelRecordVersion + 1};

// A key as a version of that format makes it: it names the format.
std::string KeyOf(int i, const RecordFormat& format) {
  KernelKey key = SampleKernelKey(i);
  key.format_version = format.kernel | format.envelope << 16;
  return EncodeKey(key);
}

std::string PayloadOf(const RecordFormat& format) {
  return EncodeKernelRecord(SampleKernelRecord(), format);
}

class OtherFormatTest : public testing::Test {
 protected:
  std::unique_ptr<TieredStore> Tiers(const RecordFormat& format) {
    return std::make_unique<TieredStore>(TierOptions{.local_root = temp_.path(),
                                                     .memory_bytes = 0,
                                                     .sync = false,
                                                     .write_behind = false,
                                                     .format = format});
  }
  uint64_t OtherFormats(const Store& store) {
    return store.Stats().misses[static_cast<int>(MissReason::kOtherFormat)];
  }
  void FillBoth() {
    for (const RecordFormat& format : {kOld, kNewEnvelope}) {
      const auto store = OpenStore(temp_.path(), nullptr, false, format);
      for (int i = 0; i < kKeys; ++i) {
        const std::string key = KeyOf(i, format);
        ASSERT_TRUE(store->Put(kKernel, key, Sha256(key), RandomBytes(10000, i)).ok());
      }
      ASSERT_TRUE(store
                      ->Put(kPlan, absl::StrCat("plan ", format.envelope),
                            Sha256(absl::StrCat("plan ", format.envelope)), "plan")
                      .ok());
    }
  }
  int Hits(const std::string& root, const RecordFormat& format) {
    const auto store = OpenStore(root, nullptr, false, format);
    int hits = 0;
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = KeyOf(i, format);
      const Lookup got = store->Get(kKernel, key, Sha256(key));
      hits += got.hit && got.payload == RandomBytes(10000, i) ? 1 : 0;
    }
    return hits;
  }
  TempDir temp_;
};

// Keys name their format, so this takes a key that does not, or a hand.
TEST_F(OtherFormatTest, UnderOneNameTheOthersRecordIsACountedMissAndIsNotMovedAside) {
  for (const RecordFormat& fresh : {kNewEnvelope, kNewKernel}) {
    const std::string key = KeyOf(static_cast<int>(fresh.envelope), kOld);
    Tiers(kOld)->Put(kKernel, key, PayloadOf(kOld));
    {
      const auto store = Tiers(fresh);
      const Lookup miss = store->Get(kKernel, key);
      EXPECT_FALSE(miss.hit);
      EXPECT_EQ(miss.reason, MissReason::kOtherFormat) << miss.detail;
      EXPECT_EQ(OtherFormats(*store), 1u);
      EXPECT_EQ(store->Stats().quarantined, 0u);
    }
    EXPECT_TRUE(Tiers(kOld)->Get(kKernel, key).hit);
    {
      const auto store = Tiers(fresh);
      store->Put(kKernel, key, PayloadOf(fresh));
      EXPECT_EQ(store->Get(kKernel, key).payload, PayloadOf(fresh));
    }
    const auto store = Tiers(kOld);
    EXPECT_EQ(store->Get(kKernel, key).reason, MissReason::kOtherFormat);
    EXPECT_EQ(OtherFormats(*store), 1u);
  }
}

TEST_F(OtherFormatTest, UnderTheirOwnKeysBothReadBackWhatTheyPut) {
  FillBoth();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Hits(temp_.path(), kOld), kKeys);
    EXPECT_EQ(Hits(temp_.path(), kNewEnvelope), kKeys);
  }
}

TEST_F(OtherFormatTest, AWalkTellsTheOthersRecordsFromDamage) {
  FillBoth();
  const auto store = OpenStore(temp_.path());
  int own = 0, other = 0, unsound = 0;
  RecordVisitor visitor;
  visitor.record = [&](const Digest&, const Envelope&) {
    ++own;
    return absl::OkStatus();
  };
  visitor.other_format = [&](RecordKind, const Digest&) {
    ++other;
    return absl::OkStatus();
  };
  visitor.unsound = [&](absl::string_view, absl::string_view) {
    ++unsound;
    return absl::OkStatus();
  };
  ASSERT_TRUE(store->ForEach(visitor).ok());
  EXPECT_EQ(own, kKeys + 1);
  EXPECT_EQ(other, kKeys + 1);
  EXPECT_EQ(unsound, 0);
}

TEST_F(OtherFormatTest, TheJanitorOfEitherVersionCountsAndEvictsBoth) {
  FillBoth();
  for (const RecordFormat& format : {kOld, kNewEnvelope}) {
    const auto store = OpenStore(temp_.path(), nullptr, false, format);
    const auto before = Got(store->List());
    uint64_t bytes = 0;
    for (const StoredEntry& entry : before) bytes += entry.bytes;
    const auto report = Got(Sweep(store.get(), {.max_bytes = bytes / 2}));
    EXPECT_EQ(report.records, before.size());
    EXPECT_EQ(report.bytes, bytes);
    EXPECT_GT(report.evicted, before.size() / 3);
  }
  const int left = Hits(temp_.path(), kOld) + Hits(temp_.path(), kNewEnvelope);
  EXPECT_LT(left, kKeys);
  EXPECT_TRUE(Sweep(OpenStore(temp_.path()).get(), {.max_bytes = 1}).ok());
  EXPECT_EQ(Hits(temp_.path(), kNewEnvelope), 0);
}

TEST(OtherFormatReportTest, CountsThemApart) {
  TempDir temp;
  for (const RecordFormat& format : {kOld, kNewEnvelope}) {
    const auto store = OpenStore(temp.path(), nullptr, false, format);
    const std::string key = KeyOf(0, format);
    ASSERT_TRUE(store->Put(kKernel, key, Sha256(key), PayloadOf(format)).ok());
  }
  const auto report = Got(InspectLocalStore(temp.path()));
  EXPECT_EQ(report.kernels, 1u);
  EXPECT_EQ(report.other_format, 1u);
  EXPECT_EQ(report.unsound, 0u);
}

// Another version may hash and lay out its records differently. The table
// around such a record detects damage to it.
TEST(OtherFormatEnvelopeTest, OnlyTheVersionOfAnothersRecordIsRead) {
  std::string bytes =
      EncodeEnvelope({.kind = kPlan, .key = "key", .payload = "payload"}, kNewEnvelope);
  const std::string file = BuildTable(TableUserKey(kPlan, Sha256("key")), bytes);
  const auto reason = [](absl::string_view bytes) {
    return VerifyRecordFile(bytes, kPlan, Sha256("key"), "key").reason;
  };
  EXPECT_EQ(reason(file), MissReason::kOtherFormat);
  for (size_t i = 12; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(bytes[i] ^ 1);
    EXPECT_EQ(ReadEnvelope(bytes).reason, MissReason::kOtherFormat) << i;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_EQ(reason(damaged), MissReason::kDamaged) << i;
  }
}

}  // namespace
}  // namespace sinter
