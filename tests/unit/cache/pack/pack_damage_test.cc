// Damage to every byte of a pack, by accident and by somebody who can compute checksums: nothing
// wrong is served, and verifying finds it.
#include "tests/unit/cache/cache_tests.h"
#include "tests/unit/cache/forged_table.h"
#include "tests/unit/cache/pack/pack_testing.h"

namespace sinter {
namespace {

using pack_testing::StringFile;

struct Tally {
  int tried = 0, refused_at_open = 0, refused_records = 0, served = 0, wrong = 0, accepted = 0;
};

class PackDamageTest : public pack_testing::PackTest {
 protected:
  PackDamageTest() {
    Fill(2);
    good_ = ReadFile(Pack());
    options_ = From("pack");
  }

  // Opens `bytes`, looks every record up, verifies.
  void Try(const std::string& bytes, Tally* tally) {
    ++tally->tried;
    options_.ops = std::make_shared<StringFile>(bytes);
    const auto pack = PackReader::Open(options_);
    if (!pack.ok()) {
      ++tally->refused_at_open;
      return;
    }
    for (const Record& record : records_) {
      const Lookup lookup = Get(**pack, record);
      if (!lookup.hit) ++tally->refused_records;
      if (lookup.hit) ++(lookup.payload == record.payload ? tally->served : tally->wrong);
    }
    if (VerifyPack(**pack).ok()) ++tally->accepted;
  }

  // `unread`: how many may pass that differ only in bytes that no reader uses, LevelDB's meta block
  // and the footer's padding.
  void Expect(const char* name, const Tally& tally, int unread = 0) {
    std::cout << name << ": tried " << tally.tried << " refused at open " << tally.refused_at_open
              << " records refused " << tally.refused_records << " others served " << tally.served
              << " wrong " << tally.wrong << " accepted " << tally.accepted << " deaths 0\n";
    EXPECT_GT(tally.tried, 0);
    EXPECT_EQ(tally.wrong, 0);
    EXPECT_LE(tally.accepted, unread);
  }

  std::string good_;
  PackOptions options_;
};

TEST_F(PackDamageTest, ABitOfEveryByteFlipped) {
  Tally tally;
  for (size_t i = 0; i < good_.size(); ++i) {
    std::string bad = good_;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    Try(bad, &tally);
  }
  Expect("pack bit flips", tally);
  EXPECT_GT(tally.refused_records, 0);
  EXPECT_GT(tally.served, 0);
}

TEST_F(PackDamageTest, CutZeroedOrLengthenedAtEveryByte) {
  Tally cut, zeroed, longer;
  for (size_t n = 0; n < good_.size(); ++n) {
    Try(good_.substr(0, n), &cut);
    const std::string zeros(good_.size() - n, '\0');
    if (good_.compare(n, std::string::npos, zeros) != 0) Try(good_.substr(0, n) + zeros, &zeroed);
  }
  for (size_t n = 1; n < 100; ++n) Try(good_ + RandomBytes(n, n), &longer);
  Expect("pack truncations", cut);
  Expect("pack zero tails", zeroed);
  Expect("pack additions", longer);
}

TEST_F(PackDamageTest, RandomBursts) {
  Tally tally;
  std::mt19937_64 random(11);
  for (int i = 0; i < 1000; ++i) {
    std::string bad = good_;
    const size_t at = random() % bad.size(), size = 1 + random() % 64;
    bad.replace(at, std::min(size, bad.size() - at),
                RandomBytes(std::min(size, bad.size() - at), random()));
    if (bad != good_) Try(bad, &tally);
    bad = good_;
    bad.erase(at, size);
    Try(bad, &tally);
    bad = good_;
    bad.insert(at, bad.substr(at, size));
    Try(bad, &tally);
  }
  Expect("pack bursts", tally);
}

// Somebody without the key repairs every hash after a change; allowed only unsigned, and even then
// nothing is served under a wrong key.
TEST_F(PackDamageTest, ForgeriesWithRightHashes) {
  const auto tail = Got(DecodeTail(good_.substr(good_.size() - kPackTailBytes), good_.size()));
  const auto manifest = Got(DecodeManifest(good_.substr(tail.table_bytes, tail.manifest_bytes)));
  const std::string signature =
      good_.substr(tail.table_bytes + tail.manifest_bytes, tail.signature_bytes);
  const auto reseal = [&](const std::string& table, const PackManifest& changed,
                          const std::string& signatures) {
    const std::string body = EncodeManifest(changed);
    PackTail forged{table.size(), body.size(), signatures.size(), Sha256(body)};
    return absl::StrCat(table, body, signatures, EncodeTail(forged));
  };
  Tally strange, unsigned_pack;
  for (size_t i = 0; i < tail.table_bytes; ++i) {
    std::string table = good_.substr(0, tail.table_bytes);
    table[i] = static_cast<char>(table[i] ^ (1 << (i % 8)));
    PackManifest changed = manifest;
    for (PackEntry& entry : changed.entries) {
      entry.block = Sha256(absl::string_view(table).substr(entry.offset, entry.bytes));
    }
    changed.rest = Sha256(absl::string_view(table).substr(changed.BlockBytes()));
    options_ = From("pack");
    Try(reseal(table, changed, signature), &strange);
    options_.allow_unsigned = true;
    Try(reseal(table, changed, ""), &unsigned_pack);
  }
  EXPECT_EQ(strange.refused_at_open, strange.tried);
  Expect("pack forgeries under a signature", strange);
  Expect("pack forgeries, unsigned allowed", unsigned_pack, 13 + 48 + 4 * 5);
}

// Entries swapped between keys, with every hash right.
TEST_F(PackDamageTest, ForeignEntriesUnderARightName) {
  options_ = From("pack");
  options_.allow_unsigned = true;
  const auto tail = DecodeTail(good_.substr(good_.size() - kPackTailBytes), good_.size());
  auto manifest = *DecodeManifest(good_.substr(tail->table_bytes, tail->manifest_bytes));
  std::swap(manifest.entries[0].digest, manifest.entries[1].digest);
  std::swap(manifest.entries[0], manifest.entries[1]);
  const std::string body = EncodeManifest(manifest);
  Tally tally;
  Try(absl::StrCat(good_.substr(0, tail->table_bytes), body,
                   EncodeTail({tail->table_bytes, body.size(), 0, Sha256(body)})),
      &tally);
  Expect("pack foreign entries", tally);
}

TEST_F(PackDamageTest, AnotherFormatIsSaidSo) {
  const auto tail = *DecodeTail(good_.substr(good_.size() - kPackTailBytes), good_.size());
  std::string body = good_.substr(tail.table_bytes, tail.manifest_bytes);
  body[8] = 2;
  options_.ops = std::make_shared<StringFile>(
      absl::StrCat(good_.substr(0, tail.table_bytes), body,
                   EncodeTail({tail.table_bytes, body.size(), 0, Sha256(body)})));
  options_.allow_unsigned = true;
  EXPECT_TRUE(absl::IsFailedPrecondition(PackReader::Open(options_).status()));
}

// Every system call of a look-up fails in turn.
TEST_F(PackDamageTest, FailingReadsAreMisses) {
  int failed = 0;
  for (const int error : {EIO, EINVAL, ENOMEM, ESTALE}) {
    for (int at = 1; at < 40; ++at) {
      auto file = std::make_shared<StringFile>(good_);
      file->good_reads = at - 1;
      file->error = error;
      options_.ops = file;
      const auto pack = PackReader::Open(options_);
      if (!pack.ok()) {
        ++failed;
        continue;
      }
      for (const Record& record : records_) {
        const Lookup lookup = Get(**pack, record);
        EXPECT_TRUE(!lookup.hit || lookup.payload == record.payload);
        if (!lookup.hit) ++failed;
      }
      if (!VerifyPack(**pack).ok()) ++failed;
    }
  }
  EXPECT_GT(failed, 40);
}

// An index of another table with right hashes, in a pack that is taken unsigned: LevelDB follows it
// to no record that the manifest does not have there. The pack's own, sealed again, is accepted.
TEST_F(PackDamageTest, TheIndexOfAnotherTableLeadsToNothing) {
  const PackTail tail = *DecodeTail(good_.substr(good_.size() - kPackTailBytes), good_.size());
  const PackManifest manifest =
      *DecodeManifest(good_.substr(tail.table_bytes, tail.manifest_bytes));
  const std::string blocks = good_.substr(0, manifest.BlockBytes());
  const size_t count = manifest.entries.size();
  // The bytes after the blocks of a table of the pack's first `entries` records. They take about as
  // much space as those records, minus `less` bytes each.
  const auto rest_of = [&](size_t entries, size_t less) {
    std::string table;
    TableWriter writer(&table);
    for (size_t i = 0; i < entries; ++i) {
      const PackEntry& entry = manifest.entries[i];
      const std::string key = TableUserKey(entry.kind, entry.digest);
      std::string block;
      TableWriter alone(&block);
      alone.Add(key, "");
      const size_t head = block.size();
      writer.Add(key, std::string(entry.bytes - head - less, 'v'));
    }
    const size_t end = table.size();
    writer.Finish();
    return table.substr(end);
  };
  const struct {
    const char* name;
    std::string rest;
  } cases[] = {
      {"as it was", good_.substr(manifest.BlockBytes(), manifest.rest_bytes)},
      {"smaller blocks", rest_of(count, 10)},
      {"fewer records", rest_of(count - 1, 0)},
      {"none", rest_of(0, 0)},
      {"no table", RandomBytes(200, 3)},
  };
  for (const auto& c : cases) {
    PackManifest forged = manifest;
    forged.rest_bytes = c.rest.size();
    forged.rest = Sha256(c.rest);
    const std::string body = EncodeManifest(forged);
    const PackTail end{blocks.size() + c.rest.size(), body.size(), 0, Sha256(body)};
    options_.keys.clear();
    options_.allow_unsigned = true;
    options_.ops = std::make_shared<StringFile>(blocks + c.rest + body + EncodeTail(end));
    const auto pack = PackReader::Open(options_);
    const bool sound = pack.ok() && VerifyPack(**pack).ok();
    EXPECT_EQ(sound, absl::string_view(c.name) == "as it was") << c.name << pack.status();
    for (const Record& record : records_) {
      if (!pack.ok()) break;
      const Lookup found = Get(**pack, record);
      EXPECT_TRUE(!found.hit || found.payload == record.payload) << c.name;
    }
  }
}

// One block made by hand, its checksum and every SHA-256 right, in a pack that is taken unsigned:
// verifying names its record, and the others are served.
TEST_F(PackDamageTest, ABlockMadeByHandIsDamageToItsRecordAlone) {
  const PackTail tail = *DecodeTail(good_.substr(good_.size() - kPackTailBytes), good_.size());
  const PackManifest manifest =
      *DecodeManifest(good_.substr(tail.table_bytes, tail.manifest_bytes));
  const PackEntry& victim = manifest.entries[1];
  options_.keys.clear();
  options_.allow_unsigned = true;
  for (const auto& forged : cache_testing::ForgedBlocks(TableUserKey(victim.kind, victim.digest))) {
    PackManifest changed = manifest;
    std::vector<std::string> keys, blocks;
    uint64_t offset = 0;
    for (PackEntry& entry : changed.entries) {
      keys.push_back(TableUserKey(entry.kind, entry.digest));
      blocks.push_back(entry.digest == victim.digest ? forged.bytes
                                                     : good_.substr(entry.offset, entry.bytes));
      entry.offset = offset;
      entry.bytes = blocks.back().size();
      entry.block = Sha256(blocks.back());
      offset += entry.bytes;
    }
    const std::string table = cache_testing::ForgedTable(keys, blocks);
    changed.rest_bytes = table.size() - offset;
    changed.rest = Sha256(absl::string_view(table).substr(offset));
    const std::string body = EncodeManifest(changed);
    options_.ops = std::make_shared<StringFile>(
        absl::StrCat(table, body, EncodeTail({table.size(), body.size(), 0, Sha256(body)})));
    const auto pack = Got(PackReader::Open(options_), forged.name);
    const PackFindings found = VerifyPack(*pack);
    ASSERT_EQ(found.unsound, 1u) << forged.name;
    EXPECT_NE(found.findings[0].find(victim.digest.Hex()), std::string::npos) << found.findings[0];
    EXPECT_NE(found.findings[0].find(forged.finding), std::string::npos) << found.findings[0];
    for (const Record& record : records_) {
      const bool its = Sha256(record.key) == victim.digest;
      EXPECT_EQ(Get(*pack, record).hit, !its) << forged.name;
    }
  }
}

// An index that claims gigabytes is not read at all.
TEST_F(PackDamageTest, AnIndexTooLargeForItsRecordsIsRefused) {
  const PackTail tail = *DecodeTail(good_.substr(good_.size() - kPackTailBytes), good_.size());
  PackManifest manifest = *DecodeManifest(good_.substr(tail.table_bytes, tail.manifest_bytes));
  manifest.rest_bytes = uint64_t{1} << 40;
  EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(EncodeManifest(manifest)).status()));
}

}  // namespace
}  // namespace sinter
