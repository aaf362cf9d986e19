#include "src/base/format.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(ByteSize, UnitsOf1024AndOf1000) {
  const std::pair<const char*, uint64_t> kRows[] = {{"0", 0},
                                                    {"500000000", 500000000},
                                                    {"7B", 7},
                                                    {"64k", 64 << 10},
                                                    {"64KiB", 64 << 10},
                                                    {"64kB", 64000},
                                                    {"3M", 3 << 20},
                                                    {"3mib", 3 << 20},
                                                    {"500MB", 500000000},
                                                    {"2 GiB", uint64_t{2} << 30},
                                                    {"2G", uint64_t{2} << 30},
                                                    {"2GB", 2000000000},
                                                    {"1T", uint64_t{1} << 40},
                                                    {"18446744073709551615", UINT64_MAX},
                                                    {"16777215T", uint64_t{16777215} << 40}};
  for (const auto& [text, bytes] : kRows) {
    const uint64_t parsed = Got(ParseByteSize(text), text);
    EXPECT_EQ(parsed, bytes) << text;
  }
}

TEST(ByteSize, AnythingElseIsRefused) {
  for (const char* text : {"", " ", "B", "GiB", "-1", "+1", "1.5G", "1e9", "0x10", " 1", "1  G",
                           "1G ", "1X", "1KBs", "1iB", "1 0", "1G2"}) {
    EXPECT_EQ(ParseByteSize(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  for (const char* text : {"18446744073709551616", "16777216T", "99999999999999999999999"}) {
    EXPECT_EQ(ParseByteSize(text).status().code(), absl::StatusCode::kOutOfRange) << text;
  }
  EXPECT_THAT(std::string(ParseByteSize(std::string(1000, 'x')).status().message()),
              ::testing::SizeIs(::testing::Lt(200)));
}

}  // namespace
}  // namespace sinter
