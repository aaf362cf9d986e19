#include "cache/store/crc32c.h"

#include <gtest/gtest.h>

#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

// RFC 3720, B.4.
TEST(Crc32cTest, TheStandardsVectors) {
  std::string up(32, '\0'), down(32, '\0');
  for (int i = 0; i < 32; ++i) {
    up[i] = static_cast<char>(i);
    down[i] = static_cast<char>(31 - i);
  }
  const struct {
    std::string data;
    uint32_t crc;
  } cases[] = {{std::string(32, '\0'), 0x8a9136aau},
               {std::string(32, '\xff'), 0x62a8ab43u},
               {up, 0x46dd794eu},
               {down, 0x113fdb5cu},
               {"123456789", 0xe3069283u},
               {"", 0}};
  for (const auto& c : cases) {
    EXPECT_EQ(Crc32c(c.data), c.crc);
    EXPECT_EQ(Crc32cFallback(c.data), c.crc);
  }
}

TEST(Crc32cTest, AllWaysAgreeAtEveryLengthAndOffset) {
  const std::string data = cache_testing::RandomBytes(20000, 3);
  for (size_t n = 0; n + 9 <= data.size(); n += n < 1100 ? 1 : 367) {
    for (size_t at = 0; at < 9; ++at) {
      const absl::string_view part(data.data() + at, n);
      const uint32_t want = Crc32cFallback(part);
      EXPECT_EQ(Crc32c(part), want) << at << " " << n;
      EXPECT_EQ(Crc32cStriped(part), want) << at << " " << n;
    }
  }
}

}  // namespace
}  // namespace sinter
