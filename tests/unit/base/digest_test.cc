#include "src/base/digest.h"

#include "absl/strings/escaping.h"
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

// Signatures and HMAC against the vectors of RFC 8032 and RFC 4231.

std::string Pem(const char* what, const char* head, const char* hex) {
  return absl::StrCat("-----BEGIN ", what, " KEY-----\n",
                      absl::Base64Escape(absl::HexStringToBytes(absl::StrCat(head, hex))),
                      "\n-----END ", what, " KEY-----\n");
}
std::string PrivatePem(const char* seed) {
  return Pem("PRIVATE", "302e020100300506032b657004220420", seed);
}
std::string PublicPem(const char* key) { return Pem("PUBLIC", "302a300506032b6570032100", key); }

// RFC 8032, section 7.1, tests 1 and 2.
struct Vector {
  const char *seed, *key, *message, *signature;
};
constexpr Vector kVectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "4"
     "6bd25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d"
     "8c387b2eaeb4302aeeb00d291612bb0c00"},
};

TEST(SigningTest, SignsAndVerifiesAsTheStandardSays) {
  for (const Vector& v : kVectors) {
    const auto key = Got(SigningKey::FromPem(PrivatePem(v.seed)));
    EXPECT_EQ(absl::BytesToHexString(key.public_key().View()), v.key);
    const std::string message = absl::HexStringToBytes(v.message);
    const auto signature = Got(key.Sign(message));
    EXPECT_EQ(absl::BytesToHexString(signature), v.signature);
    EXPECT_TRUE(VerifySignature(key.public_key(), message, signature));
    EXPECT_FALSE(VerifySignature(key.public_key(), message + "x", signature));
    for (size_t i = 0; i < signature.size(); ++i) {
      std::string bad = signature;
      bad[i] = static_cast<char>(bad[i] ^ 4);
      EXPECT_FALSE(VerifySignature(key.public_key(), message, bad)) << i;
    }
    EXPECT_FALSE(VerifySignature(key.public_key(), message, signature.substr(1)));
  }
}

TEST(SigningTest, ReadsAnyNumberOfPublicKeys) {
  const auto two = Got(PublicKeysFromPem(PublicPem(kVectors[0].key) + PublicPem(kVectors[1].key)));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(absl::BytesToHexString(two[1].View()), kVectors[1].key);
}

TEST(SigningTest, RefusesWhatIsNoKeyWithoutSayingWhatItIs) {
  const std::string secret = PrivatePem(kVectors[0].seed);
  for (const std::string& pem : {std::string(), std::string("secret words"), secret.substr(0, 60),
                                 PublicPem(kVectors[0].key)}) {
    const auto key = SigningKey::FromPem(pem);
    EXPECT_TRUE(absl::IsInvalidArgument(key.status()));
    EXPECT_THAT(key.status().message(), Not(HasSubstr("secret words")));
  }
  for (const std::string& pem :
       {std::string(), secret,
        PublicPem(kVectors[0].key) + "-----BEGIN "
                                     "PUBLIC KEY-----\nAAAA\n-----END PUBLIC "
                                     "KEY-----\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(PublicKeysFromPem(pem).status())) << pem;
  }
}

// RFC 4231, test cases 1, 2 and 6.
TEST(SigningTest, HmacIsAsTheStandardSays) {
  EXPECT_EQ(HmacSha256(std::string(20, '\x0b'), "Hi There").Hex(),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HmacSha256("Jefe", "what do ya want for nothing?").Hex(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      HmacSha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")
          .Hex(),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(SigningTest, ComparesWholeStrings) {
  EXPECT_TRUE(EqualInConstantTime("abc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abd"));
  EXPECT_FALSE(EqualInConstantTime("abc", "ab"));
  EXPECT_TRUE(EqualInConstantTime("", ""));
}

}  // namespace
}  // namespace sinter
