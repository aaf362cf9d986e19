// Packs: what goes in comes out, who may write them, how they are found on any file system.
#include "tests/unit/cache/cache_tests.h"
#include "tests/unit/cache/pack/pack_testing.h"

namespace sinter {
namespace {

using pack_testing::MakeKey;
using pack_testing::StringFile;
using PackTestF = pack_testing::PackTest;

class PackReaderTest : public PackTestF {};

TEST_F(PackReaderTest, ServesEveryRecordThatWasExported) {
  Fill(20);
  const auto pack = Open(From(Pack()));
  ASSERT_NE(pack, nullptr);
  EXPECT_EQ(pack->manifest().entries.size(), records_.size());
  for (const Record& record : records_) {
    const Lookup lookup = Get(*pack, record);
    ASSERT_TRUE(lookup.hit) << lookup.detail;
    EXPECT_EQ(lookup.payload, record.payload);
    EXPECT_STREQ(lookup.tier, "pack");
  }
  const std::string other = EncodeKey(cache_testing::SampleKernelKey(999));
  EXPECT_EQ(pack->Get(RecordKind::kKernel, other, Sha256(other)).reason, MissReason::kAbsent);
  const PackFindings findings = VerifyPack(*pack);
  EXPECT_TRUE(findings.ok()) << testing::PrintToString(findings.findings);
  EXPECT_EQ(findings.kernels, 20u);
  EXPECT_EQ(findings.plans, 20u);
}

TEST_F(PackReaderTest, ToAnotherVersionOfTheLibraryItsRecordsAreOtherFormat) {
  Fill(2);
  PackOptions options = From(Pack());
  for (const RecordFormat& format : {RecordFormat{kEnvelopeVersion + 1, kKernelRecordVersion},
                                     RecordFormat{kEnvelopeVersion, kKernelRecordVersion + 1}}) {
    options.format = format;
    const auto pack = Open(options);
    ASSERT_NE(pack, nullptr);
    for (const Record& record : records_) {
      const Lookup lookup = Get(*pack, record);
      const bool same = record.kind == RecordKind::kPlan && format.envelope == kEnvelopeVersion;
      EXPECT_EQ(lookup.hit, same);
      if (same) continue;
      EXPECT_EQ(lookup.reason, MissReason::kOtherFormat) << lookup.detail;
    }
  }
}

TEST_F(PackReaderTest, APackWithoutRecordsIsNotWritten) {
  const std::string path = temp_ / "empty.pack";
  const absl::Status nothing = ExportPack(&store_, {}, nullptr, To(path, &key_)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(nothing)) << nothing;
  EXPECT_THAT(std::string(nothing.message()),
              testing::AllOf(testing::HasSubstr("empty.pack: no pack was written: there is no "
                                                "record"),
                             testing::HasSubstr("sinter warm")));
  Fill(3);
  PackWriteOptions none = To(path, &key_);
  none.wanted = [](RecordKind, absl::string_view, absl::string_view) { return false; };
  EXPECT_THAT(std::string(ExportPack(&store_, {}, nullptr, none).status().message()),
              testing::HasSubstr("of 6 records none is sound and of this library version"));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(PackReaderTest, APackWithoutRecordsIsRefused) {
  std::string table;
  TableWriter(&table).Finish();
  const std::string bytes = EncodeManifest({.rest_bytes = table.size(), .rest = Sha256(table)});
  PackTail tail{
      .table_bytes = table.size(), .manifest_bytes = bytes.size(), .manifest = Sha256(bytes)};
  PackOptions options = From("pack");
  options.allow_unsigned = true;
  options.ops = std::make_shared<StringFile>(table + bytes + EncodeTail(tail));
  const absl::Status refused = PackReader::Open(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("holds no record"),
                             testing::HasSubstr("sinter warm WORKLOAD --pack")));
}

TEST_F(PackReaderTest, EqualRecordsMakeAnEqualPack) {
  Fill(5);
  const std::string first = ReadFile(Pack());
  EXPECT_EQ(ReadFile(Pack()), first);
}

TEST_F(PackReaderTest, TellsWhoSigned) {
  Fill(1);
  const std::string signed_pack = Pack();
  const std::string bare = temp_ / "bare.pack";
  ASSERT_TRUE(ExportPack(&store_, {}, nullptr, To(bare, nullptr)).ok());
  struct Case {
    std::string path;
    std::vector<PublicKey> keys;
    bool allow_unsigned;
    absl::StatusCode want;
  };
  const PublicKey mine = key_.public_key(), strange = MakeKey('b').public_key();
  const Case cases[] = {
      {signed_pack, {mine}, false, absl::StatusCode::kOk},
      {signed_pack, {strange, mine}, false, absl::StatusCode::kOk},
      {signed_pack, {strange}, false, absl::StatusCode::kPermissionDenied},
      {signed_pack, {}, false, absl::StatusCode::kPermissionDenied},
      {signed_pack, {}, true, absl::StatusCode::kOk},
      {bare, {mine}, false, absl::StatusCode::kPermissionDenied},
      {bare, {mine}, true, absl::StatusCode::kOk},
      {temp_ / "absent.pack", {mine}, true, absl::StatusCode::kNotFound},
      {temp_.path(), {mine}, true, absl::StatusCode::kPermissionDenied},
  };
  for (const Case& c : cases) {
    PackOptions options = From(c.path);
    options.keys = c.keys;
    options.allow_unsigned = c.allow_unsigned;
    const auto pack = PackReader::Open(options);
    EXPECT_EQ(pack.status().code(), c.want) << pack.status();
    if (pack.ok()) {
      EXPECT_EQ((*pack)->signers().empty(), c.keys.empty() || c.path == bare);
    }
  }
}

TEST_F(PackReaderTest, AnUnsignedPackOfAStrangerIsRefusedAndASignedOneIsNot) {
  Fill(1);
  auto file = std::make_shared<StringFile>(ReadFile(Pack()));
  file->uid = geteuid() + 12345;
  PackOptions options = From("pack");
  options.ops = file;
  EXPECT_TRUE(PackReader::Open(options).ok());
  options.keys.clear();
  options.allow_unsigned = true;
  EXPECT_TRUE(absl::IsPermissionDenied(PackReader::Open(options).status()));
  file->uid = 0;
  EXPECT_TRUE(PackReader::Open(options).ok());
  file->mode = 0666;
  EXPECT_TRUE(absl::IsPermissionDenied(PackReader::Open(options).status()));
}

TEST_F(PackReaderTest, ShortReadsAreJoined) {
  Fill(2);
  auto file = std::make_shared<StringFile>(ReadFile(Pack()));
  file->most = 7;
  PackOptions options = From("pack");
  options.ops = file;
  const auto pack = Open(options);
  ASSERT_NE(pack, nullptr);
  EXPECT_TRUE(VerifyPack(*pack).ok());
}

TEST_F(PackReaderTest, ReplacingTheFileChangesNothingForWhoHasItOpen) {
  Fill(2);
  const std::string path = Pack();
  const auto pack = Open(From(path));
  Put(RecordKind::kPlan, EncodeKey(cache_testing::SamplePlanKey(77)), "late");
  Pack();
  EXPECT_FALSE(Get(*pack, records_.back()).hit);
  EXPECT_TRUE(Get(*pack, records_.front()).hit);
  EXPECT_TRUE(Get(*Open(From(path)), records_.back()).hit);
}

TEST_F(PackReaderTest, ServesFromAFolderThatNobodyMayWrite) {
  Fill(2);
  const std::string path = Pack();
  chmod(path.c_str(), 0400);
  chmod(temp_.path().c_str(), 0500);
  const auto pack = Open(From(path));
  for (const Record& record : records_) EXPECT_TRUE(Get(*pack, record).hit);
  chmod(temp_.path().c_str(), 0700);
}

TEST_F(PackReaderTest, PeeksTheKeyOfEachRecord) {
  Fill(3);
  const auto pack = Open(From(Pack()));
  for (const PackEntry& entry : pack->manifest().entries) {
    EXPECT_EQ(Sha256(pack->PeekKey(entry)), entry.digest);
  }
}

class PackExportTest : public PackTestF {};

// As SINTER_PACKS says them.
TEST_F(PackReaderTest, OfTwoPacksThatHaveARecordTheFirstServesIt) {
  const std::string key = EncodeKey(cache_testing::SamplePlanKey(1));
  const auto pack_of = [&](const char* name, const std::string& payload) {
    LocalStoreOptions options = Options();
    options.root = temp_ / name;
    LocalStore store(options);
    EXPECT_TRUE(store.Put(RecordKind::kPlan, key, Sha256(key), payload).ok());
    const std::string path = temp_ / (std::string(name) + ".pack");
    EXPECT_TRUE(ExportPack(&store, {}, nullptr, To(path, &key_)).ok());
    return Open(From(path));
  };
  const auto one = pack_of("one", "the plan of one"), two = pack_of("two", "the plan of two");
  TierOptions options{.packs = {one, two}};
  EXPECT_EQ(std::make_unique<TieredStore>(options)->Get(RecordKind::kPlan, key).payload,
            "the plan of one");
  options.packs = {two, one};
  EXPECT_EQ(std::make_unique<TieredStore>(options)->Get(RecordKind::kPlan, key).payload,
            "the plan of two");
}

TEST_F(PackExportTest, PacksOnlyWhatIsAskedFor) {
  Fill(4);
  const std::vector<PackItem> only = {
      {records_[0].kind, Sha256(records_[0].key)},
      {records_[3].kind, Sha256(records_[3].key)},
      {records_[3].kind, Sha256(records_[3].key)},
      {RecordKind::kKernel, Sha256("nobody has it")},
  };
  const std::string path = temp_ / "some.pack";
  const auto report = Got(ExportPack(&store_, {}, &only, To(path, &key_)));
  EXPECT_EQ(report.kernels + report.plans, 2u);
  EXPECT_EQ(report.skipped, 1u);
  EXPECT_EQ(report.bytes, ReadFile(path).size());
  const auto pack = Open(From(path));
  EXPECT_TRUE(Get(*pack, records_[0]).hit);
  EXPECT_FALSE(Get(*pack, records_[1]).hit);
}

TEST_F(PackExportTest, JoinsTheStoreAndPacksAndLeavesOutWhatIsQuarantined) {
  Fill(3);
  const auto first = Open(From(Pack()));
  LocalStoreOptions other = Options();
  other.root = temp_ / "other";
  LocalStore store(other);
  const std::string key = EncodeKey(cache_testing::SamplePlanKey(500));
  ASSERT_TRUE(store.Put(RecordKind::kPlan, key, Sha256(key), "new").ok());
  ASSERT_TRUE(store.Quarantine(records_[0].kind, Sha256(records_[0].key), "wrong").ok());
  const std::string path = temp_ / "joined.pack";
  const auto report = Got(ExportPack(&store, {first}, nullptr, To(path, &key_)));
  EXPECT_EQ(report.kernels + report.plans, records_.size());
  const auto joined = Open(From(path));
  EXPECT_FALSE(Get(*joined, records_[0]).hit);
  EXPECT_TRUE(Get(*joined, records_[1]).hit);
  EXPECT_TRUE(joined->Get(RecordKind::kPlan, key, Sha256(key)).hit);
}

TEST_F(PackExportTest, AFailureLeavesTheOldPackAndNothingBeside) {
  Fill(2);
  const std::string path = Pack();
  const std::string before = ReadFile(path);
  const int files = CountFiles(temp_.path());
  PackWriteOptions options = To(path, &key_);
  int writes = 0;
  options.ops = cache_testing::FilesWhose(cache_testing::FileCall::kWrite,
                                          [&] { return ++writes < 3 ? 0 : ENOSPC; });
  EXPECT_TRUE(absl::IsUnavailable(ExportPack(&store_, {}, nullptr, options).status()));
  EXPECT_EQ(ReadFile(path), before);
  EXPECT_EQ(CountFiles(temp_.path()), files);
  options = To(temp_ / "no such folder/x.pack", &key_);
  EXPECT_FALSE(ExportPack(&store_, {}, nullptr, options).ok());
}

TEST_F(PackExportTest, ImportsIntoAStore) {
  Fill(3);
  const auto pack = Open(From(Pack()));
  LocalStoreOptions other = Options();
  other.root = temp_ / "other";
  LocalStore store(other);
  ASSERT_TRUE(store.Quarantine(records_[1].kind, Sha256(records_[1].key), "wrong").ok());
  const auto report = Got(ImportPack(*pack, &store));
  EXPECT_EQ(report.stored, records_.size() - 1);
  EXPECT_EQ(report.refused, 1u);
  for (size_t i = 0; i < records_.size(); ++i) {
    const Lookup found = store.Get(records_[i].kind, records_[i].key, Sha256(records_[i].key));
    EXPECT_EQ(found.hit, i != 1);
    if (found.hit) {
      EXPECT_EQ(found.payload, records_[i].payload);
    }
  }
}

// Somebody who understands payloads finds the second record wrong.
TEST_F(PackExportTest, WhatACheckFindsWrongIsNotImportedAndIsAFinding) {
  Fill(2);
  const auto pack = Open(From(Pack()));
  const RecordCheck check = [&](RecordKind kind, absl::string_view key, absl::string_view payload) {
    const bool second = kind == records_[1].kind && key == records_[1].key;
    return second ? absl::DataLossError("of no use: " + std::string(payload)) : absl::OkStatus();
  };
  const PackFindings findings = VerifyPack(*pack, check);
  EXPECT_EQ(findings.unsound, 1u);
  EXPECT_THAT(findings.findings, testing::ElementsAre(testing::HasSubstr("of no use: plan 0")));
  LocalStoreOptions other = Options();
  other.root = temp_ / "other";
  LocalStore store(other);
  EXPECT_EQ(Got(ImportPack(*pack, &store, check)).refused, 1u);
  EXPECT_FALSE(store.Get(records_[1].kind, records_[1].key, Sha256(records_[1].key)).hit);
  const auto counted = InspectStore(&store_, check);
  EXPECT_EQ(counted->unsound, 1u);
  EXPECT_EQ(counted->plans, 1u);
}

}  // namespace
}  // namespace sinter
