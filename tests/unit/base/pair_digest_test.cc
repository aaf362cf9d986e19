#include "src/base/pair_digest.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sinter {
namespace {

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  uint32_t x = 12345;
  for (char& byte : bytes) byte = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return bytes;
}

TEST(PairDigestTest, IsTheDigestOfTheHalvesDigests) {
  const std::string data = Bytes(1000);  // 64 * ceil(1000 / 128) = 512
  const Digest first = Sha256(data.substr(0, 512)), second = Sha256(data.substr(512));
  EXPECT_EQ(PairSha256(data), Sha256(std::string(first.View()) + std::string(second.View())));
  EXPECT_EQ(PairSha256("").Hex(),
            Sha256(std::string(Sha256("").View()) + std::string(Sha256("").View())).Hex());
}

TEST(PairDigestTest, EveryLengthAgreesWithTheFallback) {
  const std::string data = Bytes(5000);
  for (size_t size = 0; size <= 700; ++size) {
    EXPECT_EQ(PairSha256(data.substr(0, size)), PairSha256Fallback(data.substr(0, size))) << size;
  }
  for (size_t size = 701; size <= data.size(); size += 37) {
    const absl::string_view part = absl::string_view(data).substr(data.size() - size);
    EXPECT_EQ(PairSha256(part), PairSha256Fallback(part)) << size;
  }
}

TEST(PairDigestTest, EveryFlipChangesIt) {
  const std::string data = Bytes(300);
  std::set<std::string> seen = {PairSha256(data).Hex()};
  for (size_t i = 0; i < data.size() * 8; ++i) {
    std::string other = data;
    other[i / 8] = static_cast<char>(other[i / 8] ^ (1 << (i % 8)));
    seen.insert(PairSha256(other).Hex());
  }
  EXPECT_EQ(seen.size(), data.size() * 8 + 1);
}

}  // namespace
}  // namespace sinter
