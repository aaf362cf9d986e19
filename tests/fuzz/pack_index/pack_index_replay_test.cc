// Replays sound tables of packs and seeded mutations of them through the fuzz target, so that every
// build runs some of it.
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"
#include "tests/unit/cache/forged_table.h"

namespace sinter::pack_index_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

std::string TableOf(int records) {
  std::string bytes;
  TableWriter table(&bytes);
  for (int i = 0; i < records; ++i) {
    table.Add(absl::StrCat("k/", std::string(31, 'a'), i % 10), "value");
  }
  table.Finish();
  return bytes;
}

TEST(PackIndexFuzzTest, TheCorpusSeedsAndMutationsAreHandled) {
  const std::map<std::string, std::string> seeds = {
      {"seed0", TableOf(0)}, {"seed1", TableOf(1)}, {"seed2", TableOf(5)}};
  EXPECT_GE(ReplaySeeds(Target, "tests/fuzz/pack_index/corpus", seeds, 10000), 3);
}

// What mutations do not reach: lengths, handles and restart points that say anything, under right
// checksums.
TEST(PackIndexFuzzTest, LengthsUnderRightChecksumsAreHandled) {
  using namespace cache_testing;  // NOLINT: the parts of a forged table
  std::mt19937_64 random(8);
  const std::string key = absl::StrCat("k/", std::string(31, 'a'), "0");
  const auto any = [&](uint64_t right) -> uint64_t {
    const uint64_t wrong[] = {
        0, right + 1, right - 1, 1u << 20, 0xffffffff - random() % 64, random() >> random() % 64};
    return random() % 4 != 0 ? right : wrong[random() % std::size(wrong)];
  };
  const auto forged = [&](absl::string_view value) {
    const auto compression = static_cast<char>(any(0) % 3);
    return Block(ForgedEntry(any(0), any(key.size()), any(value.size()), absl::StrCat(key, value)),
                 std::vector<uint32_t>(any(1) % 4, static_cast<uint32_t>(any(0))), compression);
  };
  constexpr int kTables = 20000;
  for (int i = 0; i < kTables; ++i) {
    const std::string block = forged("value");
    const std::string index = forged(Handle(any(0), any(block.size() - 5)));
    Replay(Target, block + ForgedRest(block.size(), index));
  }
  std::cout << "pack index fuzz: forged tables " << kTables << " deaths 0\n";
}

// A byte of a block as somebody writes it who then makes the block's checksum right.
std::string Resealed(std::string block, size_t at, char byte) {
  constexpr size_t kCrcBytes = 4;
  block[at] = byte;
  block.resize(block.size() - kCrcBytes);
  ByteWriter crc;
  crc.U32(cache_testing::MaskedCrc(block));
  return block + crc.str();
}

// Each byte of the records, the meta block, the index and the footer, in turn and in pairs, with
// right checksums.
TEST(PackIndexFuzzTest, EveryByteUnderRightChecksumsIsHandled) {
  const std::string table = TableOf(5);
  const absl::string_view footer =
      absl::string_view(table).substr(table.size() - kTableFooterBytes);
  const uint64_t index_at = *CheckFooter(footer, table.size());
  constexpr size_t kRecord = 2 + 31 + 1 + 5 + 3 + 8 + kBlockTrailerBytes;  // of one record
  ASSERT_LT(5 * kRecord, index_at);
  std::vector<std::string> blocks;
  for (size_t at = 0; at < 5 * kRecord; at += kRecord) blocks.push_back(table.substr(at, kRecord));
  blocks.push_back(table.substr(5 * kRecord, index_at - 5 * kRecord));  // meta
  blocks.push_back(table.substr(index_at, table.size() - kTableFooterBytes - index_at));
  for (const std::string& block : blocks) {  // so that the division is right
    ASSERT_EQ(Resealed(block, 0, block[0]), block);
  }
  int executions = 0;
  const auto replay = [&](size_t changed, const std::string& block) {
    std::string forged;
    for (size_t i = 0; i < blocks.size(); ++i) forged += i == changed ? block : blocks[i];
    Replay(Target, absl::StrCat(forged, footer));
    ++executions;
  };
  std::mt19937_64 random(9);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string& block = blocks[i];
    const size_t bytes = block.size() - 4;  // without the checksum, which Resealed makes
    for (size_t at = 0; at < bytes; ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        replay(i, Resealed(block, at, static_cast<char>(block[at] ^ (1 << bit))));
      }
      for (const char byte : {'\0', '\x7f', '\x80', '\xff'}) replay(i, Resealed(block, at, byte));
    }
    for (int pair = 0; pair < 4000; ++pair) {
      const std::string one = Resealed(block, random() % bytes, static_cast<char>(random() % 256));
      replay(i, Resealed(one, random() % bytes, static_cast<char>(random() % 256)));
    }
  }
  for (size_t at = table.size() - kTableFooterBytes; at < table.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte, ++executions) {
      std::string forged = table;
      forged[at] = static_cast<char>(byte);
      Replay(Target, forged);
    }
  }
  EXPECT_GT(executions, 20000);
  std::cout << "pack index fuzz: bytes under right checksums " << executions << " deaths 0\n";
}

}  // namespace
}  // namespace sinter::pack_index_fuzz
