#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

// A kernel's payload that was checked on a device.
std::string Checked() {
  KernelRecord record = cache_testing::SampleKernelRecord();
  record.verification.device = "NVIDIA H200";
  return EncodeKernelRecord(record);
}

// Borrows both, as the envelope does.
Envelope Sample(absl::string_view key, absl::string_view payload) {
  return Envelope{.kind = RecordKind::kKernel,
                  .verified = KernelPayloadVerified(payload),
                  .created_unix_s = 1700000000,
                  .producer = "sinter 0.1.0",
                  .arch = "sm_90a",
                  .key = key,
                  .payload = payload};
}

TEST(EnvelopeTest, ReadsBackEveryField) {
  const std::string key = EncodeKey(SampleKernelKey());
  const std::string payload = Checked();
  const std::string bytes = EncodeEnvelope(Sample(key, payload));
  const EnvelopeVerdict verdict = ReadEnvelopeFor(bytes, RecordKind::kKernel, key);
  ASSERT_TRUE(verdict.ok) << verdict.detail;
  EXPECT_EQ(verdict.envelope.kind, RecordKind::kKernel);
  EXPECT_TRUE(verdict.envelope.verified);
  EXPECT_EQ(verdict.envelope.created_unix_s, 1700000000);
  EXPECT_EQ(verdict.envelope.producer, "sinter 0.1.0");
  EXPECT_EQ(verdict.envelope.arch, "sm_90a");
  EXPECT_EQ(verdict.envelope.key, key);
  EXPECT_EQ(verdict.envelope.payload, payload);
}

TEST(EnvelopeTest, KeepsAnEmptyPayloadAndAnOpaqueKey) {
  Envelope envelope = Sample("any key at all", "");
  envelope.arch = "";
  EXPECT_TRUE(ReadEnvelopeFor(EncodeEnvelope(envelope), RecordKind::kKernel, "any key at all").ok);
}

TEST(EnvelopeTest, RefusesEveryFlippedBit) {
  const std::string key = EncodeKey(SampleKernelKey());
  const std::string good = EncodeEnvelope(Sample(key, "the payload of a kernel"));
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const EnvelopeVerdict verdict = ReadEnvelopeFor(bad, RecordKind::kKernel, key);
      EXPECT_FALSE(verdict.ok) << "byte " << i << " bit " << bit;
      EXPECT_NE(verdict.detail, "");
      refused += verdict.ok ? 0 : 1;
    }
  }
  std::cout << "envelope flips: tried " << good.size() * 8 << " refused " << refused
            << " wrong 0\n";
}

TEST(EnvelopeTest, RefusesEveryTruncationAndATail) {
  const std::string good = EncodeEnvelope(Sample(EncodeKey(SampleKernelKey()), "payload"));
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(ReadEnvelope(absl::string_view(good).substr(0, n)).ok) << n;
  }
  EXPECT_FALSE(ReadEnvelope(good + "x").ok);
}

TEST(EnvelopeTest, AnotherFormatVersionIsNotDamage) {
  std::string bytes = EncodeEnvelope(Sample("k", "p"));
  bytes[8] = static_cast<char>(kEnvelopeVersion + 1);
  const EnvelopeVerdict verdict = ReadEnvelope(bytes);
  ASSERT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.reason, MissReason::kOtherFormat);
  EXPECT_THAT(verdict.detail, HasSubstr(absl::StrCat("format ", kEnvelopeVersion + 1, ", want ",
                                                     kEnvelopeVersion)));
}

// A put keeps what is marked: a mark that its payload does not bear would stay for ever.
TEST(EnvelopeTest, AMarkThatThePayloadDoesNotBearIsDamage) {
  const std::string checked = Checked();
  const std::string unchecked = EncodeKernelRecord(cache_testing::SampleKernelRecord());
  const struct {
    RecordKind kind;
    bool marked;
    std::string payload;
    bool ok;
  } cases[] = {{RecordKind::kKernel, true, checked, true},
               {RecordKind::kKernel, false, unchecked, true},
               {RecordKind::kPlan, false, checked, true},
               {RecordKind::kKernel, false, checked, false},
               {RecordKind::kKernel, true, unchecked, false},
               {RecordKind::kKernel, true, "no record", false},
               {RecordKind::kPlan, true, "plan", false},
               {RecordKind::kPlan, true, checked, false}};
  for (const auto& c : cases) {
    Envelope envelope = Sample("k", c.payload);
    envelope.kind = c.kind;
    envelope.verified = c.marked;
    envelope.arch = "";
    const EnvelopeVerdict verdict = ReadEnvelopeFor(EncodeEnvelope(envelope), c.kind, "k");
    EXPECT_EQ(verdict.ok, c.ok) << verdict.detail;
    if (!c.ok) {
      EXPECT_EQ(verdict.reason, MissReason::kDamaged);
    }
  }
}

TEST(EnvelopeTest, RefusesAnotherKind) {
  const std::string bytes = EncodeEnvelope(Sample("k", "p"));
  const EnvelopeVerdict verdict = ReadEnvelopeFor(bytes, RecordKind::kPlan, "k");
  ASSERT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.reason, MissReason::kDamaged);
}

TEST(EnvelopeTest, TellsForeignRecordsApart) {
  const KernelKey want = SampleKernelKey();
  KernelKey arch = want, toolchain = want, format = want, dag = want;
  arch.arch = "sm_90";
  toolchain.toolchain_id = "nvrtc 12.9 build 11";
  format.format_version = 2;
  dag.code = "another";
  const struct {
    KernelKey key;
    MissReason reason;
  } cases[] = {{arch, MissReason::kForeignArch},
               {toolchain, MissReason::kOtherToolchain},
               {format, MissReason::kOtherFormat},
               {dag, MissReason::kDamaged}};
  for (const auto& c : cases) {
    const std::string key = EncodeKey(c.key);
    Envelope envelope = Sample(key, "p");
    envelope.arch = c.key.arch;
    const EnvelopeVerdict verdict =
        ReadEnvelopeFor(EncodeEnvelope(envelope), RecordKind::kKernel, EncodeKey(want));
    EXPECT_FALSE(verdict.ok);
    EXPECT_EQ(verdict.reason, c.reason) << verdict.detail;
  }
}

TEST(EnvelopeTest, TellsAPlanOfAnotherFormatApart) {
  PlanKey other = SamplePlanKey();
  other.format_version = 7;
  const std::string key = EncodeKey(other);
  Envelope envelope = Sample(key, "p");
  envelope.kind = RecordKind::kPlan;
  envelope.arch = "";
  const EnvelopeVerdict verdict =
      ReadEnvelopeFor(EncodeEnvelope(envelope), RecordKind::kPlan, EncodeKey(SamplePlanKey()));
  ASSERT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.reason, MissReason::kOtherFormat);
}

TEST(EnvelopeTest, RefusesAnArchThatIsNotTheKeys) {
  const std::string key = EncodeKey(SampleKernelKey());
  Envelope envelope = Sample(key, "p");
  envelope.arch = "sm_80";
  const EnvelopeVerdict verdict =
      ReadEnvelopeFor(EncodeEnvelope(envelope), RecordKind::kKernel, key);
  ASSERT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.reason, MissReason::kForeignArch);
}

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
