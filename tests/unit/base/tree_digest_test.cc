#include "src/base/tree_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace sinter {
namespace {

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  uint32_t x = 12345;
  for (char& byte : bytes) byte = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return bytes;
}

std::string OfParts(const std::string& data, const std::vector<size_t>& ends) {
  std::string digests;
  size_t begin = 0;
  for (const size_t end : ends) {
    digests += std::string(Sha256(data.substr(begin, end - begin)).View());
    begin = end;
  }
  return Sha256(digests).Hex();
}

// 2,000 bytes are 32 blocks, the last one of 16 bytes; 100 are two, 1,100 are 18.
TEST(TreeDigestTest, IsTheDigestOfThePartsDigests) {
  std::vector<size_t> ends;
  for (size_t i = 1; i <= 16; ++i) ends.push_back(std::min<size_t>(128 * i, 2000));
  EXPECT_EQ(TreeSha256(Bytes(2000)).Hex(), OfParts(Bytes(2000), ends));
  ends.assign(16, 0);
  EXPECT_EQ(TreeSha256("").Hex(), OfParts("", ends));
  for (size_t i = 7; i < 16; ++i) ends[i] = i < 15 ? 64 : 100;
  EXPECT_EQ(TreeSha256(Bytes(100)).Hex(), OfParts(Bytes(100), ends));
  for (size_t i = 0; i < 16; ++i) ends[i] = std::min<size_t>(64 * (i + 1 + (i + 1) / 8), 1100);
  EXPECT_EQ(TreeSha256(Bytes(1100)).Hex(), OfParts(Bytes(1100), ends));
}

TEST(TreeDigestTest, EveryWayAgreesAtEveryLength) {
  const std::string data = Bytes(20000);
  const auto ways = WaysToCompressLanes();
  for (size_t size = 0; size <= data.size(); size += size < 2300 ? 1 : 61) {
    // From the end, so that nothing is aligned.
    const absl::string_view part = absl::string_view(data).substr(data.size() - size);
    const Digest plain = TreeSha256By(nullptr, part);
    EXPECT_EQ(TreeSha256(part), plain) << size;
    for (const CompressLanes way : ways) {
      if (way == nullptr) continue;
      EXPECT_EQ(TreeSha256By(way, part), plain) << size;
    }
  }
}

TEST(TreeDigestTest, EveryFlipChangesIt) {
  const std::string data = Bytes(1100);
  std::set<std::string> seen = {TreeSha256(data).Hex()};
  for (size_t i = 0; i < data.size() * 8; ++i) {
    std::string other = data;
    other[i / 8] = static_cast<char>(other[i / 8] ^ (1 << (i % 8)));
    seen.insert(TreeSha256(other).Hex());
  }
  EXPECT_EQ(seen.size(), data.size() * 8 + 1);
}

// Each length is another partition.
TEST(TreeDigestTest, LengthsDiffer) {
  std::set<std::string> seen;
  for (size_t size = 0; size <= 3000; ++size) seen.insert(TreeSha256(std::string(size, 0)).Hex());
  EXPECT_EQ(seen.size(), 3001u);
}

}  // namespace
}  // namespace sinter
