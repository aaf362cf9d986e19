// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it. SINTER_UPDATE_CORPUS=1 rewrites the corpus.
#include "absl/strings/escaping.h"
#include "src/base/digest.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"

namespace sinter::pem_keys_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

constexpr char kCorpus[] = "tests/fuzz/pem_keys/corpus";  // the test runs in the root of the tree

std::string Pem(const char* what, const std::string& hex) {
  return absl::StrCat("-----BEGIN ", what, " KEY-----\n",
                      absl::Base64Escape(absl::HexStringToBytes(hex)), "\n-----END ", what,
                      " KEY-----\n");
}

void Write(const char* name, char reader, const std::string& pem) {
  WriteSeed(absl::StrCat(kCorpus, "/", name), std::string(1, reader) + pem);
}

void WriteCorpus() {
  const std::string ed25519 = "302e020100300506032b657004220420",
                    x25519 = "302e020100300506032b656e04220420";
  const std::string seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
  const std::string head = "302a300506032b6570032100";
  const std::string one =
      Pem("PUBLIC", head + "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  const std::string two =
      Pem("PUBLIC", head + "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
  const std::string secret = Pem("PRIVATE", ed25519 + seed);
  Write("private", 0, secret);
  Write("private_of_another_kind", 0, Pem("PRIVATE", x25519 + seed));
  Write("private_cut", 0, secret.substr(0, secret.size() / 2));
  Write("public", 1, one);
  Write("two_public", 1, one + "a comment\n" + two);
  Write("public_cut", 1, one + two.substr(0, two.size() - 20));
}

TEST(PemKeysFuzzTest, TheCorpusAndMutationsAreHandled) {
  if (!PublicKeysFromPem("").ok() &&
      PublicKeysFromPem("").status().code() == absl::StatusCode::kUnimplemented) {
    GTEST_SKIP() << "this build has no libcrypto";
  }
  if (std::getenv("SINTER_UPDATE_CORPUS") != nullptr) WriteCorpus();
  int accepted = 0;
  const int files =
      ReplayCorpus(Target, kCorpus, 500, 1, [&](const std::string&, const std::string& seed) {
        const std::string pem = seed.substr(1);
        accepted += seed[0] == 0 ? SigningKey::FromPem(pem).ok() : PublicKeysFromPem(pem).ok();
      });
  EXPECT_GE(files, 6);
  EXPECT_EQ(accepted, 3);
}

}  // namespace
}  // namespace sinter::pem_keys_fuzz
