#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

TEST(KernelRecordTest, ReadsBackEveryField) {
  KernelRecord record = SampleKernelRecord();
  record.spill_bytes = 4;
  record.compile_us = 81234.5;
  record.key = Sha256("a key");
  record.verification = {"NVIDIA H200", 17, 0.0025, 4096};
  const auto back = Got(DecodeKernelRecord(EncodeKernelRecord(record)));
  EXPECT_EQ(back.cubin, record.cubin);
  EXPECT_EQ(back.entry, record.entry);
  EXPECT_EQ(back.log, record.log);
  EXPECT_EQ(back.registers, 168u);
  EXPECT_EQ(back.spill_bytes, 4u);
  EXPECT_EQ(back.compile_us, 81234.5);
  EXPECT_EQ(back.key, record.key);
  EXPECT_EQ(back.verification, record.verification);
}

TEST(KernelRecordTest, KnowsWhetherItWasVerified) {
  KernelRecord record = SampleKernelRecord();
  EXPECT_FALSE(KernelPayloadVerified(EncodeKernelRecord(record)));
  record.verification.device = "NVIDIA H200";
  EXPECT_TRUE(KernelPayloadVerified(EncodeKernelRecord(record)));
  EXPECT_FALSE(KernelPayloadVerified("plan bytes"));
  EXPECT_FALSE(KernelPayloadVerified(""));
}

TEST(KernelRecordTest, RefusesTruncationsTailsAndOtherVersions) {
  const std::string good = EncodeKernelRecord(SampleKernelRecord());
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(DecodeKernelRecord(good.substr(0, n)).ok());
  EXPECT_FALSE(DecodeKernelRecord(good + "x").ok());
  std::string other = good;
  other[8] = 9;
  EXPECT_TRUE(Says(DecodeKernelRecord(other), "version 9, want 4"));
  for (const double us : {-1.0, 1e300, std::nan("")}) {
    KernelRecord endless = SampleKernelRecord();
    endless.compile_us = us;
    EXPECT_FALSE(DecodeKernelRecord(EncodeKernelRecord(endless)).ok()) << us;
  }
  KernelRecord backwards = SampleKernelRecord();
  backwards.verification.rows = -1;
  EXPECT_FALSE(DecodeKernelRecord(EncodeKernelRecord(backwards)).ok());
  KernelRecord nameless = SampleKernelRecord();
  nameless.entry = "";
  EXPECT_FALSE(DecodeKernelRecord(EncodeKernelRecord(nameless)).ok());
}

TEST(KernelRecordTest, RefusesWhatIsOutOfBounds) {
  KernelRecord record = SampleKernelRecord();
  record.log.assign(kMostLogBytes, 'x');
  record.verification = {std::string(kMostDeviceBytes, 'd'), 1, 0.5, kMostCheckedRows};
  EXPECT_TRUE(DecodeKernelRecord(EncodeKernelRecord(record)).ok());
  std::vector<KernelRecord> bad(6, record);
  bad[0].log += 'x';
  bad[1].verification.device += 'd';
  bad[2].verification.rows = kMostCheckedRows + 1;
  bad[3].verification.error = std::nan("");
  bad[4].verification.error = HUGE_VAL;
  bad[5].verification.error = -1;
  for (const KernelRecord& one : bad) {
    EXPECT_TRUE(Fails(DecodeKernelRecord(EncodeKernelRecord(one)), absl::StatusCode::kDataLoss,
                      "must be 0.."));
  }
}

TEST(KernelRecordTest, RefusesADamagedCubin) {
  KernelRecord damaged = SampleKernelRecord();
  damaged.cubin.pop_back();
  EXPECT_TRUE(Fails(DecodeKernelRecord(EncodeKernelRecord(damaged)), absl::StatusCode::kDataLoss,
                    "cubin: section table"));
}

}  // namespace
}  // namespace sinter
