#include "src/base/digest.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

// NIST, "Examples with Intermediate Values" (FIPS 180-4) and CAVP SHA-256 short messages.
TEST(Sha256, NistVectors) {
  const struct {
    std::string message;
    const char* hex;
  } kRows[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
       "lmnopqrsmnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1000000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
      {"\xd3", "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1"},
      {"\x11\xaf", "5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Sha256(row.message).Hex(), row.hex) << row.message.size();
    EXPECT_EQ(Sha256Fallback(row.message).Hex(), row.hex) << row.message.size();
  }
}

TEST(Sha256, BothImplementationsAgreeAtEveryLengthAroundTheBlock) {
  std::string message;
  for (int size = 0; size <= 300; ++size) {
    ASSERT_EQ(Sha256(message), Sha256Fallback(message)) << size;
    message.push_back(static_cast<char>(size * 37 + 11));
  }
}

TEST(Digest, HexRoundTrips) {
  const Digest digest = Sha256("x");
  ASSERT_TRUE(Digest::FromHex(digest.Hex()).ok());
  EXPECT_EQ(*Digest::FromHex(digest.Hex()), digest);
  EXPECT_EQ(digest.View().size(), 32u);
}

TEST(Digest, MalformedHexIsRefused) {
  const std::string good = Sha256("x").Hex();
  for (const std::string& bad : {std::string(), good.substr(1), good + "0", "G" + good.substr(1),
                                 good.substr(0, 63) + "A", good.substr(0, 63) + " "}) {
    EXPECT_EQ(Digest::FromHex(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Digest, IsAKeyOfMaps) {
  absl::flat_hash_map<Digest, int> map;
  map[Sha256("a")] = 1;
  map[Sha256("b")] = 2;
  EXPECT_EQ(map.at(Sha256("a")), 1);
  EXPECT_EQ(map.at(Sha256("b")), 2);
  EXPECT_NE(Sha256("a") < Sha256("b"), Sha256("b") < Sha256("a"));
}

}  // namespace
}  // namespace sinter
