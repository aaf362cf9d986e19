// Damage to record files on disk, of every kind an unlucky disk or a hasty copy makes: always a
// miss with a reason.
#include "cache/store/directory.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::BuildTable;
using cache_testing::PathIn;
using cache_testing::RandomBytes;
using cache_testing::ReadFile;
using cache_testing::SampleKernelKey;
using cache_testing::SampleKernelRecord;
using cache_testing::TempDir;
using cache_testing::WriteFile;

using cache_testing::kKernel;

struct Tally {
  int tried = 0, refused = 0, wrong = 0, silent = 0;
};

void Print(const char* name, const Tally& tally) {
  std::cout << name << ": tried " << tally.tried << " refused " << tally.refused << " wrong "
            << tally.wrong << " deaths 0\n";
}

class DamageTest : public testing::Test {
 protected:
  DamageTest() : store_(Options()), key_(EncodeKey(SampleKernelKey())), digest_(Sha256(key_)) {
    payload_ = EncodeKernelRecord(SampleKernelRecord());
    EXPECT_TRUE(store_.Put(kKernel, key_, digest_, payload_).ok());
    path_ = PathIn(temp_.path(), kKernel, key_);
    good_ = ReadFile(path_);
  }

  LocalStoreOptions Options() const {
    return LocalStoreOptions{.root = temp_.path(), .sync = false};
  }

  // Looks the key up with `bytes` instead of its file.
  void Try(const std::string& bytes, Tally* tally) {
    WriteFile(path_, bytes);
    const Lookup lookup = store_.Get(kKernel, key_, digest_);
    ++tally->tried;
    if (!lookup.hit) ++tally->refused;
    if (lookup.hit && lookup.payload != payload_) ++tally->wrong;
    if (!lookup.hit && lookup.detail.empty()) ++tally->silent;
  }

  // As Try, without the file system: what the verifier says.
  void Judge(const std::string& bytes, Tally* tally) {
    const EnvelopeVerdict verdict = VerifyRecordFile(bytes, kKernel, digest_, key_);
    ++tally->tried;
    if (!verdict.ok) ++tally->refused;
    if (verdict.ok && verdict.envelope.payload != payload_) ++tally->wrong;
    if (!verdict.ok && verdict.detail.empty()) ++tally->silent;
  }

  static void ExpectAllRefused(const char* name, const Tally& tally) {
    Print(name, tally);
    EXPECT_EQ(tally.refused, tally.tried);
    EXPECT_EQ(tally.wrong, 0);
    EXPECT_EQ(tally.silent, 0);
  }

  // Damage to bytes that nobody reads, such as LevelDB's meta block, is not seen; the stored value
  // is served.
  void ExpectNoneWrong(const char* name, const Tally& tally) {
    Print(name, tally);
    EXPECT_GT(tally.refused, tally.tried / 2);
    EXPECT_EQ(tally.wrong, 0);
    EXPECT_EQ(tally.silent, 0);
  }

  TempDir temp_;
  LocalStore store_;
  std::string key_;
  Digest digest_;
  std::string payload_, path_, good_;
};

TEST_F(DamageTest, EveryBitOfARecordFlipped) {
  const size_t read =
      ReadTable(good_)->value.size() + 45;  // with the entry's head, its key and its CRC
  Tally tally, rest;
  for (size_t i = 0; i < good_.size() * 8; ++i) {
    std::string bad = good_;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    Judge(bad, i / 8 < read ? &tally : &rest);
  }
  ExpectAllRefused("bit flips in memory, of the record", tally);
  ExpectNoneWrong("bit flips in memory, behind it", rest);
}

TEST_F(DamageTest, OneBitOfEveryByteFlippedOnDisk) {
  Tally tally;
  for (size_t i = 0; i < good_.size(); ++i) {
    std::string bad = good_;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    Try(bad, &tally);
  }
  ExpectNoneWrong("bit flips on disk", tally);
  ASSERT_TRUE(store_.Put(kKernel, key_, digest_, payload_).ok());
  EXPECT_EQ(store_.Get(kKernel, key_, digest_).payload, payload_);
}

TEST_F(DamageTest, CutOrZeroedFromEveryByteOn) {
  Tally cut, zeroed;
  for (size_t n = 0; n < good_.size(); ++n) {
    Judge(good_.substr(0, n), &cut);
    const std::string tail(good_.size() - n, '\0');
    if (good_.compare(n, std::string::npos, tail) != 0) Judge(good_.substr(0, n) + tail, &zeroed);
  }
  for (const size_t n : {size_t{0}, size_t{1}, size_t{47}, size_t{48}, good_.size() - 1}) {
    Try(good_.substr(0, n), &cut);
  }
  ExpectAllRefused("truncations", cut);
  ExpectAllRefused("zero tails", zeroed);
}

TEST_F(DamageTest, RandomBurstsDoublingsAndSwaps) {
  Tally tally;
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good_;
    const size_t at = random() % bad.size();
    const size_t size = 1 + random() % 64;
    bad.replace(at, std::min(size, bad.size() - at),
                RandomBytes(std::min(size, bad.size() - at), i));
    if (bad != good_) Judge(bad, &tally);
    bad = good_;
    bad.insert(at, bad.substr(at, size));
    Judge(bad, &tally);
    bad = good_;
    bad.erase(at, size);
    Judge(bad, &tally);
  }
  ExpectNoneWrong("bursts, doublings, losses", tally);
}

// A table that LevelDB itself would accept, with right checksums, around a damaged envelope.
TEST_F(DamageTest, DamageUnderARightTableChecksum) {
  const std::string envelope(ReadTable(good_)->value);
  Tally tally;
  for (size_t i = 0; i < envelope.size(); ++i) {
    std::string bad = envelope;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    Judge(BuildTable(TableUserKey(kKernel, digest_), bad), &tally);
  }
  Judge(BuildTable(TableUserKey(RecordKind::kPlan, digest_), envelope), &tally);
  Judge(BuildTable("", envelope), &tally);
  ExpectAllRefused("forged checksums", tally);
}

// The tombstone decides by being there; the record under it is never served again.
TEST_F(DamageTest, AQuarantinedRecordNeverComesBack) {
  ASSERT_TRUE(store_.Quarantine(kKernel, digest_, "seed 3").ok());
  Tally tally;
  Try(good_, &tally);
  for (size_t n = 0; n < good_.size(); n += 97) Try(good_.substr(0, n), &tally);
  ExpectAllRefused("records under a tombstone", tally);
}

}  // namespace
}  // namespace sinter
